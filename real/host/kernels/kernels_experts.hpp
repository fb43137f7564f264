// Mixtures of experts: choice, copies of tokens and their sums, order by expert, and the activation
// that the weight of a choice multiplies.
#pragma once

#include <cstdint>
#include <span>

#include "real/engine/kernels/routing.hpp"
#include "sim/model/model.hpp"

namespace real {

// Weights: softmax over the scores of the experts that a token has chosen; where that is one, over
// all, as its weight would else be 1 whatever the router says (Megatron-LM asks for
// --moe-router-pre-softmax then). `probabilities` [tokens, experts], zero for those that take no
// part; `weights`: of the copies, in the order in which they are sent.
void choose(const Routing& routing, std::span<const float> scores, std::span<float> probabilities,
            std::span<float> weights);
void choose_backward(const Routing& routing, std::span<const float> probabilities,
                     std::span<const float> weight_gradients, std::span<float> score_gradients);

// A row for each choice of a token, and the sum of them, in the order of the choices.
void copy_tokens(const Routing& routing, std::span<const float> tokens, std::span<float> copies);
void sum_copies(const Routing& routing, std::span<const float> copies, std::span<float> tokens);

void sort_copies(const Arrived& arrived, std::span<const float> came, std::span<float> sorted);
void restore_order(const Arrived& arrived, std::span<const float> sorted, std::span<float> came);

// Rows sorted by expert, weights as they came.
struct WeighedActivation {
  sim::Function function = sim::Function::swiglu;
  std::int64_t width = 0;
  Arrived arrived;
};
// y = weight * activation(x)
void weighed_forward(const WeighedActivation& of, std::span<const float> x,
                     std::span<const float> weights, std::span<float> y);
// ReLU reads its output instead of its input: `x_or_y`. dweight = dy . activation(x)
struct WeighedBackward {
  std::span<const float> x_or_y, weights, dy;
  std::span<float> dx, weight_gradients;
};
void weighed_backward(const WeighedActivation& of, const WeighedBackward& operands);

}  // namespace real
