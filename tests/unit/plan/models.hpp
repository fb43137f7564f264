// Small models for the tests of plans, with the operators of a classic GPT layer.
#pragma once

#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"
#include "sim/plan/plan.hpp"
#include "sim/program/program.hpp"

namespace sim::test {

using Ranks = std::vector<std::uint32_t>;
// ranks_of() is the group that a rank has in a role, in order; none: it has none.
Ranks ranks_of(const Plan& plan, std::uint32_t rank, GroupRole role);

struct GptShape {
  int layers = 4;
  std::int64_t hidden = 64;
  std::int64_t heads = 4;
  std::int64_t vocabulary = 1000;
  bool tied = false;
};

// A GPT as Korthikanti et al. 2022 count it: two norms, QKV, attention with dropout, projection,
// dropout, MLP of 4 h, GeLU, dropout; each layer saves s b h (34 + 5 a s / h) bytes.
Model gpt(const GptShape& shape);

// Small transformers as sim/model builds them, which the real engine can execute; by `kind`:
//  0  GPT: learned positions, LayerNorm, biases, GELU, tied head
//  1  Llama: rotary, RMSNorm, grouped queries, SwiGLU, untied
//  2  Qwen 3: as Llama, with q/k norms and a tied head
//  3  ReLU after post-norm layers, as of Vaswani et al. 2017, decoder only
//  4  OPT: as GPT, with dropout and ReLU
Model transformer(int kind, int layers = 8);
inline constexpr int transformer_kinds = 5;

// As Llama, with what newer families have besides; by `kind`:
//  0  OLMo 2: norms behind branches, q/k norms over all heads
//  1  Gemma 2: norms before and behind, a scaled embedding, soft caps, a window in every other
//  layer 2  Granite: scaled embedding, branches and logits, tied head 3  SmolLM 3: every fourth
//  layer without positions; queries and keys turned in part
Model newer_transformer(int kind, int layers = 8);
inline constexpr int newer_kinds = 4;

// Small mixtures of 8 experts, two for each token; by `kind`:
//  0  Mixtral: experts in every layer
//  1  DeepSeek-V2: latent attention, a first layer without experts, a shared expert
Model mixture(int kind, int layers = 4);
inline constexpr int mixture_kinds = 2;

// `layers` layers of `weights` parameters each, as a layer list.
Model layer_list(int layers, std::int64_t weights);

// One micro-batch of `micro_batches` per data-parallel rank, sequence length 128.
Layout layout_for(int tensor, int data, int pipeline, int micro_batches);

// One micro-batch of 1024 tokens over `ranks` context-parallel ranks.
Layout context_layout(int ranks, ContextExchange exchange);

// Tensor parallelism as a compiler's, in 16 bits and in 8.
void run_compiled(Execution& execution);

double gemm_flops(const Program& program);
// Bytes that a rank receives over its tensor group, of so many, in layers.
double received_in_layers(const Program& program, int tensor);

// Operators of layer 1 with this action in this pass.
int count_in_layer(const Program& program, Action action, Pass pass);

}  // namespace sim::test
