// Tensor parallelism beyond the key/value heads (sim/model/key_heads.hpp): each tensor rank makes
// equal columns of [queries | keys | values] of all heads, which are gathered; it attends with its
// own queries and one head of keys and values, which other ranks have as well.
#pragma once

#include <array>

#include "real/engine/kernels.hpp"

namespace real::kernels {

// `own`: the columns of queries, of keys and of values that the rank attends with.
struct SharedHeads {
  sim::DType dtype = sim::DType::fp32;
  std::int64_t tokens = 0, ranks = 1;
  std::int64_t features = 0;  // of all heads
  std::array<Range, 3> own{};
  std::int64_t row() const { return own[0].elements + own[1].elements + own[2].elements; }
};
// gathered: [ranks, tokens, features / ranks]; own: [tokens, row()], behind which what is left of a
// tensor of all features is set to zero.
void take_heads(const SharedHeads& shape, const void* gathered, void* own, StreamHandle stream);
// The gradient of what was taken, and zeros, in the order of what was gathered.
void spread_heads(const SharedHeads& shape, const void* own, void* gathered, StreamHandle stream);

// As STEPCAST_KERNELS.
#define STEPCAST_SHARED_HEADS_KERNELS(DO) DO(take_heads) DO(spread_heads)

struct SharedHeadsTable {
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define STEPCAST_KERNEL(name) decltype(&kernels::name) name = nullptr;
  STEPCAST_SHARED_HEADS_KERNELS(STEPCAST_KERNEL)
#undef STEPCAST_KERNEL
};

}  // namespace real::kernels
