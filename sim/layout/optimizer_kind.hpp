// Optimizers by what they keep per parameter beside the weights, and what an update moves.
#pragma once

#include <array>
#include <cstdint>

#include "sim/base/words.hpp"

namespace sim {

// adam: Adam, AdamW. sgd: without momentum; momentum: SGD with it. muon: a momentum of matrices,
// made orthogonal by Newton-Schulz iterations, and Adam for all else (Jordan et al. 2024;
// sim/plan/rules/muon.md). lamb: Adam's direction, scaled by the norms of each tensor (You et al.
// 2020; sim/plan/rules/lamb.md). adafactor: without a momentum, and of a matrix the sums of rows
// and columns of the second moment (Shazeer and Stern 2018). ademamix: Adam with a second, slower
// momentum (Pagliardini et al. 2024).
enum class OptimizerKind : std::uint8_t {
  adam,
  lion,
  momentum,
  sgd,
  muon,
  lamb,
  adafactor,
  ademamix
};
constexpr auto words_of(OptimizerKind) {
  return std::array{
      Word{OptimizerKind::adam, "adam"},           Word{OptimizerKind::lion, "lion"},
      Word{OptimizerKind::momentum, "momentum"},   Word{OptimizerKind::sgd, "sgd"},
      Word{OptimizerKind::muon, "muon"},           Word{OptimizerKind::lamb, "lamb"},
      Word{OptimizerKind::adafactor, "adafactor"}, Word{OptimizerKind::ademamix, "ademamix"}};
}

// Numbers kept per parameter: first and second moment, or a momentum. muon: those of a matrix. The
// state of adafactor is no multiple of the parameters (optimizer_states.hpp).
constexpr int moments_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::ademamix:
      return 3;
    case OptimizerKind::adam:
    case OptimizerKind::lamb:
      return 2;
    case OptimizerKind::lion:
    case OptimizerKind::momentum:
    case OptimizerKind::muon:
      return 1;
    case OptimizerKind::sgd:
    case OptimizerKind::adafactor:
      break;
  }
  return 0;
}

// Numbers per parameter that PyTorch's multi-tensor form of an update reads and writes operation by
// operation. 0: PyTorch has no such optimizer.
// adam: torch/optim/adamw.py, _multi_tensor_adamw: weight decay 2, first moment 3, second moment 2
// + 3, root 2, bias correction 2, epsilon 2, update 4.
// momentum, sgd: pytorch/pytorch torch/optim/sgd.py (commit 0316fdce), _multi_tensor_sgd without
// weight decay and Nesterov: _foreach_mul_ 2 and _foreach_add_ 3 of the momentum, update 3.
constexpr int eager_passes(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::adam:
      return 20;
    case OptimizerKind::momentum:
      return 8;
    case OptimizerKind::sgd:
      return 3;
    case OptimizerKind::lion:
    case OptimizerKind::muon:
    case OptimizerKind::lamb:
    case OptimizerKind::adafactor:
    case OptimizerKind::ademamix:
      break;
  }
  return 0;
}

}  // namespace sim
