// softmax(Q K^T / sqrt(d)) V for all heads, causal or not, with grouped queries: query head h reads
// key/value head h / (heads / kv_heads) (Ainslie et al. 2023).
//
// flash: block by block with a running maximum and sum, keeping the log-sum-exp of each query
// (Dao et al. 2022, algorithms 1 and 4, in the order of Dao 2023). unfused: keeps the
// probabilities, as a framework without a fused kernel does.
//
// The padding at the end of a sequence is seen by no query. Dropout acts on the probabilities that
// the values are weighed with, not on their sum (Dao et al. 2022, algorithm 2).
#pragma once

#include <cstdint>
#include <span>

#include "real/engine/kernels.hpp"

namespace real {

// qkv is [batch * sequence, (heads + kv_heads) * head_dim + kv_heads * value_dim]: queries, keys,
// values of a token; outputs are [batch * sequence, heads * value_dim].
struct AttentionSize {
  std::int64_t batch = 0, sequence = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t value_dim = 0;  // 0: head_dim
  bool causal = true;
  std::int64_t window = 0;  // keys that a query sees, its own included; 0: all before it
  kernels::ScoreRules rules{};
  // Tokens of a sequence without the padding at its end; at least the first.
  std::int64_t length(std::int64_t of_batch) const;
  std::int64_t tokens() const { return batch * sequence; }
  std::int64_t values() const { return value_dim > 0 ? value_dim : head_dim; }
  std::int64_t qkv_width() const { return (heads + kv_heads) * head_dim + kv_heads * values(); }
  std::int64_t out_width() const { return heads * values(); }
  std::int64_t log_sums() const { return batch * heads * sequence; }
  std::int64_t probabilities() const { return log_sums() * sequence; }
};

// log_sums [batch, heads, sequence]. An empty `out` or `log_sums`: not wanted.
void flash_forward(const AttentionSize& size, std::span<const float> qkv, std::span<float> out,
                   std::span<float> log_sums);
void flash_backward(const AttentionSize& size, std::span<const float> qkv,
                    std::span<const float> out, std::span<const float> log_sums,
                    std::span<const float> dout, std::span<float> dqkv);

// probabilities [batch, heads, sequence, sequence], zero where masked. An empty `out` or
// `probabilities`: not wanted.
void unfused_forward(const AttentionSize& size, std::span<const float> qkv, std::span<float> out,
                     std::span<float> probabilities);
void unfused_backward(const AttentionSize& size, std::span<const float> qkv,
                      std::span<const float> probabilities, std::span<const float> dout,
                      std::span<float> dqkv);

}  // namespace real
