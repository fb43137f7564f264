#include "real/engine/kernels/nf4.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

namespace real {
namespace {

// Arithmetic of QLoRA's appendix E: quantiles of a normal distribution, 0 among them.
constexpr std::array<float, 16> nf4_values{-1.0F,
                                           -0.6961928009986877F,
                                           -0.5250730514526367F,
                                           -0.39491748809814453F,
                                           -0.28444138169288635F,
                                           -0.18477343022823334F,
                                           -0.09105003625154495F,
                                           0.0F,
                                           0.07958029955625534F,
                                           0.16093020141124725F,
                                           0.24611230194568634F,
                                           0.33791524171829224F,
                                           0.44070982933044434F,
                                           0.5626170039176941F,
                                           0.7229568362236023F,
                                           1.0F};

// A sign, an exponent of ten from -6 to 0, and a fraction whose bits grow with it; 0 and 1.
std::vector<float> dynamic_values() {
  std::vector<float> values{0, 1};
  for (int exponent = 0; exponent < 7; ++exponent) {
    const int count = 1 << exponent;
    for (int i = 0; i < count; ++i) {
      const double mean = 0.1 + 0.9 * (i + 0.5) / count;
      const auto value = static_cast<float>(std::pow(10.0, exponent - 6) * mean);
      values.push_back(value);
      values.push_back(-value);
    }
  }
  std::sort(values.begin(), values.end());
  return values;
}

// The nearest of values in ascending order.
float nearest(std::span<const float> values, float value) {
  const auto above = std::lower_bound(values.begin(), values.end(), value);
  if (above == values.begin()) return *above;
  if (above == values.end()) return values.back();
  return *above - value < value - above[-1] ? *above : above[-1];
}

float largest(std::span<const float> values) {
  float most = 0;
  for (const float value : values)
    most = std::max(most, std::fabs(value));
  return most;
}

// visit(block) for every `size` values and what is left.
template <class Visit>
void for_each_block(std::span<float> values, std::size_t size, Visit visit) {
  for (std::size_t at = 0; at < values.size(); at += size)
    visit(values.subspan(at, std::min(size, values.size() - at)));
}

void round_scales(std::span<float> scales) {
  static const std::vector<float> dynamic = dynamic_values();
  double sum = 0;
  for (const float scale : scales)
    sum += scale;
  const auto mean = static_cast<float>(sum / static_cast<double>(scales.size()));
  for (float& scale : scales)
    scale -= mean;
  for_each_block(scales, 256, [](std::span<float> block) {
    const float most = largest(block);
    for (float& scale : block)
      if (most > 0) scale = nearest(dynamic, scale / most) * most;
  });
  for (float& scale : scales)
    scale += mean;
}

}  // namespace

void round_to_nf4(std::span<float> values) {
  if (values.empty()) return;
  std::vector<float> scales;
  for_each_block(values, 64, [&](std::span<float> block) {
    const float scale = largest(block);
    scales.push_back(scale);
    for (float& value : block)
      value = scale > 0 ? nearest(nf4_values, value / scale) : 0;
  });
  round_scales(scales);
  std::size_t at = 0;
  for_each_block(values, 64, [&](std::span<float> block) {
    for (float& value : block)
      value *= scales[at];
    ++at;
  });
}

}  // namespace real
