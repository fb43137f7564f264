#include "real/host/kernels/kernels_local_steps.hpp"

#include <algorithm>
#include <vector>

#include "real/host/kernels/kernels_quantized.hpp"
#include "sim/plan/outer_message.hpp"

namespace real::host {
namespace {

using kernels::OuterPieces;
using kernels::StreamHandle;

void outer_gradient(std::int64_t elements, const float* own, const float* last, float* message,
                    StreamHandle) {
  for (std::int64_t i = 0; i < elements; ++i)
    message[i] = last != nullptr ? last[i] - own[i] : own[i];
}

std::int64_t bytes_of_piece(const OuterPieces& pieces) {
  return quantized_size(pieces.part, sim::bits_of(pieces.how));
}

void encode(const OuterPieces& pieces, const float* from, std::byte* to) {
  if (pieces.how == sim::OuterQuantization::int8)
    quantize_piece(pieces.part, 8, from, to);
  else
    encode_e3m0_piece(pieces.part, from, to);
}

void decode(const OuterPieces& pieces, const std::byte* from, float* to) {
  if (pieces.how == sim::OuterQuantization::int8)
    dequantize_piece(pieces.part, 8, from, to);
  else
    decode_e3m0_piece(pieces.part, from, to);
}

void quantized_outer_gradient(const OuterPieces& pieces, const float* own, const float* last,
                              std::byte* message, StreamHandle) {
  std::vector<float> piece(static_cast<std::size_t>(pieces.part));
  for (int number = 0; number < pieces.count; ++number, message += bytes_of_piece(pieces)) {
    const std::int64_t first = number * pieces.part;
    for (std::int64_t i = 0; i < pieces.part; ++i) {
      const bool there = first + i < pieces.elements;
      piece[static_cast<std::size_t>(i)] = there ? last[first + i] - own[first + i] : 0.0F;
    }
    encode(pieces, piece.data(), message);
  }
}

void mean_outer(const OuterPieces& pieces, const std::byte* came, std::byte* message,
                StreamHandle) {
  std::vector<float> sum(static_cast<std::size_t>(pieces.part)), one(sum.size());
  for (int sender = 0; sender < pieces.count; ++sender, came += bytes_of_piece(pieces)) {
    decode(pieces, came, one.data());
    std::transform(one.begin(), one.end(), sum.begin(), sum.begin(), std::plus{});
  }
  for (float& value : sum)
    value /= static_cast<float>(pieces.count);
  encode(pieces, sum.data(), message);
}

// The value that the ranks agree on.
float common_value(const kernels::OuterUpdate& update, const kernels::OuterState& state,
                   float gradient, std::int64_t i) {
  if (!update.nesterov) return gradient;
  state.velocity[i] = update.momentum * state.velocity[i] + gradient;
  state.last[i] -= update.rate * (gradient + update.momentum * state.velocity[i]);
  return state.last[i];
}

void apply_outer(const kernels::OuterUpdate& update, const kernels::OuterState& state,
                 std::int64_t elements, StreamHandle) {
  const OuterPieces& pieces = update.pieces;
  std::vector<float> decoded;
  if (pieces.how != sim::OuterQuantization::none) {
    decoded.resize(static_cast<std::size_t>(pieces.part * pieces.count));
    for (int number = 0; number < pieces.count; ++number)
      decode(pieces, state.pieces + number * bytes_of_piece(pieces),
             decoded.data() + number * pieces.part);
  }
  const float* message = decoded.empty() ? state.message : decoded.data();
  float* own = state.master != nullptr ? state.master : state.weight;
  for (std::int64_t i = 0; i < elements; ++i) {
    const float common = common_value(update, state, message[i], i);
    own[i] = update.mix == 0 ? common : update.mix * own[i] + (1 - update.mix) * common;
    state.weight[i] = own[i];
  }
}

}  // namespace

const kernels::OuterTable& host_local_steps() {
  static const kernels::OuterTable table{.outer_gradient = outer_gradient,
                                         .quantized_outer_gradient = quantized_outer_gradient,
                                         .mean_outer = mean_outer,
                                         .apply_outer = apply_outer};
  return table;
}

}  // namespace real::host
