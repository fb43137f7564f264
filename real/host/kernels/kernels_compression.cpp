#include "real/host/kernels/kernels_compression.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "real/host/eigen_maps.hpp"
#include "real/host/kernels/kernels_quantized.hpp"
#include "sim/base/check.hpp"
#include "sim/base/random.hpp"
#include "sim/plan/parameters/compression_work.hpp"

namespace real::host {
namespace {

using kernels::CompressedBucket;
using kernels::StreamHandle;
using sim::GradientCompression;
using Matrix = Eigen::Map<Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

std::span<float> numbers(std::byte* memory, std::int64_t count) {
  return {reinterpret_cast<float*>(memory), static_cast<std::size_t>(count)};
}
std::span<const float> numbers(const std::byte* memory, std::int64_t count) {
  return {reinterpret_cast<const float*>(memory), static_cast<std::size_t>(count)};
}

void add_residual(const CompressedBucket& bucket, const float* gradient, float* residual) {
  for (std::int64_t i = 0; i < bucket.elements; ++i)
    residual[i] += gradient[i];
}

// ---- top_k, random_k: values, then places ----------------------------------------------------

// The largest by magnitude; of equal ones the first.
std::vector<std::int32_t> largest(const CompressedBucket& bucket, const float* values) {
  std::vector<std::int32_t> places(static_cast<std::size_t>(bucket.elements));
  std::iota(places.begin(), places.end(), 0);
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float x = std::abs(values[a]), y = std::abs(values[b]);
    return x != y ? x > y : a < b;
  };
  std::nth_element(places.begin(), places.begin() + bucket.selected - 1, places.end(), before);
  places.resize(static_cast<std::size_t>(bucket.selected));
  return places;
}

// The same on every rank: one of each of `selected` equal ranges, by step and seed.
std::int64_t random_place(const CompressedBucket& bucket, std::int64_t i) {
  const std::int64_t first = i * bucket.elements / bucket.selected;
  const std::int64_t last = (i + 1) * bucket.elements / bucket.selected;
  const double draw = sim::uniform(bucket.seed, static_cast<std::uint64_t>(bucket.step->number),
                                   static_cast<std::uint64_t>(i));
  return std::min(first + static_cast<std::int64_t>(draw * static_cast<double>(last - first)),
                  last - 1);
}

void send_largest(const CompressedBucket& bucket, float* residual, std::byte* message) {
  const std::vector<std::int32_t> places = largest(bucket, residual);
  const auto values = numbers(message, bucket.selected);
  for (std::size_t i = 0; i < places.size(); ++i) {
    values[i] = residual[places[i]];
    residual[places[i]] = 0;
  }
  std::memcpy(message + values.size_bytes(), places.data(), places.size() * sizeof(std::int32_t));
}

void add_largest(const CompressedBucket& bucket, const std::byte* came, float* gradient) {
  std::fill_n(gradient, bucket.padded, 0.0F);
  const std::int64_t bytes = bucket.selected * 8;
  const float share = 1.0F / static_cast<float>(bucket.ranks);
  std::vector<std::int32_t> places(static_cast<std::size_t>(bucket.selected));
  for (int rank = 0; rank < bucket.ranks; ++rank) {
    const std::byte* part = came + rank * bytes;
    const auto values = numbers(part, bucket.selected);
    std::memcpy(places.data(), part + values.size_bytes(), places.size() * sizeof(std::int32_t));
    for (std::size_t i = 0; i < places.size(); ++i)
      gradient[places[i]] += values[i] * share;
  }
}

// ---- power_sgd: factors of all matrices one after another, then what goes whole ---------------

// Visits each matrix in turn: visit(matrix, its first row of P, its first row of Q).
template <class Visit>
void for_each_matrix(const CompressedBucket& bucket, Visit visit) {
  std::int64_t rows = 0, columns = 0;
  for (const sim::MatrixPlace& matrix : bucket.matrices) {
    visit(matrix, rows, columns);
    rows += matrix.rows;
    columns += matrix.columns;
  }
}

// Elements that are part of no such matrix, in pieces: visit(first, count).
template <class Visit>
void for_each_whole(const CompressedBucket& bucket, Visit visit) {
  std::vector<sim::MatrixPlace> sorted{bucket.matrices.begin(), bucket.matrices.end()};
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::int64_t at = 0;
  for (const sim::MatrixPlace& matrix : sorted) {
    if (matrix.first > at) visit(at, matrix.first - at);
    at = matrix.first + matrix.rows * matrix.columns;
  }
  if (at < bucket.elements) visit(at, bucket.elements - at);
}

Matrix matrix_at(float* first, std::int64_t rows, std::int64_t columns) {
  return {first, rows, columns};
}

// Gram-Schmidt, column by column (powerSGD_hook.py, _orthogonalize).
void orthogonalize(Matrix matrix) {
  constexpr float epsilon = 1e-8F;
  for (Eigen::Index i = 0; i < matrix.cols(); ++i) {
    matrix.col(i) /= matrix.col(i).norm() + epsilon;
    for (Eigen::Index j = i + 1; j < matrix.cols(); ++j)
      matrix.col(j) -= matrix.col(i).dot(matrix.col(j)) * matrix.col(i);
  }
}

// Before the first step the second factors are zero.
void begin_factors(const CompressedBucket& bucket, float* factors) {
  for_each_matrix(bucket, [&](const sim::MatrixPlace& matrix, std::int64_t, std::int64_t first) {
    Matrix q =
        matrix_at(factors + first * bucket.factor_columns, matrix.columns, bucket.factor_columns);
    if (q.squaredNorm() > 0) return;
    for (Eigen::Index i = 0; i < q.size(); ++i)
      q.data()[i] = static_cast<float>(sim::standard_normal(
          bucket.seed, static_cast<std::uint64_t>(matrix.first), static_cast<std::uint64_t>(i)));
    orthogonalize(q);
  });
}

void first_factors(const CompressedBucket& bucket, float* residual, std::byte* message) {
  const int rank = bucket.factor_columns;
  float* factors = residual + bucket.padded;
  begin_factors(bucket, factors);
  auto* to = reinterpret_cast<float*>(message);
  std::int64_t rows = 0;
  for_each_matrix(bucket, [&](const auto& matrix, std::int64_t first, std::int64_t column) {
    matrix_at(to + first * rank, matrix.rows, rank).noalias() =
        matrix_at(residual + matrix.first, matrix.rows, matrix.columns) *
        matrix_at(factors + column * rank, matrix.columns, rank);
    rows = first + matrix.rows;
  });
  to += rows * rank;
  for_each_whole(bucket, [&](std::int64_t first, std::int64_t count) {
    to = std::copy_n(residual + first, count, to);
  });
}

void second_factors(const CompressedBucket& bucket, const kernels::Recompressed& operands) {
  const int rank = bucket.factor_columns;
  auto* to = reinterpret_cast<float*>(operands.message);
  for_each_matrix(bucket, [&](const auto& matrix, std::int64_t row, std::int64_t column) {
    Matrix p = matrix_at(operands.factor + row * rank, matrix.rows, rank);
    orthogonalize(p);
    matrix_at(to + column * rank, matrix.columns, rank).noalias() =
        matrix_at(operands.residual + matrix.first, matrix.rows, matrix.columns).transpose() * p;
  });
}

// The message that came last has the second factors; where nothing is worth factors, it has the
// tensors that go whole.
void join_factors(const CompressedBucket& bucket, const kernels::Decompressed& operands) {
  const int rank = bucket.factor_columns;
  const bool factors = !bucket.matrices.empty();
  const auto* first = factors ? operands.factor : reinterpret_cast<const float*>(operands.came);
  std::int64_t rows = 0;
  for_each_matrix(bucket, [&](const auto& matrix, std::int64_t row, std::int64_t column) {
    float* kept = operands.residual + bucket.padded + column * rank;
    std::memcpy(kept, operands.came + column * rank * 4,
                static_cast<std::size_t>(matrix.columns * rank) * sizeof(float));
    Matrix result = matrix_at(operands.gradient + matrix.first, matrix.rows, matrix.columns);
    result.noalias() = matrix_at(const_cast<float*>(first) + row * rank, matrix.rows, rank) *
                       matrix_at(kept, matrix.columns, rank).transpose();
    matrix_at(operands.residual + matrix.first, matrix.rows, matrix.columns) -= result;
    rows = row + matrix.rows;
  });
  const float* whole = first + rows * rank;
  for_each_whole(bucket, [&](std::int64_t at, std::int64_t count) {
    std::copy_n(whole, count, operands.gradient + at);
    std::fill_n(operands.residual + at, count, 0.0F);
    whole += count;
  });
}

// ---- one_bit: of each part its signs, a bit each, and their scale -----------------------------

std::int64_t piece_bytes(std::int64_t part) {
  return part / 8 + 4;
}

// values + error as signs and one scale; what that is off by becomes the error. `count` of `part`
// elements are there.
void send_signs(std::int64_t part, std::int64_t count, float scale, float* error, std::byte* to) {
  std::memset(to, 0, static_cast<std::size_t>(part / 8));
  for (std::int64_t i = 0; i < count; ++i) {
    const bool positive = error[i] >= 0;
    if (positive) to[i / 8] |= std::byte{1} << static_cast<unsigned>(i % 8);
    error[i] -= positive ? scale : -scale;
  }
  std::memcpy(to + part / 8, &scale, sizeof scale);
}

float scale_of(const float* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    sum += double{values[i]} * values[i];
  return count == 0 ? 0.0F : static_cast<float>(std::sqrt(sum / static_cast<double>(count)));
}

float sign_at(const std::byte* piece, std::int64_t part, std::int64_t i) {
  float scale = 0;
  std::memcpy(&scale, piece + part / 8, sizeof scale);
  const bool positive =
      (piece[i / 8] >> static_cast<unsigned>(i % 8) & std::byte{1}) != std::byte{0};
  return positive ? scale : -scale;
}

std::int64_t count_in(const CompressedBucket& bucket, std::int64_t rank) {
  return std::clamp<std::int64_t>(bucket.elements - rank * bucket.part, 0, bucket.part);
}

void send_all_signs(const CompressedBucket& bucket, float* residual, std::byte* message) {
  const float scale = scale_of(residual, bucket.elements);
  for (int rank = 0; rank < bucket.ranks; ++rank)
    send_signs(bucket.part, count_in(bucket, rank), scale, residual + rank * bucket.part,
               message + rank * piece_bytes(bucket.part));
}

void send_momentum(const CompressedBucket& bucket, const float* gradient, float* residual,
                   std::byte* message) {
  for (std::int64_t i = 0; i < bucket.elements; ++i) {
    float& moment = bucket.moment[i];
    moment = bucket.beta1 * moment + (1 - bucket.beta1) * gradient[i];
    residual[i] += moment;
  }
  send_all_signs(bucket, residual, message);
}

// Before its first step 1-bit LAMB scales each tensor's momentum to the mean of all (DeepSpeed,
// runtime/fp16/onebit/lamb.py, scaling_coeff).
void begin_scales(const CompressedBucket& bucket) {
  if (bucket.tensors.empty() || bucket.numbers[0] != 0) return;
  std::vector<float> scales;
  for (const BoundTensor& tensor : bucket.tensors)
    scales.push_back(scale_of(bucket.moment + tensor.first, tensor.count));
  const float mean =
      std::accumulate(scales.begin(), scales.end(), 0.0F) / static_cast<float>(scales.size());
  for (std::size_t i = 0; i < scales.size(); ++i)
    bucket.numbers[i * sim::lowering::lamb_numbers] =
        scales[i] > 0 && mean > 0 ? mean / scales[i] : 1.0F;
}

// The momentum itself stays as it was: the update makes out what has come since.
void send_scaled_momentum(const CompressedBucket& bucket, const float* gradient, float* residual,
                          std::byte* message) {
  begin_scales(bucket);
  const float* numbers = bucket.numbers;
  for (const BoundTensor& tensor : bucket.tensors) {
    for (std::int64_t i = tensor.first; i < tensor.first + tensor.count; ++i)
      residual[i] +=
          *numbers * (bucket.beta1 * bucket.moment[i] + (1 - bucket.beta1) * gradient[i]);
    numbers += sim::lowering::lamb_numbers;
  }
  send_all_signs(bucket, residual, message);
}

// The part of this rank: all pieces that came are of it. Behind the last element there is none.
void send_average(const CompressedBucket& bucket, const kernels::Recompressed& operands) {
  float* error = operands.residual + bucket.padded;
  const float share = 1.0F / static_cast<float>(bucket.ranks);
  const std::int64_t count = count_in(bucket, bucket.rank);
  for (std::int64_t i = 0; i < count; ++i)
    for (int rank = 0; rank < bucket.ranks; ++rank)
      error[i] += share * sign_at(operands.came + rank * piece_bytes(bucket.part), bucket.part, i);
  send_signs(bucket.part, count, scale_of(error, count), error, operands.message);
}

void receive_momentum(const CompressedBucket& bucket, const kernels::Decompressed& operands) {
  for (int rank = 0; rank < bucket.ranks; ++rank) {
    const std::byte* piece = operands.came + rank * piece_bytes(bucket.part);
    for (std::int64_t i = 0; i < count_in(bucket, rank); ++i)
      operands.gradient[rank * bucket.part + i] = sign_at(piece, bucket.part, i);
  }
}

// ---- int8, int4 ------------------------------------------------------------------------------

// By the rank that a piece goes to: with two levels first to those of the node, each of which
// passes the pieces of its place on to every node.
void send_integers(const CompressedBucket& bucket, const float* gradient, std::byte* message) {
  const int inner = bucket.inner > 0 ? bucket.inner : bucket.ranks;
  const int nodes = bucket.ranks / inner;
  const std::int64_t piece = quantized_size(bucket.part, bucket.bits());
  for (int place = 0; place < inner; ++place)
    for (int node = 0; node < nodes; ++node, message += piece)
      quantize_piece(bucket.part, bucket.bits(), gradient + (node * inner + place) * bucket.part,
                     message);
}

// The sum over `senders` of piece `number`; each sent `each` of them.
std::vector<float> sum_of_pieces(const CompressedBucket& bucket, const std::byte* came, int senders,
                                 int each, int number) {
  const std::int64_t piece = quantized_size(bucket.part, bucket.bits());
  std::vector<float> sum(static_cast<std::size_t>(bucket.part)), one(sum.size());
  for (int sender = 0; sender < senders; ++sender) {
    dequantize_piece(bucket.part, bucket.bits(), came + (sender * each + number) * piece,
                     one.data());
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += one[i];
  }
  return sum;
}

void resend_integers(const CompressedBucket& bucket, const kernels::Recompressed& operands) {
  const int nodes = bucket.ranks / bucket.inner;
  const std::int64_t piece = quantized_size(bucket.part, bucket.bits());
  for (int node = 0; node < nodes; ++node) {
    const std::vector<float> sum = sum_of_pieces(bucket, operands.came, bucket.inner, nodes, node);
    quantize_piece(bucket.part, bucket.bits(), sum.data(), operands.message + node * piece);
  }
}

void average_integers(const CompressedBucket& bucket, const kernels::Decompressed& operands) {
  const int senders = bucket.inner > 0 ? bucket.ranks / bucket.inner : bucket.ranks;
  const std::vector<float> sum = sum_of_pieces(bucket, operands.came, senders, 1, 0);
  const float share = 1.0F / static_cast<float>(bucket.ranks);
  for (std::size_t i = 0; i < sum.size(); ++i)
    operands.gradient[i] = sum[i] * share;
}

}  // namespace

