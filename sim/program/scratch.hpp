// Scratch: the memory that a kernel which stands for several of PyTorch's takes from its allocator
// while it runs, in the order in which the operators of its definition do. Only the replay of an
// allocator reads it (caching_allocator.hpp): to the plan these are workspaces.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/units.hpp"

namespace sim {

enum class ScratchMoment : std::uint8_t {
  take,           // a tensor of its own
  give,           // gives that one back
  write_results,  // takes what the operator writes
  free_operands,  // gives back what the operator frees
};
struct ScratchStep {
  ScratchMoment moment = ScratchMoment::take;
  std::uint8_t tensor = 0;  // of take and give
  Bytes bytes{};            // of take
  bool operator==(const ScratchStep&) const = default;
};
using Scratch = std::vector<ScratchStep>;

// cross_entropy(logits.float()): cast, log-softmax (kept); backward the gradient of the picked
// numbers, that of the log-softmax, the cast one (torch/nn/functional.py, cross_entropy;
// ATen/native/SoftMax.cpp). `logits`: in fp32.
Scratch eager_loss_forward(Bytes logits);
Scratch eager_loss_backward(Bytes logits);
// The same with the vocabulary split over ranks (torch/distributed/tensor/parallel/loss.py,
// _log_softmax and _nll_loss_and_log_softmax_backward).
Scratch split_loss_forward(Bytes logits);
Scratch split_loss_backward(Bytes logits);

// The same loss without a backward pass, some times over, behind what the operator does.
Scratch loss_metrics(Bytes logits, int count);

// Scores of attention as matrices in 16 bits; `kept`: what the backward pass holds of them.
// Forward: torch.empty, baddbmm into another one, softmax; eager: scores.float(), masked in place,
// softmax in fp32, cast back (Megatron-LM, core/transformer/dot_product_attention.py and
// fusions/fused_softmax.py; Scaling, core/nn/attention/attention.py and core/nn/masked_softmax).
// Backward: the gradient of the probabilities; fused in place (csrc/megatron,
// scaled_masked_softmax.h), eager cast, softmax, mask and cast, a tensor each.
struct Scores {
  Bytes matrix{};  // of all heads
  Bytes kept{};
  bool eager = false, dropout = false;
};
Scratch scores_forward(const Scores& scores);
Scratch scores_backward(const Scores& scores);

// all_gather into a list: gathered flat, then copied into its parts (ProcessGroupNCCL.cpp,
// allgather). `gathered`: all parts.
Scratch gathered_list(Bytes gathered);

// A tensor that a copy takes the place of: both are there while that is made.
Scratch copied(Bytes bytes);

}  // namespace sim
