// The host's kernels of compressed gradients.
#include <algorithm>
#include <cmath>
#include <vector>

#include "real/host/kernels/kernels_compression.hpp"
#include "real/host/kernels/kernels_quantized.hpp"
#include "sim/base/random.hpp"
#include "tests/catch.hpp"

using namespace real;

namespace {

std::vector<float> normal(std::int64_t count, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(sim::standard_normal(seed, 0, i));
  return values;
}

}  // namespace

TEST_CASE("integers are off by half a step of their group at most", "[real_host]") {
  for (const int bits : {8, 4}) {
    INFO(bits);
    const std::int64_t elements = 5001;  // no multiple of a group
    const std::vector<float> values = normal(elements, 7);
    std::vector<std::byte> message(static_cast<std::size_t>(host::quantized_size(elements, bits)));
    std::vector<float> back(values.size());
    host::quantize(elements, 1, bits, values.data(), message.data(), nullptr);
    host::dequantize(elements, 1, bits, message.data(), back.data(), nullptr);
    const double steps = bits == 8 ? 127 : 7;
    for (std::size_t first = 0; first < values.size(); first += 2048) {
      const std::size_t last = std::min(values.size(), first + 2048);
      float largest = 0;
      for (std::size_t i = first; i < last; ++i)
        largest = std::max(largest, std::abs(values[i]));
      for (std::size_t i = first; i < last; ++i)
        REQUIRE(std::abs(values[i] - back[i]) <= 0.5001 * largest / steps);
    }
  }
}

TEST_CASE("the largest gradients go, the others wait", "[real_host]") {
  kernels::CompressedBucket bucket{.scheme = sim::GradientCompression::top_k,
                                   .elements = 6,
                                   .padded = 6,
                                   .ranks = 1,
                                   .selected = 2};
  const std::vector<float> gradient{0.5F, -3, 1, 0, 2, -0.25F};
  std::vector<float> residual(6), average(6);
  std::vector<std::byte> message(16);
  const kernels::CompressionTable& table = host_compression();
  table.compress(bucket, gradient.data(), residual.data(), message.data(), nullptr);
  table.decompress(bucket, {.came = message.data(), .gradient = average.data()}, nullptr);
  CHECK(average == std::vector<float>{0, -3, 0, 0, 2, 0});
  CHECK(residual == std::vector<float>{0.5F, 0, 1, 0, 0, -0.25F});
}

TEST_CASE("a matrix of low rank passes through its factors as it is", "[real_host]") {
  constexpr int rows = 24, columns = 16, rank = 3;
  const std::vector<float> p = normal(rows * rank, 1), q = normal(columns * rank, 2);
  std::vector<float> gradient(rows * columns + 5, 0.0F);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j)
      for (int k = 0; k < rank; ++k)
        gradient[static_cast<std::size_t>(i * columns + j)] +=
            p[static_cast<std::size_t>(i * rank + k)] * q[static_cast<std::size_t>(j * rank + k)];
  for (std::size_t i = rows * columns; i < gradient.size(); ++i)
    gradient[i] = static_cast<float>(i);  // what goes whole
  const std::vector<sim::MatrixPlace> matrices{{0, rows, columns}};
  const auto elements = static_cast<std::int64_t>(gradient.size());
  kernels::AdamStep step;
  const kernels::CompressedBucket bucket{.scheme = sim::GradientCompression::power_sgd,
                                         .elements = elements,
                                         .padded = elements,
                                         .ranks = 1,
                                         .factor_columns = rank,
                                         .matrices = matrices,
                                         .seed = 11,
                                         .step = &step};
  std::vector<float> residual(gradient.size() + columns * rank), average(gradient.size());
  std::vector<std::byte> first((rows * rank + 5) * 4), second(columns * rank * 4);
  const kernels::CompressionTable& table = host_compression();
  table.compress(bucket, gradient.data(), residual.data(), first.data(), nullptr);
  auto* factor = reinterpret_cast<float*>(first.data());
  table.recompress(bucket,
                   {.residual = residual.data(),
                    .factor = factor,
                    .came = first.data(),
                    .message = second.data()},
                   nullptr);
  table.decompress(bucket,
                   {.came = second.data(),
                    .factor = factor,
                    .residual = residual.data(),
                    .gradient = average.data()},
                   nullptr);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    REQUIRE(average[i] == Approx(gradient[i]).margin(1e-4));
    REQUIRE(std::abs(residual[i]) < 1e-4F);
  }
}

TEST_CASE("what signs leave out is sent later", "[real_host]") {
  // One rank: the sums over many steps of what goes in and of what comes out stay close.
  constexpr std::int64_t elements = 100, part = 128;
  kernels::AdamStep step;
  std::vector<float> moment(elements), residual(part * 2), average(part);
  const kernels::CompressedBucket bucket{.scheme = sim::GradientCompression::one_bit,
                                         .elements = elements,
                                         .padded = part,
                                         .ranks = 1,
                                         .part = part,
                                         .beta1 = 0,  // the momentum is the gradient
                                         .moment = moment.data(),
                                         .step = &step};
  const kernels::CompressionTable& table = host_compression();
  std::vector<std::byte> message(part / 8 + 4), answer(message.size());
  std::vector<double> sent(elements), came(elements);
  for (std::uint64_t turn = 0; turn < 200; ++turn) {
    const std::vector<float> gradient = normal(part, 100 + turn);
    table.compress(bucket, gradient.data(), residual.data(), message.data(), nullptr);
    table.recompress(
        bucket, {.residual = residual.data(), .came = message.data(), .message = answer.data()},
        nullptr);
    table.decompress(bucket, {.came = answer.data(), .gradient = average.data()}, nullptr);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      sent[i] += gradient[i];
      came[i] += average[i];
    }
  }
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const double waits = residual[i] + residual[static_cast<std::size_t>(part) + i];
    REQUIRE(came[i] + waits == Approx(sent[i]).margin(1e-3));
  }
}
