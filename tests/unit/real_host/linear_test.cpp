// Linear kernels against products written out in float64.
#include "real/host/kernels/kernels_linear.hpp"
#include "tests/unit/real_host/kernel_check.hpp"

using namespace real_test;  // NOLINT(google-build-using-namespace)

namespace {

struct Case {
  real::LinearShape shape;
  Floats x, w, b, dy;
};

Case random_case(std::uint64_t seed) {
  Case made;
  made.shape = {.tokens = random_size(seed, 1, 1, 70),
                .in = random_size(seed, 2, 1, 50),
                .out = random_size(seed, 3, 1, 60)};
  made.x = random_floats(seed, 4, made.shape.tokens * made.shape.in);
  made.w = random_floats(seed, 5, made.shape.out * made.shape.in);
  made.b = random_floats(seed, 6, made.shape.out);
  made.dy = random_floats(seed, 7, made.shape.tokens * made.shape.out);
  return made;
}

// C[m, n] = sum over k of a(i, k) b(k, j)
template <class A, class B>
Doubles product(std::int64_t m, std::int64_t n, std::int64_t k, A a, B b) {
  Doubles c;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double total = 0;
      for (std::int64_t l = 0; l < k; ++l)
        total += a(i, l) * b(l, j);
      c.push_back(total);
    }
  }
  return c;
}

double at(const Floats& matrix, std::int64_t i, std::int64_t width, std::int64_t j) {
  return static_cast<double>(matrix[static_cast<std::size_t>(i * width + j)]);
}

}  // namespace

TEST_CASE("a linear layer multiplies by its transposed weights and adds its bias", "[real_host]") {
  const std::uint64_t seed = GENERATE(range(0, 10));
  CAPTURE(seed);
  const Case c = random_case(seed);
  const std::int64_t tokens = c.shape.tokens;
  const std::int64_t in = c.shape.in;
  const std::int64_t out = c.shape.out;
  Doubles expected = product(
      tokens, out, in, [&](auto i, auto l) { return at(c.x, i, in, l); },
      [&](auto l, auto j) { return at(c.w, j, in, l); });
  Floats y(expected.size());
  real::linear_forward(c.shape, c.x, c.w, {}, y);
  CHECK(relative_error(y, expected) < float_error);
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] += static_cast<double>(c.b[i % c.b.size()]);
  real::linear_forward(c.shape, c.x, c.w, c.b, y);
  CHECK(relative_error(y, expected) < float_error);
}

TEST_CASE("the input gradient of a linear layer is the output gradient times its weights",
          "[real_host]") {
  const std::uint64_t seed = GENERATE(range(0, 10));
  CAPTURE(seed);
  const Case c = random_case(seed);
  const std::int64_t tokens = c.shape.tokens;
  const std::int64_t in = c.shape.in;
  const std::int64_t out = c.shape.out;
  const Doubles expected = product(
      tokens, in, out, [&](auto i, auto l) { return at(c.dy, i, out, l); },
      [&](auto l, auto j) { return at(c.w, l, in, j); });
  Floats dx(expected.size(), 7.0F);
  real::linear_input_gradient(c.shape, c.dy, c.w, dx);
  CHECK(relative_error(dx, expected) < float_error);
}

TEST_CASE("weight and bias gradients are written first and added to afterwards", "[real_host]") {
  const std::uint64_t seed = GENERATE(range(0, 10));
  CAPTURE(seed);
  const Case c = random_case(seed);
  const std::int64_t in = c.shape.in;
  const std::int64_t out = c.shape.out;
  Doubles dw = product(
      out, in, c.shape.tokens, [&](auto i, auto l) { return at(c.dy, l, out, i); },
      [&](auto l, auto j) { return at(c.x, l, in, j); });
  Doubles db(static_cast<std::size_t>(out));
  for (std::size_t i = 0; i < c.dy.size(); ++i)
    db[i % db.size()] += static_cast<double>(c.dy[i]);
  Floats weight(dw.size(), 99.0F);
  Floats bias(db.size(), 99.0F);
  for (int round = 1; round <= 2; ++round) {
    real::linear_weight_gradient(c.shape, c.x, c.dy, weight, {.accumulate = round == 2});
    real::bias_gradient(c.dy, bias, round == 2);
    for (double& value : dw)
      value *= round;
    for (double& value : db)
      value *= round;
    CHECK(relative_error(weight, dw) < float_error);
    CHECK(relative_error(bias, db) < float_error);
  }
  // The gradient of experts: scaled, and added to what is there.
  Floats scaled = weight;
  real::linear_weight_gradient(c.shape, c.x, c.dy, scaled, {.scale = 0.25F, .accumulate = true});
  for (double& value : dw)
    value *= 1.125;  // twice a gradient, and a quarter of it
  CHECK(relative_error(scaled, dw) < float_error);
}
