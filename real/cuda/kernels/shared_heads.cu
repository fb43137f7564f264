// Key/value heads on several tensor ranks: the columns of one rank out of those of all, and back.
#include <numeric>

#include "real/cuda/kernels/launch.cuh"
#include "real/engine/kernels/shared_heads.hpp"

namespace real::kernels {
namespace {

constexpr unsigned block_threads = 256;

struct OwnColumns {
  std::int64_t tokens, width;      // of a part of what is gathered
  std::int64_t keys, values, row;  // where each begins in the rank's own row, and its end
  std::int64_t queries_at, keys_at, values_at;  // among the columns of all heads
};

template <int count, bool take, class T>
__global__ void shared_heads_kernel(OwnColumns s, const T* from, T* to) {
  const std::int64_t vectors = s.row / count;
  for (std::int64_t i = global_thread(); i < s.tokens * vectors; i += global_threads()) {
    const std::int64_t token = i / vectors, own = i % vectors * count;
    const std::int64_t column = own < s.keys     ? s.queries_at + own
                                : own < s.values ? s.keys_at + own - s.keys
                                                 : s.values_at + own - s.values;
    const std::int64_t gathered =
        (column / s.width * s.tokens + token) * s.width + column % s.width;
    using Words = Vector<T, count>;
    *reinterpret_cast<Words*>(to + (take ? i * count : gathered)) =
        *reinterpret_cast<const Words*>(from + (take ? gathered : i * count));
  }
}

template <bool take>
void copy_heads(const char* name, const SharedHeads& shape, const void* from, void* to,
                StreamHandle stream) {
  if (shape.ranks <= 0 || shape.features % shape.ranks != 0)
    refuse(name, std::to_string(shape.features) + " columns do not come from " +
                     std::to_string(shape.ranks) + " ranks");
  const auto& [queries, keys, values] = shape.own;
  const OwnColumns columns{.tokens = shape.tokens,
                           .width = shape.features / shape.ranks,
                           .keys = queries.elements,
                           .values = queries.elements + keys.elements,
                           .row = shape.row(),
                           .queries_at = queries.at,
                           .keys_at = keys.at,
                           .values_at = values.at};
  std::int64_t step = columns.width;  // divides all places where a vector may not go on
  for (const Range& range : shape.own)
    step = std::gcd(std::gcd(step, range.elements), range.at);
  const std::int64_t items = shape.tokens * columns.row;
  if (items == 0) return;
  with_type(name, shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_vector<T>(aligned({from, to}), step, [&](auto count) {
      constexpr int n = decltype(count)::value;
      launch({.name = name,
              .blocks = {stride_blocks(items / n, block_threads)},
              .threads = block_threads,
              .stream = stream},
             shared_heads_kernel<n, take, T>, columns, as<T>(from), as<T>(to));
    });
  });
}

}  // namespace

void take_heads(const SharedHeads& shape, const void* gathered, void* own, StreamHandle stream) {
  const std::int64_t size = sim::bytes_of(shape.dtype), used = shape.tokens * shape.row() * size;
  copy_heads<true>("take_heads", shape, gathered, own, stream);
  zero(static_cast<std::byte*>(own) + used, shape.tokens * shape.features * size - used, stream);
}

void spread_heads(const SharedHeads& shape, const void* own, void* gathered, StreamHandle stream) {
  zero(gathered, shape.tokens * shape.features * sim::bytes_of(shape.dtype), stream);
  copy_heads<false>("spread_heads", shape, own, gathered, stream);
}

}  // namespace real::kernels
