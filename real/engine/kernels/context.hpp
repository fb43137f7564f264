// Attention over context ranks (sim/plan/rules/context-parallel.md): queries of a rank's tokens
// against slices, each of which has the keys and values of one rank's tokens, [tokens, k|v].
#pragma once

#include "real/engine/kernels.hpp"

namespace real::kernels {

// SliceShape is an operator's queries and slices. `heads`: of the rank's own [q|k|v].
struct SliceShape {
  HeadsShape heads;
  bool causal = true;
  ScoreRules rules{};
  std::int64_t first = 0, count = 1;  // slices: ranks first, first + 1, ...
  std::int64_t slice() const {        // elements
    return heads.tokens * 2 * heads.kv_heads * heads.head_dim;
  }
  std::int64_t outputs() const { return heads.tokens * heads.heads * heads.head_dim; }
  std::int64_t log_sums() const { return heads.tokens * heads.heads; }
};
// keys: the slices, or null: the keys and values of qkv. Of a query that sees none of them the
// output is 0 and the log-sum-exp the lowest float.
void attend(const SliceShape& shape, const void* qkv, const void* keys, void* output,
            float* log_sum_exp, StreamHandle stream);

// Output and log-sum-exp are those of all slices. keys_gradient null: dk and dv, of the one slice,
// lie in qkv_gradient. Every element of the gradients is written; else dk and dv there are zero.
struct SliceBackward {
  AttentionBackward attention;
  const void* keys = nullptr;
  void* keys_gradient = nullptr;
};
// The workspace is as large as that of attention_backward() of these queries.
void attend_backward(const SliceShape& shape, const SliceBackward& operands, Workspace workspace,
                     StreamHandle stream);

// Adds a part to what has been attended so far, by the log-sum-exps of both.
struct MergedOutputs {
  const void* part = nullptr;
  const float* part_sums = nullptr;
  void* output = nullptr;
  float* log_sum_exp = nullptr;
};
void merge_outputs(const SliceShape& shape, const MergedOutputs& operands, StreamHandle stream);

// A part of [dq|dk|dv], of which dk and dv are the slice's. The first one begins both gradients;
// the last one is of the rank's own slice, whose gradient it puts into qkv_gradient.
enum class MergeTurn : std::uint8_t { first, middle, last };
struct MergedGradients {
  MergeTurn turn = MergeTurn::middle;
  const void* part = nullptr;
  void* qkv_gradient = nullptr;
  void* keys_gradient = nullptr;  // of the slice
};
void merge_gradients(const SliceShape& shape, const MergedGradients& operands, StreamHandle stream);

// Exchanges of heads. A tensor has the rank's tokens of all heads, or all tokens of the rank's
// heads; `width` columns of it, from `first` on, belong to each rank, or to this one. The message
// is [ranks, tokens of a rank, width].
struct HeadExchange {
  sim::DType dtype = sim::DType::fp32;
  std::int64_t sequences = 0, held = 0;  // held: tokens of a sequence that a rank has
  std::int64_t ranks = 1;
  std::int64_t row = 0, first = 0, width = 0;  // of the tensor, elements
  bool all_tokens = false;
  std::int64_t message() const { return ranks * sequences * held * width; }
  std::int64_t tensor() const { return sequences * held * (all_tokens ? ranks : 1) * row; }
};
void order_by_rank(const HeadExchange& shape, const void* tensor, void* message,
                   StreamHandle stream);
void order_by_token(const HeadExchange& shape, const void* message, void* tensor,
                    StreamHandle stream);

// As STEPCAST_KERNELS.
#define STEPCAST_CONTEXT_KERNELS(DO) \
  DO(attend)                         \
  DO(attend_backward) DO(merge_outputs) DO(merge_gradients) DO(order_by_rank) DO(order_by_token)

struct ContextTable {
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define STEPCAST_KERNEL(name) decltype(&kernels::name) name = nullptr;
  STEPCAST_CONTEXT_KERNELS(STEPCAST_KERNEL)
#undef STEPCAST_KERNEL
};

}  // namespace real::kernels
