// Cross-entropy over a vocabulary that lies whole or in slices on the ranks of a tensor group.
//
// In slices as Megatron-LM's core/tensor_parallel/cross_entropy.py does it: the maximum of a
// token's logits is reduced over the group, then its target's logit and the sum of its exponentials
// (both relative to the maximum). Its loss is log(sum) - target, its gradient exp/sum - [is
// target].
#pragma once

#include <cstdint>
#include <span>

#include "real/engine/kernels.hpp"

namespace real {

// Classes first .. first + width of the vocabulary; those from `classes` on are padding, which
// takes no part and has no gradient.
struct ClassSlice {
  std::int64_t first = 0, width = 0, classes = 0;
  std::int64_t real_width() const;  // without padding
};

// The lowest finite number where a slice is padding only.
void loss_maximum(const ClassSlice& slice, std::span<const float> logits, std::span<float> maximum);
// exponentials may be `logits` itself or empty; target_logit is 0 where the target is elsewhere. An
// empty maximum: the slice is the whole vocabulary, a row has its own; a target that is not in it
// makes the loss NaN.
void loss_exponentials(const ClassSlice& slice, std::span<const float> logits,
                       const kernels::TokenIds& targets, std::span<const float> maximum,
                       std::span<float> exponentials, std::span<float> target_logit,
                       std::span<float> exponential_sum);
// Sum of the losses of all tokens.
double loss_of(std::span<const float> target_logit, std::span<const float> exponential_sum);
// Gradient of scale * (sum of losses); dlogits may be `exponentials` itself.
void loss_gradient(const ClassSlice& slice, std::span<const float> exponentials,
                   std::span<const float> exponential_sum, const kernels::TokenIds& targets,
                   float scale, std::span<float> dlogits);

// The same where the logits were kept. An empty maximum follows from the target's logit, as in
// loss_exponentials(); dlogits may be `logits` itself.
struct KeptLogits {
  std::span<const float> logits, maximum, target_logit, exponential_sum;
};
void loss_gradient(const ClassSlice& slice, const KeptLogits& kept,
                   const kernels::TokenIds& targets, float scale, std::span<float> dlogits);

}  // namespace real