void compress(const CompressedBucket& bucket, const float* gradient, float* residual,
              std::byte* message, StreamHandle /*stream*/) {
  switch (bucket.scheme) {
    case GradientCompression::top_k:
      add_residual(bucket, gradient, residual);
      return send_largest(bucket, residual, message);
    case GradientCompression::random_k:
      add_residual(bucket, gradient, residual);
      for (std::int64_t i = 0; i < bucket.selected; ++i) {
        float& value = residual[random_place(bucket, i)];
        numbers(message, bucket.selected)[static_cast<std::size_t>(i)] = value;
        value = 0;
      }
      return;
    case GradientCompression::power_sgd:
      add_residual(bucket, gradient, residual);
      return first_factors(bucket, residual, message);
    case GradientCompression::one_bit:
      return send_momentum(bucket, gradient, residual, message);
    case GradientCompression::one_bit_lamb:
      return send_scaled_momentum(bucket, gradient, residual, message);
    case GradientCompression::int8:
    case GradientCompression::int4:
      return send_integers(bucket, gradient, message);
    case GradientCompression::none:
      break;
  }
  SIM_CHECK(false, static_cast<int>(bucket.scheme));
}

void recompress(const CompressedBucket& bucket, const kernels::Recompressed& operands,
                StreamHandle /*stream*/) {
  if (bucket.scheme == GradientCompression::power_sgd) return second_factors(bucket, operands);
  if (sim::sends_signs(bucket.scheme)) return send_average(bucket, operands);
  resend_integers(bucket, operands);
}

