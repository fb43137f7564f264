#include "real/host/kernels/kernels_optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "real/host/eigen_maps.hpp"

namespace real {
namespace {

// Elements at a time: gradient, weight, m and v of a block stay in the first-level cache.
constexpr std::size_t optimizer_block = 1024;

}  // namespace

void adamw(const AdamStep& step, std::span<const float> gradient, std::span<float> weight,
           std::span<float> master, std::span<float> m, std::span<float> v) {
  SIM_CHECK(gradient.size() == weight.size() && m.size() == weight.size() &&
                v.size() == weight.size() && (master.empty() || master.size() == weight.size()),
            gradient.size(), weight.size(), master.size(), m.size(), v.size());
  const auto beta1 = static_cast<float>(step.beta1);
  const auto beta2 = static_cast<float>(step.beta2);
  const auto fresh1 = static_cast<float>(1 - step.beta1);
  const auto fresh2 = static_cast<float>(1 - step.beta2);
  const auto scale = static_cast<float>(step.gradient_scale);
  const auto keep = static_cast<float>(1 - step.learning_rate * step.weight_decay);
  const auto rate = static_cast<float>(step.learning_rate / step.correction1);
  const auto root = static_cast<float>(1 / std::sqrt(step.correction2));
  const auto epsilon = static_cast<float>(step.epsilon);
  const std::span<float> exact = master.empty() ? weight : master;
  Eigen::ArrayXf g;
  for (std::size_t at = 0; at < weight.size(); at += optimizer_block) {
    const std::size_t count = std::min(optimizer_block, weight.size() - at);
    auto first = array(m.subspan(at, count));
    auto second = array(v.subspan(at, count));
    auto to = array(exact.subspan(at, count));
    g = array(gradient.subspan(at, count)) * scale;
    first = first * beta1 + g * fresh1;
    second = second * beta2 + g.square() * fresh2;
    to = to * keep - rate * first / (second.sqrt() * root + epsilon);
    if (!master.empty()) array(weight.subspan(at, count)) = to;
  }
}

// Blocks in float, their sum in double: exact enough for any length, and vectorised.
double sum_of_squares(std::span<const float> gradient) {
  double total = 0;
  for (std::size_t at = 0; at < gradient.size(); at += optimizer_block) {
    const auto part = array(gradient.subspan(at, std::min(optimizer_block, gradient.size() - at)));
    total += static_cast<double>(part.square().sum());
  }
  return total;
}

double clip_scale(double norm, double clip) {
  return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
}

}  // namespace real
