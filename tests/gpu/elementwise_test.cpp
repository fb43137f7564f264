#include "tests/catch.hpp"
#include "tests/gpu/device_array.hpp"

using namespace gpu_test;
using real::kernels::ActivationShape;
using sim::DType;
using sim::Function;

namespace {

double gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double value(Function function, double x) {
  switch (function) {
    case Function::relu:
      return std::max(x, 0.0);
    case Function::squared_relu:
      return x > 0 ? x * x : 0;
    case Function::swiglu:
      return x / (1 + std::exp(-x));
    default:
      return gelu(x);
  }
}
// By central differences in double: exact to 1e-9.
double slope(Function function, double x) {
  const double h = 1e-5;
  return (value(function, x + h) - value(function, x - h)) / (2 * h);
}

}  // namespace

TEST_CASE("activations and their gradients", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const Function function = GENERATE(Function::gelu, Function::relu, Function::squared_relu,
                                     Function::swiglu, Function::geglu);
  const std::size_t width = GENERATE(48, 5);  // whole vectors, and none
  const bool gated = function == Function::swiglu || function == Function::geglu;
  const std::size_t rows = 9, inputs = gated ? 2 * width : width;
  Numbers x = random_numbers(1, rows * inputs, dtype);
  for (double& number : x)
    number *= 4;
  const Numbers dy = random_numbers(2, rows * width, dtype);
  Numbers y(dy.size()), dx(x.size());
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const std::size_t at = gated ? i / width * 2 * width + i % width : i;
    const double other = gated ? x[at + width] : 1;
    y[i] = value(function, x[at]) * other;
    dx[at] = dy[i] * other * slope(function, x[at]);
    if (gated) dx[at + width] = dy[i] * value(function, x[at]);
  }
  const ActivationShape shape{function, dtype, static_cast<std::int64_t>(rows),
                              static_cast<std::int64_t>(width)};
  const Array input{dtype, x}, output{dtype, y.size()}, gradient{dtype, dy};
  const Array input_gradient{dtype, x.size()};
  activation_forward(shape, input.data(), output.data(), nullptr);
  const void* saved = function == Function::relu ? output.data() : input.data();
  activation_backward(shape, saved, gradient.data(), input_gradient.data(), nullptr);
  CAPTURE(static_cast<int>(function), width);
  CHECK(worst_error(output.numbers(), y) < tolerance(dtype));
  CHECK(worst_error(input_gradient.numbers(), dx) < tolerance(dtype));
}

TEST_CASE("sums, casts, biases", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const std::size_t width = GENERATE(40, 7);
  const std::size_t rows = 11;
  const Numbers a = random_numbers(1, rows * width, dtype);
  const Numbers b = random_numbers(2, a.size(), DType::bf16);
  const Numbers bias = random_numbers(3, width, dtype);
  const auto count = static_cast<std::int64_t>(a.size());
  const Array x{dtype, a}, y{dtype, b}, sum{dtype, a.size()};
  real::kernels::add(dtype, count, x.data(), y.data(), sum.data(), nullptr);
  Numbers expected = a;
  for (std::size_t i = 0; i < a.size(); ++i)
    expected[i] += b[i];
  CHECK(worst_error(sum.numbers(), expected) < tolerance(dtype));

  const Array wide{DType::fp32, b}, narrow{DType::bf16, b.size()};
  real::kernels::cast({dtype, DType::fp32, true, 0.5f}, count, x.data(), wide.data(), nullptr);
  for (std::size_t i = 0; i < a.size(); ++i)
    expected[i] = b[i] + a[i] / 2;
  CHECK(worst_error(wide.numbers(), expected) < 1e-6);
  real::kernels::cast({dtype, DType::bf16, false, 1}, count, x.data(), narrow.data(), nullptr);
  CHECK(worst_error(narrow.numbers(), a) < 1.0 / 256);

  const Array device_bias{dtype, bias};
  real::kernels::add_bias(dtype, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(width),
                          device_bias.data(), x.data(), nullptr);
  for (std::size_t i = 0; i < a.size(); ++i)
    expected[i] = a[i] + bias[i % width];
  CHECK(worst_error(x.numbers(), expected) < tolerance(dtype));
}

TEST_CASE("the gradient of a bias is the sum of the rows", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const std::size_t width = GENERATE(40, 7, 264, 2056);  // one tile of columns, more, part of one
  const std::size_t rows = GENERATE(1, 5, 700);          // no whole round of a warp; several
  const bool accumulate = GENERATE(false, true);
  run_in_descending_order(accumulate);
  const Numbers dy = random_numbers(1, rows * width, dtype);
  Numbers expected = random_numbers(2, width, DType::fp32);
  const Array gradient{dtype, dy}, sums{DType::fp32, expected};
  if (!accumulate) std::fill(expected.begin(), expected.end(), 0);
  for (std::size_t i = 0; i < dy.size(); ++i)
    expected[i % width] += dy[i];
  const real::kernels::ColumnSum shape{dtype, DType::fp32, static_cast<std::int64_t>(rows),
                                       static_cast<std::int64_t>(width), accumulate};
  const Scratch scratch{bias_gradient_workspace(shape)};
  bias_gradient(shape, gradient.data(), sums.data(), scratch.workspace(), nullptr);
  CHECK(worst_error(sums.numbers(), expected) < 1e-5);
  run_in_descending_order(false);
}

TEST_CASE("ranges are packed side by side, and unpacked", "[gpu]") {
  const Numbers x = random_numbers(1, 100, DType::bf16);
  const std::vector<real::kernels::Range> ranges{{3, 10}, {50, 1}, {60, 7}};
  const Array from{DType::bf16, x}, packed{DType::bf16, 18}, to{DType::bf16, Numbers(100)};
  real::kernels::pack(DType::bf16, ranges.data(), 3, from.data(), packed.data(), nullptr);
  real::kernels::unpack(DType::bf16, ranges.data(), 3, packed.data(), to.data(), nullptr);
  Numbers expected(100);
  for (const auto& range : ranges)
    for (std::int64_t i = range.at; i < range.at + range.elements; ++i)
      expected[static_cast<std::size_t>(i)] = x[static_cast<std::size_t>(i)];
  CHECK(to.numbers() == expected);
}
