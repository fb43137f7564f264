#include "real/host/kernels/kernels_loss.hpp"

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

// NaN must not be hidden by a maximum: it reaches the loss through the exponentials.
float largest(std::span<const float> logits, std::int64_t count) {
  return count > 0 ? array(logits).head(count).maxCoeff() : std::numeric_limits<float>::lowest();
}

}  // namespace

std::int64_t ClassSlice::real_width() const {
  return std::clamp<std::int64_t>(classes - first, 0, width);
}

void loss_maximum(const ClassSlice& slice, std::span<const float> logits,
                  std::span<float> maximum) {
  check(slice, logits, maximum.size());
  const std::int64_t count = slice.real_width();
  for (std::size_t t = 0; t < maximum.size(); ++t)
    maximum[t] = largest(row(logits, static_cast<std::int64_t>(t), slice.width), count);
}

void loss_exponentials(const ClassSlice& slice, std::span<const float> logits,
                       const kernels::TokenIds& targets, std::span<const float> maximum,
                       std::span<float> exponentials, std::span<float> target_logit,
                       std::span<float> exponential_sum) {
  check(slice, logits, static_cast<std::size_t>(targets.tokens));
  const std::int64_t count = slice.real_width();
  Eigen::ArrayXf values;
  for (std::int64_t index = 0; index < targets.tokens; ++index) {
    const auto t = static_cast<std::size_t>(index);
    const auto from = row(logits, index, slice.width);
    const std::int64_t target = targets[index] - slice.first;
    const float top = maximum.empty() ? largest(from, count) : maximum[t];
    const float elsewhere = maximum.empty() ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
    target_logit[t] =
        target >= 0 && target < count ? from[static_cast<std::size_t>(target)] - top : elsewhere;
    values = (array(from).head(count) - top).exp();
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
                   std::span<const float> exponential_sum, const kernels::TokenIds& targets,
                   float scale, std::span<float> dlogits) {
  check(slice, exponentials, static_cast<std::size_t>(targets.tokens));
  const std::int64_t count = slice.real_width();
  for (std::int64_t index = 0; index < targets.tokens; ++index) {
    const auto t = static_cast<std::size_t>(index);
    const std::span<float> to = row(dlogits, index, slice.width);
    array(to).head(count) =
        array(row(exponentials, index, slice.width)).head(count) * (scale / exponential_sum[t]);
    array(to).tail(slice.width - count).setZero();
    const std::int64_t target = targets[index] - slice.first;
    if (target >= 0 && target < count) to[static_cast<std::size_t>(target)] -= scale;
  }
}

void loss_gradient(const ClassSlice& slice, const KeptLogits& kept,
                   const kernels::TokenIds& targets, float scale, std::span<float> dlogits) {
  check(slice, kept.logits, static_cast<std::size_t>(targets.tokens));
  const std::int64_t count = slice.real_width();
  for (std::int64_t index = 0; index < targets.tokens; ++index) {
    const auto t = static_cast<std::size_t>(index);
    const auto from = row(kept.logits, index, slice.width);
    const std::int64_t target = targets[index] - slice.first;
    const bool here = target >= 0 && target < count;
    const float none = std::numeric_limits<float>::quiet_NaN();
    const float logit = here ? from[static_cast<std::size_t>(target)] : none;
    const float top = kept.maximum.empty() ? logit - kept.target_logit[t] : kept.maximum[t];
    const std::span<float> to = row(dlogits, index, slice.width);
    array(to).head(count) =
        (array(from).head(count) - top).exp() * (scale / kept.exponential_sum[t]);
    array(to).tail(slice.width - count).setZero();
    if (here) to[static_cast<std::size_t>(target)] -= scale;
  }
}

}  // namespace real