void decompress(const CompressedBucket& bucket, const kernels::Decompressed& operands,
                StreamHandle /*stream*/) {
  switch (bucket.scheme) {
    case GradientCompression::top_k:
      return add_largest(bucket, operands.came, operands.gradient);
    case GradientCompression::random_k:
      std::fill_n(operands.gradient, bucket.padded, 0.0F);
      for (std::int64_t i = 0; i < bucket.selected; ++i)
        operands.gradient[random_place(bucket, i)] =
            numbers(operands.came, bucket.selected)[static_cast<std::size_t>(i)];
      return;
    case GradientCompression::power_sgd:
      return join_factors(bucket, operands);
    case GradientCompression::one_bit:
    case GradientCompression::one_bit_lamb:
      return receive_momentum(bucket, operands);
    default:
      return average_integers(bucket, operands);
  }
}

void one_bit_update(const kernels::Adam& settings, const kernels::AdamState& state,
                    std::int64_t elements, const kernels::DecayRanges& decay_ranges,
                    StreamHandle /*stream*/) {
  if (state.gate != nullptr && !std::isfinite(*state.gate)) return;
  auto* weights = static_cast<float*>(state.weight);
  float* master = state.master != nullptr ? state.master : weights;
  const auto* gradient = static_cast<const float*>(state.gradient);
  auto* m = static_cast<float*>(state.m);
  const auto* v = static_cast<const float*>(state.v);
  const auto rate = static_cast<float>(state.step != nullptr ? state.step->rate : settings.rate);
  const auto epsilon = static_cast<float>(settings.epsilon);
  for (std::int64_t range = 0; range < decay_ranges.count; ++range) {
    const kernels::Range& decayed = decay_ranges.ranges[range];
    for (std::int64_t i = decayed.at; i < decayed.at + decayed.elements; ++i)
      master[i] -= rate * static_cast<float>(settings.decay) * master[i];
  }
  for (std::int64_t i = 0; i < elements; ++i) {
    m[i] = gradient[i];
    master[i] -= rate * gradient[i] / (std::sqrt(v[i]) + epsilon);
    weights[i] = master[i];
  }
}

}  // namespace real::host

namespace real {

const kernels::CompressionTable& host_compression() {
  static constexpr kernels::CompressionTable table{.compress = host::compress,
                                                   .recompress = host::recompress,
                                                   .decompress = host::decompress,
                                                   .quantize = host::quantize,
                                                   .dequantize = host::dequantize,
                                                   .one_bit_update = host::one_bit_update};
  return table;
}

}  // namespace real
