// Queries, keys and values of latent attention (DeepSeek-AI 2024, arXiv:2405.04434, section 2.1;
// the plan's operators: sim/model/latent_attention.cpp). Backends that do not have it leave the
// table out.
//
// Each head's queries and keys have a part without and a part with positions. That of the keys, one
// for all heads, comes out of the narrow product behind the compressed keys and values, and goes
// past their norm. The plan counts those tensors without it and gives it no operand: it lies in
// scratch memory from the operator that makes it to the one that reads it, which follow each other.
#pragma once

#include "real/engine/kernels.hpp"

namespace real::kernels {

// Rows of `first` columns and the others behind them.
struct SplitRows {
  sim::DType dtype = sim::DType::fp32;
  std::int64_t rows = 0, first = 0, second = 0;
};
void split_rows(const SplitRows& shape, const void* whole, void* first, void* second,
                StreamHandle stream);
void join_rows(const SplitRows& shape, const void* first, const void* second, void* whole,
               StreamHandle stream);

struct LatentHeads {
  sim::DType dtype = sim::DType::fp32;
  Positions tokens;
  std::int64_t heads = 0, plain = 0, rotary = 0, value = 0;
  constexpr std::int64_t head() const { return plain + rotary; }
  constexpr std::int64_t row() const { return heads * (2 * head() + value); }  // of [q|k|v]
};
// queries: [tokens, heads x (plain, rotary)]; made: [tokens, heads x (plain of the key, value)];
// rotary_keys: [tokens, rotary]; table: of the rotary part (fill_rotary_table), none on the host.
struct LatentInputs {
  const void* queries = nullptr;
  const void* made = nullptr;
  const void* rotary_keys = nullptr;
  const float* table = nullptr;
};
void put_latent_heads(const LatentHeads& shape, const LatentInputs& inputs, void* qkv,
                      StreamHandle stream);
// gradient: of [q|k|v]; that of the queries is left at its start, row by row without gaps.
struct LatentGradients {
  void* gradient = nullptr;
  void* made = nullptr;
  void* rotary_keys = nullptr;
  const float* table = nullptr;
};
void latent_gradients(const LatentHeads& shape, const LatentGradients& operands,
                      StreamHandle stream);

struct LatentTable {
  decltype(&kernels::split_rows) split_rows = nullptr;
  decltype(&kernels::join_rows) join_rows = nullptr;
  decltype(&kernels::put_latent_heads) put_latent_heads = nullptr;
  decltype(&kernels::latent_gradients) latent_gradients = nullptr;
};

}  // namespace real::kernels
