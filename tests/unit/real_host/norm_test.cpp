// Norms against their definition in float64, gradients against its finite differences.
#include "real/host/kernels/kernels_norm.hpp"
#include "tests/unit/real_host/kernel_check.hpp"

using namespace real_test;  // NOLINT(google-build-using-namespace)
using sim::Function;

namespace {

// Rows of x, each normalised; parameters: scale, then shift.
Doubles reference(Function function, std::size_t features, const Doubles& x,
                  const Doubles& parameters) {
  Doubles y(x.size());
  for (std::size_t at = 0; at < x.size(); at += features) {
    double mean = 0;
    for (std::size_t i = 0; i < features; ++i)
      mean += x[at + i] / static_cast<double>(features);
    if (function == Function::rms_norm) mean = 0;
    double variance = 0;
    for (std::size_t i = 0; i < features; ++i)
      variance += (x[at + i] - mean) * (x[at + i] - mean) / static_cast<double>(features);
    for (std::size_t i = 0; i < features; ++i) {
      y[at + i] = (x[at + i] - mean) / std::sqrt(variance + 1e-5) * parameters[i];
      if (function == Function::layer_norm) y[at + i] += parameters[features + i];
    }
  }
  return y;
}

Function function_of(int index) {
  return std::array{Function::layer_norm, Function::layer_norm_no_bias,
                    Function::rms_norm}[static_cast<std::size_t>(index)];
}

// head_reference() is what the norms of the heads do to a [queries
// keys
// values] matrix.
Doubles head_reference(const real::HeadNormShape& shape, Doubles qkv, const Doubles& parameters) {
  const auto d = static_cast<std::size_t>(shape.head_dim);
  const auto width = static_cast<std::size_t>(shape.heads + 2 * shape.kv_heads) * d;
  const std::size_t half = parameters.size() / 2;
  const auto middle = parameters.begin() + static_cast<std::ptrdiff_t>(half);
  const Doubles of_queries{parameters.begin(), middle};
  const Doubles of_keys{middle, parameters.end()};
  for (std::size_t t = 0; t < qkv.size(); t += width) {
    for (std::size_t h = 0; h < static_cast<std::size_t>(shape.heads + shape.kv_heads); ++h) {
      const auto first = qkv.begin() + static_cast<std::ptrdiff_t>(t + h * d);
      const Doubles head{first, first + shape.head_dim};
      const bool key = h >= static_cast<std::size_t>(shape.heads);
      const Doubles normed = reference(shape.function, d, head, key ? of_keys : of_queries);
      std::copy(normed.begin(), normed.end(), first);
    }
  }
  return qkv;
}

}  // namespace

TEST_CASE("a norm scales each row to variance one and its gradients are those of its definition",
          "[real_host]") {
  const int index = GENERATE(0, 1, 2);
  const std::uint64_t seed = GENERATE(range(0, 4));
  CAPTURE(index, seed);
  const Function function = function_of(index);
  const std::int64_t rows = random_size(seed, 1, 1, 5);
  const std::int64_t features = random_size(seed, 2, 2, 19);
  const std::int64_t count = features * (real::has_shift(function) ? 2 : 1);
  const Floats x = random_floats(seed, 3, rows * features, 2.0);
  const Floats parameters = random_floats(seed, 4, count);
  const Floats dy = random_floats(seed, 5, rows * features);
  const Floats residual = random_floats(seed, 6, rows * features);
  const auto width = static_cast<std::size_t>(features);
  const real::NormShape shape{.rows = rows, .features = features, .function = function};

  Floats y(x.size());
  real::norm_forward(shape, x, parameters, y);
  CHECK(relative_error(y, reference(function, width, exact(x), exact(parameters))) < float_error);

  Doubles dx = finite_differences(
      [&](const Doubles& at) { return dot(reference(function, width, at, exact(parameters)), dy); },
      exact(x));
  Doubles dparameters = finite_differences(
      [&](const Doubles& at) { return dot(reference(function, width, exact(x), at), dy); },
      exact(parameters));
  Floats to(x.size());
  Floats gradients(parameters.size(), 5.0F);
  real::NormBackward operands{.x = x,
                              .parameters = parameters,
                              .dy = dy,
                              .residual = {},
                              .dx = to,
                              .parameter_gradients = gradients,
                              .accumulate = false};
  real::norm_backward(shape, operands);
  CHECK(relative_error(to, dx) < float_error);
  CHECK(relative_error(gradients, dparameters) < float_error);

  // Accumulating, with the gradient of the residual path added in its own place.
  to = residual;
  operands.residual = to;
  operands.accumulate = true;
  real::norm_backward(shape, operands);
  for (std::size_t i = 0; i < dx.size(); ++i)
    dx[i] += static_cast<double>(residual[i]);
  for (double& value : dparameters)
    value *= 2;
  CHECK(relative_error(to, dx) < float_error);
  CHECK(relative_error(gradients, dparameters) < float_error);
}

TEST_CASE("norms of heads act on queries and keys in place and leave values alone", "[real_host]") {
  const int index = GENERATE(0, 1, 2);
  const std::uint64_t seed = GENERATE(range(0, 4));
  CAPTURE(index, seed);
  real::HeadNormShape shape{.tokens = random_size(seed, 1, 1, 4),
                            .heads = 0,
                            .kv_heads = random_size(seed, 2, 1, 2),
                            .head_dim = 2 * random_size(seed, 3, 1, 4),
                            .function = function_of(index)};
  shape.heads = shape.kv_heads * random_size(seed, 4, 1, 2);
  const std::int64_t width = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
  const Floats qkv = random_floats(seed, 5, shape.tokens * width);
  const Floats parameters =
      random_floats(seed, 6, shape.head_dim * (real::has_shift(shape.function) ? 4 : 2));
  const Floats dy = random_floats(seed, 7, shape.tokens * width);

  Floats y = qkv;
  Floats raw(
      static_cast<std::size_t>(shape.tokens * (shape.heads + shape.kv_heads) * shape.head_dim));
  real::head_norm_forward(shape, parameters, y, raw);
  CHECK(relative_error(y, head_reference(shape, exact(qkv), exact(parameters))) < float_error);

  Floats gradient = dy;
  Floats gradients(parameters.size(), 5.0F);
  real::head_norm_backward(shape, raw, parameters, gradient, gradients, false);
  const Doubles dx = finite_differences(
      [&](const Doubles& at) { return dot(head_reference(shape, at, exact(parameters)), dy); },
      exact(qkv));
  const Doubles dparameters = finite_differences(
      [&](const Doubles& at) { return dot(head_reference(shape, exact(qkv), at), dy); },
      exact(parameters));
  CHECK(relative_error(gradient, dx) < float_error);
  CHECK(relative_error(gradients, dparameters) < float_error);
}
