// Floating-point operations of a step, counted as papers count them.
//
// Model FLOPs: three times the forward pass (two products backward per product forward), without
// recomputation. Hardware FLOPs: with the forward passes that recomputation runs again. For the
// classic GPT these are 72 B s L h^2 (1 + s/6h + V/12hL) and, with full recomputation, 96 B s L h^2
// (1 + s/6h + V/16hL) (Narayanan et al. 2021, section 5.1 and appendix). Neither counts the scores
// that a flash kernel computes again inside its backward pass: published figures leave them out.
// Kernel::flops has what a kernel executes.
#pragma once

#include "sim/layout/batch_loads.hpp"
#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"

namespace sim {

enum class AttentionCount : std::uint8_t {
  full,         // the whole s x s square, as Megatron-LM's formula
  causal_half,  // half of it where the mask is causal
};

// For sequences of a data set (Layout::has_lengths), model FLOPs are those of its tokens; hardware
// FLOPs include padding. `loads`: batch_loads(), where they are known.
Flops model_flops(const Model& model, const Layout& layout, AttentionCount count,
                  const BatchLoads* loads = nullptr);
Flops hardware_flops(const Model& model, const Layout& layout, AttentionCount count,
                     const BatchLoads* loads = nullptr);

// FLOPs of attention that a token has for each token of its sequence, over its other FLOPs.
double attention_weight(const Model& model);

}  // namespace sim
