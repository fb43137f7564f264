// Kernels of ranks that train apart and meet (sim::Layout::local_steps). Backends that do not have
// them leave the table out; sim/plan/rules/local-steps.md says what they compute.
#pragma once

#include <cstddef>
#include <cstdint>

#include "real/engine/kernels.hpp"
#include "sim/layout/layout.hpp"

namespace real::kernels {

// message = own, or, with the parameters of the last meeting, last - own.
void outer_gradient(std::int64_t elements, const float* own, const float* last, float* message,
                    StreamHandle stream);

// Quantised: pieces for so many groups, one after another, of `part` numbers each and their scales;
// behind the last number there is zero.
struct OuterPieces {
  sim::OuterQuantization how = sim::OuterQuantization::none;
  std::int64_t elements = 0, part = 0;
  int count = 1;
};
void quantized_outer_gradient(const OuterPieces& pieces, const float* own, const float* last,
                              std::byte* message, StreamHandle stream);
// The mean of one piece from every group.
void mean_outer(const OuterPieces& pieces, const std::byte* came, std::byte* message,
                StreamHandle stream);

struct OuterUpdate {
  bool nesterov = false;  // else the message is what the ranks agree on
  float rate = 0, momentum = 0;
  float mix = 0;         // share of its own parameters that a rank keeps
  OuterPieces pieces{};  // how the message comes
};
// `last` and `velocity`: of the outer optimizer. `master`: null without masters.
struct OuterState {
  const float* message = nullptr;  // or:
  const std::byte* pieces = nullptr;
  float* last = nullptr;
  float* velocity = nullptr;
  float* master = nullptr;
  float* weight = nullptr;
};
// SGD with Nesterov's momentum as torch.optim.SGD has it: v = m v + g; p -= rate (g + m v).
void apply_outer(const OuterUpdate& update, const OuterState& state, std::int64_t elements,
                 StreamHandle stream);

struct OuterTable {
  decltype(&kernels::outer_gradient) outer_gradient = nullptr;
  decltype(&kernels::quantized_outer_gradient) quantized_outer_gradient = nullptr;
  decltype(&kernels::mean_outer) mean_outer = nullptr;
  decltype(&kernels::apply_outer) apply_outer = nullptr;
};

}  // namespace real::kernels
