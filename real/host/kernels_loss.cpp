#include "real/host/kernels_loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "real/host/eigen_maps.hpp"

namespace real {
namespace {

void check(const ClassSlice& slice, std::span<const float> logits, std::size_t tokens) {
  SIM_CHECK(logits.size() == tokens * static_cast<std::size_t>(slice.width), logits.size(), tokens,
            slice.width);
}

}  // namespace

std::int64_t ClassSlice::real_width() const {
  return std::clamp<std::int64_t>(classes - first, 0, width);
}

void loss_maximum(const ClassSlice& slice, std::span<const float> logits,
                  std::span<float> maximum) {
  check(slice, logits, maximum.size());
  const std::int64_t count = slice.real_width();
  for (std::size_t t = 0; t < maximum.size(); ++t) {
    const auto of = array(row(logits, static_cast<std::int64_t>(t), slice.width)).head(count);
    // NaN must not be hidden by a maximum: it reaches the loss through the exponentials.
    maximum[t] = count > 0 ? of.maxCoeff() : std::numeric_limits<float>::lowest();
  }
}

void loss_exponentials(const ClassSlice& slice, std::span<const float> logits,
                       std::span<const std::int32_t> targets, std::span<const float> maximum,
                       std::span<float> exponentials, std::span<float> target_logit,
                       std::span<float> exponential_sum) {
  check(slice, logits, targets.size());
  const std::int64_t count = slice.real_width();
  Eigen::ArrayXf values;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const auto index = static_cast<std::int64_t>(t);
    const auto from = row(logits, index, slice.width);
    const std::int64_t target = targets[t] - slice.first;
    target_logit[t] =
        target >= 0 && target < count ? from[static_cast<std::size_t>(target)] - maximum[t] : 0.0F;
    values = (array(from).head(count) - maximum[t]).exp();
    exponential_sum[t] = values.sum();
    if (exponentials.empty()) continue;
    auto to = array(row(exponentials, index, slice.width));
    to.head(count) = values;
    to.tail(slice.width - count).setZero();
  }
}

double loss_of(std::span<const float> target_logit, std::span<const float> exponential_sum) {
  SIM_CHECK(target_logit.size() == exponential_sum.size(), target_logit.size());
  double total = 0;
  for (std::size_t t = 0; t < target_logit.size(); ++t) {
    total +=
        std::log(static_cast<double>(exponential_sum[t])) - static_cast<double>(target_logit[t]);
  }
  return total;
}

void loss_gradient(const ClassSlice& slice, std::span<const float> exponentials,
                   std::span<const float> exponential_sum, std::span<const std::int32_t> targets,
                   float scale, std::span<float> dlogits) {
  check(slice, exponentials, targets.size());
  const std::int64_t count = slice.real_width();
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const auto index = static_cast<std::int64_t>(t);
    const std::span<float> to = row(dlogits, index, slice.width);
    array(to).head(count) =
        array(row(exponentials, index, slice.width)).head(count) * (scale / exponential_sum[t]);
    array(to).tail(slice.width - count).setZero();
    const std::int64_t target = targets[t] - slice.first;
    if (target >= 0 && target < count) to[static_cast<std::size_t>(target)] -= scale;
  }
}

}  // namespace real
