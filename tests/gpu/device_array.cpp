#include "tests/gpu/device_array.hpp"

#include <bit>
#include <limits>

namespace gpu_test {

std::uint16_t to_bf16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (std::isnan(value)) return 0x7fff;
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

double from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

Array::Array(sim::DType dtype, const Numbers& numbers)
    : dtype_{dtype},
      count_{numbers.size()},
      memory_{allocate(numbers.size() * static_cast<std::size_t>(sim::bytes_of(dtype)) + 1)} {
  if (dtype == sim::DType::bf16) {
    std::vector<std::uint16_t> values(count_);
    std::transform(numbers.begin(), numbers.end(), values.begin(), to_bf16);
    upload(memory_.get(), values.data(), count_ * 2);
  } else {
    const std::vector<float> values(numbers.begin(), numbers.end());
    upload(memory_.get(), values.data(), count_ * 4);
  }
}

Numbers Array::numbers() const {
  Numbers result(count_);
  if (dtype_ == sim::DType::bf16) {
    std::vector<std::uint16_t> values(count_);
    download(values.data(), memory_.get(), count_ * 2);
    std::transform(values.begin(), values.end(), result.begin(), from_bf16);
  } else {
    std::vector<float> values(count_);
    download(values.data(), memory_.get(), count_ * 4);
    std::copy(values.begin(), values.end(), result.begin());
  }
  return result;
}

Numbers random_numbers(unsigned seed, std::size_t count, sim::DType dtype) {
  std::mt19937 generator{seed};
  Numbers numbers(count);
  for (double& number : numbers) {
    const double value = static_cast<double>(generator()) / 2147483648.0 - 1;
    number = dtype == sim::DType::bf16 ? from_bf16(to_bf16(value)) : static_cast<float>(value);
  }
  return numbers;
}

double worst_error(const Numbers& got, const Numbers& expected) {
  if (got.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double largest = 1e-30, worst = 0;
  for (const double number : expected)
    largest = std::max(largest, std::abs(number));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - expected[i]);
    if (std::isnan(error)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, error);
  }
  return worst / largest;
}

}  // namespace gpu_test
