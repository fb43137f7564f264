// The operations of Adafactor.step, in numbers of 4 bytes that each reads and writes:
//  weight       norm 1
//  square       grad ** 2 2, + eps 2
//  rows, columns  mean 1 each
//  direction    product of their factors 1, mul_ of the gradient 3
//  clipping     norm 1, div_ 2
//  update       mul_ 2, its negative 2, add_ 3
// Beside them: of 16-bit gradients a cast; of 16-bit weights a cast, and a copy back.
#include "sim/plan/parameters/adafactor.hpp"

#include <algorithm>

namespace sim::lowering {
namespace {

constexpr std::int64_t number_bytes = 4, passes = 21;

bool has_short_weights(const Layout& layout) {
  return !layout.master_weights && bytes_of(layout.activation_dtype) < number_bytes;
}

}  // namespace

std::int64_t factored_numbers(const ShardedOp& op) {
  const std::int64_t in = op.op->in_features, out = op.op->out_features;
  if (op.adapter) {
    const std::int64_t narrow = op.adapter->narrow, rank = op.adapter->rank;
    const std::int64_t apart = std::max<std::int64_t>(1, narrow / std::max<std::int64_t>(1, rank));
    const std::int64_t factors = (in + rank) * apart + out + rank * apart;
    return factors + op.parameters - in * narrow - rank * out;
  }
  if (op.parameters == 0) return 0;
  const bool matrix = is_product(*op.op) || op.op->kind == ModelOpKind::embedding;
  if (!matrix || in == 0 || out == 0) return op.parameters;
  // A table of rows of out features; of a product, whatever its bias has.
  if (op.op->kind == ModelOpKind::embedding) return op.parameters / out + out;
  const std::int64_t matrices = std::max<std::int64_t>(1, op.parameters / (in * out));
  return matrices * (in + out) + std::max<std::int64_t>(0, op.parameters - matrices * in * out);
}

std::int64_t adafactor_bytes(const Layout& layout, std::int64_t gradient) {
  const std::int64_t weight = bytes_of(layout.activation_dtype);
  std::int64_t bytes = passes * number_bytes;
  if (gradient < number_bytes) bytes += gradient + number_bytes;
  if (has_short_weights(layout)) bytes += weight + number_bytes + number_bytes + weight;
  return bytes;
}

int adafactor_launches(const Layout& layout) {
  constexpr int of_matrix = 13;
  // Scales of rows and columns 4, their factors 4, of the clipping factor 5.
  constexpr int of_numbers = 13;
  return of_matrix + of_numbers + (has_short_weights(layout) ? 2 : 0);
}

// The square and what replaces it, or the update and its negative, beside the casts.
std::int64_t adafactor_scratch(const Layout& layout, std::int64_t gradient) {
  return 2 * number_bytes + (gradient < number_bytes ? number_bytes : 0) +
         (has_short_weights(layout) ? number_bytes : 0);
}

}  // namespace sim::lowering
