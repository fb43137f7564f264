#include <cmath>
#include <cstring>

#include "real/net/rounds.hpp"
#include "sim/base/check.hpp"

namespace real {
namespace {

constexpr std::size_t width = 64;  // elements at once: a few vector registers

// Through small arrays: the buffers are bytes to the language, and need not be aligned.
template <class Operation>
void combine(const std::byte* a, const std::byte* b, std::byte* result, std::size_t count,
             Operation operation) {
  const auto block = [&](std::size_t at, std::size_t elements) {
    float left[width];
    float right[width];
    std::memcpy(left, a + at * sizeof(float), elements * sizeof(float));
    std::memcpy(right, b + at * sizeof(float), elements * sizeof(float));
    for (std::size_t i = 0; i < elements; ++i)
      left[i] = operation(left[i], right[i]);
    std::memcpy(result + at * sizeof(float), left, elements * sizeof(float));
  };
  std::size_t at = 0;
  for (; at + width <= count; at += width)
    block(at, width);
  if (at < count) block(at, count - at);
}

}  // namespace

void reduce_floats(Reduction reduction, const std::byte* a, const std::byte* b, std::byte* result,
                   std::size_t bytes) {
  SIM_CHECK(bytes % sizeof(float) == 0, bytes);
  const std::size_t count = bytes / sizeof(float);
  if (reduction == Reduction::maximum)
    combine(a, b, result, count, [](float x, float y) { return x > y || std::isnan(x) ? x : y; });
  else
    combine(a, b, result, count, [](float x, float y) { return x + y; });
}

void divide_floats(std::span<std::byte> data, int divisor) {
  const auto by = static_cast<float>(divisor);
  for (std::size_t at = 0; at + sizeof(float) <= data.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, data.data() + at, sizeof value);
    value /= by;
    std::memcpy(data.data() + at, &value, sizeof value);
  }
}

}  // namespace real
