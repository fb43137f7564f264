#include "real/host/kernels/kernels_norm.hpp"

#include <array>
#include <cmath>

#include "real/host/eigen_maps.hpp"

namespace real {
namespace {

struct Statistics {
  float mean = 0;  // 0 for RMSNorm
  float inverse = 0;
};

Statistics statistics(std::span<const float> x, bool centred) {
  Statistics of;
  if (centred) of.mean = array(x).mean();
  of.inverse = 1.0F / std::sqrt((array(x) - of.mean).square().mean() + kernels::norm_epsilon);
  return of;
}

// Parameters of one norm, or their gradients.
template <class T>
struct Parts {
  std::span<T> scale, shift;  // no shift: empty
};

template <class T>
Parts<T> parts(std::span<T> parameters, std::int64_t features, sim::Function function) {
  const auto n = static_cast<std::size_t>(features);
  SIM_CHECK(parameters.size() == n * (has_shift(function) ? 2 : 1), parameters.size(), features);
  return {parameters.first(n), parameters.subspan(n)};
}

// Frozen parameters have none.
Parts<float> gradient_parts(std::span<float> gradients, std::int64_t features,
                            sim::Function function) {
  return gradients.empty() ? Parts<float>{} : parts(gradients, features, function);
}

void forward_row(std::span<const float> x, const Parts<const float>& parameters, bool centred,
                 std::span<float> y) {
  const Statistics of = statistics(x, centred);
  auto to = array(y);
  to = (array(x) - of.mean) * of.inverse * array(parameters.scale);
  if (!parameters.shift.empty()) to += array(parameters.shift);
}

// With n = (x - mean) / deviation, y = n scale + shift and g = dy scale:
//   dx = (g - mean(g) - n mean(g n)) / deviation,
// without mean(g) where nothing is centred; d scale = sum of dy n, d shift = sum of dy.
struct RowBackward {
  bool centred = true;
  Eigen::ArrayXf normalised, scaled;

  // Leaves dx in `scaled`.
  void run(std::span<const float> x, const Parts<const float>& parameters,
           std::span<const float> dy, const Parts<float>& gradients) {
    const Statistics of = statistics(x, centred);
    normalised = (array(x) - of.mean) * of.inverse;
    if (!gradients.scale.empty()) array(gradients.scale) += array(dy) * normalised;
    if (!gradients.shift.empty()) array(gradients.shift) += array(dy);
    scaled = array(dy) * array(parameters.scale);
    const float along = (scaled * normalised).mean();
    const float mean = centred ? scaled.mean() : 0.0F;
    scaled = (scaled - mean - normalised * along) * of.inverse;
  }
};

bool is_centred(sim::Function function) {
  return function != sim::Function::rms_norm;
}

// Both norms of the queries' and the keys' heads, head by head: visit(head of the row, offset in
// it, whether it is a key's).
template <class Visit>
void for_each_head(const HeadNormShape& shape, Visit visit) {
  for (std::int64_t head = 0; head < shape.heads + shape.kv_heads; ++head)
    visit(head * shape.head_dim, head >= shape.heads);
}

std::int64_t width_of(const HeadNormShape& shape) {
  return (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
}
std::int64_t normalised_width(const HeadNormShape& shape) {
  return (shape.heads + shape.kv_heads) * shape.head_dim;
}

template <class T>
std::array<Parts<T>, 2> head_parts(const HeadNormShape& shape, std::span<T> parameters) {
  const std::size_t half = parameters.size() / 2;
  return {parts(parameters.first(half), shape.head_dim, shape.function),
          parts(parameters.subspan(half), shape.head_dim, shape.function)};
}

std::array<Parts<float>, 2> head_gradients(const HeadNormShape& shape, std::span<float> gradients) {
  return gradients.empty() ? std::array<Parts<float>, 2>{} : head_parts(shape, gradients);
}

}  // namespace

bool has_shift(sim::Function function) {
  return function == sim::Function::layer_norm;
}

void norm_forward(const NormShape& shape, std::span<const float> x,
                  std::span<const float> parameters, std::span<float> y) {
  const Parts<const float> weights = parts(parameters, shape.features, shape.function);
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    forward_row(row(x, r, shape.features), weights, is_centred(shape.function),
                row(y, r, shape.features));
  }
}

void norm_backward(const NormShape& shape, const NormBackward& operands) {
  const Parts<const float> weights = parts(operands.parameters, shape.features, shape.function);
  const Parts<float> gradients =
      gradient_parts(operands.parameter_gradients, shape.features, shape.function);
  if (!operands.accumulate) array(operands.parameter_gradients).setZero();
  RowBackward backward{.centred = is_centred(shape.function), .normalised = {}, .scaled = {}};
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const auto to = row(operands.dx, r, shape.features);
    backward.run(row(operands.x, r, shape.features), weights, row(operands.dy, r, shape.features),
                 gradients);
    if (operands.residual.empty()) {
      array(to) = backward.scaled;
    } else {
      array(to) = backward.scaled + array(row(operands.residual, r, shape.features));
    }
  }
}

void head_norm_forward(const HeadNormShape& shape, std::span<const float> parameters,
                       std::span<float> qkv, std::span<float> raw) {
  const auto weights = head_parts(shape, parameters);
  const auto normalised = static_cast<std::size_t>(normalised_width(shape));
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    const std::span<float> token = row(qkv, t, width_of(shape));
    if (!raw.empty()) {
      array(row(raw, t, normalised_width(shape))) =
          array(std::span<const float>{token.first(normalised)});
    }
    for_each_head(shape, [&](std::int64_t offset, bool key) {
      const auto head =
          token.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(shape.head_dim));
      forward_row(head, weights[key ? 1 : 0], is_centred(shape.function), head);
    });
  }
}

void head_norm_backward(const HeadNormShape& shape, std::span<const float> raw,
                        std::span<const float> parameters, std::span<float> gradient,
                        std::span<float> parameter_gradients, bool accumulate) {
  const auto weights = head_parts(shape, parameters);
  const auto gradients = head_gradients(shape, parameter_gradients);
  if (!accumulate) array(parameter_gradients).setZero();
  RowBackward backward{.centred = is_centred(shape.function), .normalised = {}, .scaled = {}};
  const auto head_dim = static_cast<std::size_t>(shape.head_dim);
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    const std::span<const float> token = row(raw, t, normalised_width(shape));
    const std::span<float> token_gradient = row(gradient, t, width_of(shape));
    for_each_head(shape, [&](std::int64_t offset, bool key) {
      const auto head = token_gradient.subspan(static_cast<std::size_t>(offset), head_dim);
      backward.run(token.subspan(static_cast<std::size_t>(offset), head_dim), weights[key ? 1 : 0],
                   head, gradients[key ? 1 : 0]);
      array(head) = backward.scaled;
    });
  }
}

}  // namespace real
