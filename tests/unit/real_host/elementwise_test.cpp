// Activations and rotary embedding against their formulas in float64; sums.
#include <limits>
#include <numbers>

#include "real/host/kernels/kernels_elementwise.hpp"
#include "tests/unit/real_host/kernel_check.hpp"

using namespace real_test;  // NOLINT(google-build-using-namespace)
using sim::Function;

namespace {

double gelu(double x) {
  const double c = std::sqrt(2.0 / std::numbers::pi);
  return 0.5 * x * (1 + std::tanh(c * (x + 0.044715 * x * x * x)));
}

double plain(Function function, double x) {
  if (function == Function::gelu) return gelu(x);
  const double positive = std::max(x, 0.0);
  return function == Function::relu ? positive : positive * positive;
}

Doubles reference(Function function, std::size_t width, const Doubles& x) {
  Doubles y;
  if (!real::is_gated(function)) {
    for (const double value : x)
      y.push_back(plain(function, value));
    return y;
  }
  for (std::size_t row = 0; row < x.size(); row += 2 * width) {
    for (std::size_t i = 0; i < width; ++i) {
      const double gate = x[row + i];
      const double value = function == Function::swiglu ? gate / (1 + std::exp(-gate)) : gelu(gate);
      y.push_back(value * x[row + width + i]);
    }
  }
  return y;
}

// A rotation of the pairs (i, i + d/2) of each head, written with complex numbers' rule.
Doubles rotated(const real::RotaryShape& shape, Doubles rows, double sign) {
  const auto d = static_cast<std::size_t>(shape.turned);
  for (std::size_t t = 0; t < static_cast<std::size_t>(shape.tokens); ++t) {
    const auto position = static_cast<double>(t % static_cast<std::size_t>(shape.sequence));
    for (std::size_t h = 0; h < static_cast<std::size_t>(shape.heads); ++h) {
      double* head = rows.data() + t * static_cast<std::size_t>(shape.width) +
                     h * static_cast<std::size_t>(shape.head_dim);
      for (std::size_t i = 0; i < d / 2; ++i) {
        const double angle =
            sign * position *
            std::pow(10'000.0, -2.0 * static_cast<double>(i) / static_cast<double>(d));
        const double re = head[i] * std::cos(angle) - head[i + d / 2] * std::sin(angle);
        head[i + d / 2] = head[i] * std::sin(angle) + head[i + d / 2] * std::cos(angle);
        head[i] = re;
      }
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("activations and their gradients follow their formulas", "[real_host]") {
  const Function function = GENERATE(Function::gelu, Function::relu, Function::squared_relu,
                                     Function::swiglu, Function::geglu);
  const std::uint64_t seed = GENERATE(range(0, 4));
  CAPTURE(word(function), seed);
  const std::int64_t tokens = random_size(seed, 1, 1, 9);
  // Beyond a block of 1,024 elements now and then.
  const std::int64_t width = random_size(seed, 2, 1, seed == 3 ? 300 : 20);
  const Floats x = random_floats(seed, 3, tokens * width * (real::is_gated(function) ? 2 : 1), 2.0);
  const Floats dy = random_floats(seed, 4, tokens * width);
  Floats y(dy.size());
  real::activation_forward(function, width, x, y);
  const auto columns = static_cast<std::size_t>(width);
  CHECK(relative_error(y, reference(function, columns, exact(x))) < float_error);
  // Element by element: the finite difference of one does not need all the others.
  Doubles up = exact(x);
  Floats dx(x.size());
  real::activation_backward(function, width, function == Function::relu ? y : x, dy, dx);
  if (x.size() > 1000) return;
  const Doubles expected = finite_differences(
      [&](const Doubles& at) { return dot(reference(function, columns, at), dy); }, std::move(up));
  CHECK(relative_error(dx, expected) < float_error);
}

TEST_CASE("activations stay finite far from zero", "[real_host]") {
  const Function function = GENERATE(Function::gelu, Function::relu, Function::squared_relu,
                                     Function::swiglu, Function::geglu);
  const Floats x{-1e4F, 1e4F, -200.0F, 200.0F, 0.0F, -0.0F};
  const std::int64_t width = real::is_gated(function) ? 3 : 6;
  Floats y(static_cast<std::size_t>(width));
  real::activation_forward(function, width, x, y);
  CHECK(real::all_finite(y));
  Floats dx(6);
  real::activation_backward(function, width, x, Floats(y.size(), 1.0F), dx);
  CHECK(real::all_finite(dx));
}

TEST_CASE("rotary embedding turns pairs by position and its inverse turns them back",
          "[real_host]") {
  const std::uint64_t seed = GENERATE(range(0, 6));
  CAPTURE(seed);
  real::RotaryShape shape{.tokens = 0,
                          .sequence = random_size(seed, 1, 1, 40),
                          .heads = random_size(seed, 2, 1, 4),
                          .head_dim = 2 * random_size(seed, 3, 1, 9),
                          .width = 0};
  shape.tokens = shape.sequence * random_size(seed, 4, 1, 3);
  shape.turned = seed % 2 == 0 ? shape.head_dim : (shape.head_dim + 3) / 4 * 2;
  shape.width = (shape.heads + 2) * shape.head_dim;
  const Floats x = random_floats(seed, 5, shape.tokens * shape.width);
  Floats y = x;
  real::rotary(shape, y, false);
  CHECK(relative_error(y, rotated(shape, exact(x), 1)) < float_error);
  // The transpose of a rotation is its inverse: that is the backward pass.
  Floats back = y;
  real::rotary(shape, back, true);
  CHECK(relative_error(back, exact(x)) < float_error);
}

TEST_CASE("numbers that are not finite are found wherever they stand", "[real_host]") {
  const float bad =
      GENERATE(std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
               std::numeric_limits<float>::quiet_NaN());
  Floats values(1003, std::numeric_limits<float>::max());
  values[7] = std::numeric_limits<float>::denorm_min();
  CHECK(real::all_finite(values));
  for (const std::size_t at : {std::size_t{0}, std::size_t{500}, std::size_t{1002}}) {
    Floats some = values;
    some[at] = bad;
    CHECK_FALSE(real::all_finite(some));
  }
}

TEST_CASE("a not-a-number passes through every activation", "[real_host]") {
  const Function function = GENERATE(Function::gelu, Function::relu, Function::squared_relu,
                                     Function::swiglu, Function::geglu);
  const Floats x(34, std::numeric_limits<float>::quiet_NaN());
  Floats y(real::is_gated(function) ? 17 : 34);
  real::activation_forward(function, static_cast<std::int64_t>(y.size()), x, y);
  for (const float value : y)
    CHECK(std::isnan(value));
}
