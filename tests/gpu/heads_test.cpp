#include "tests/catch.hpp"
#include "tests/gpu/device_array.hpp"

using namespace gpu_test;
using real::kernels::HeadsShape;
using sim::DType;
using sim::Function;

TEST_CASE("rotary embedding turns pairs by their position, and back", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const std::int64_t turned = GENERATE(16, 6);  // whole vectors, and none
  const std::int64_t head_dim = turned + GENERATE(0, 16, 4);
  const HeadsShape shape{dtype, 10, 5, 2, 1, head_dim, {}, 0, turned};
  const Numbers x = random_numbers(1, static_cast<std::size_t>(10 * shape.row()), dtype);
  Numbers expected = x;
  for (std::size_t t = 0; t < 10; ++t)
    for (std::size_t head = 0; head < 3; ++head)
      for (std::size_t i = 0; i < static_cast<std::size_t>(turned / 2); ++i) {
        const auto half = static_cast<std::size_t>(turned / 2);
        const double angle =
            static_cast<double>(t % 5) *
            std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(turned));
        const std::size_t at = t * static_cast<std::size_t>(shape.row()) +
                               head * static_cast<std::size_t>(head_dim) + i;
        expected[at] = x[at] * std::cos(angle) - x[at + half] * std::sin(angle);
        expected[at + half] = x[at + half] * std::cos(angle) + x[at] * std::sin(angle);
      }
  const Array table{DType::fp32, static_cast<std::size_t>(5 * turned)};
  real::kernels::fill_rotary_table(5, turned, 10000, table.floats(), nullptr);
  const Array input{dtype, x}, output{dtype, x.size()};
  real::kernels::rotary(shape, false, table.floats(), input.data(), output.data(), nullptr);
  CHECK(worst_error(output.numbers(), expected) < tolerance(dtype));
  real::kernels::rotary(shape, true, table.floats(), output.data(), output.data(), nullptr);
  CHECK(worst_error(output.numbers(), x) < tolerance(dtype));
}

TEST_CASE("the norm of heads is a norm of every query and key head", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const Function function = GENERATE(Function::layer_norm, Function::rms_norm);
  const std::int64_t heads = 3, kv_heads = 2, tokens = 5, d = 64;
  const HeadsShape shape{dtype, tokens, tokens, heads, kv_heads, d};
  const std::int64_t own = function == Function::layer_norm ? 2 * d : d;
  const Numbers x = random_numbers(1, static_cast<std::size_t>(tokens * shape.row()), dtype);
  const Numbers dy = random_numbers(2, x.size(), dtype);
  const Numbers parameters = random_numbers(3, static_cast<std::size_t>(2 * own), dtype);
  const Array input{dtype, x}, device_parameters{dtype, parameters}, gradient{dtype, dy};
  const Array saved{dtype, static_cast<std::size_t>(tokens * (heads + kv_heads) * d)};
  const Array parameter_gradient{DType::fp32, parameters.size()};
  head_norm_forward(shape, {.function = function}, input.data(), device_parameters.data(),
                    input.data(), saved.data(), nullptr);
  const Scratch scratch{head_norm_backward_workspace(shape)};
  head_norm_backward(shape, {.function = function},
                     {.saved = saved.data(),
                      .parameters = device_parameters.data(),
                      .gradient = gradient.data(),
                      .input_gradient = gradient.data(),
                      .parameter_gradient = parameter_gradient.data(),
                      .accumulate = false},
                     scratch.workspace(), nullptr);

  // The same head by head with the norm over rows, which has its own test.
  Numbers expected = x, expected_gradient = dy, expected_parameters(parameters.size());
  for (std::int64_t head = 0; head < heads + kv_heads; ++head) {
    const std::int64_t first = head < heads ? 0 : own;
    Numbers rows, row_gradients;
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t i = 0; i < d; ++i) {
        rows.push_back(x[static_cast<std::size_t>(t * shape.row() + head * d + i)]);
        row_gradients.push_back(dy[static_cast<std::size_t>(t * shape.row() + head * d + i)]);
      }
    const real::kernels::NormShape norm{function, dtype, tokens, d};
    const Numbers part(parameters.begin() + first, parameters.begin() + first + own);
    const Array a{dtype, rows}, b{dtype, part}, c{dtype, rows.size()}, g{dtype, row_gradients};
    const Array sums{DType::fp32, part.size()};
    const Scratch more{norm_backward_workspace(norm)};
    norm_forward(norm, a.data(), b.data(), c.data(), nullptr);
    norm_backward(norm,
                  {.input = a.data(),
                   .parameters = b.data(),
                   .gradient = g.data(),
                   .input_gradient = g.data(),
                   .parameter_gradient = sums.data(),
                   .accumulate = false},
                  more.workspace(), nullptr);
    for (std::int64_t i = 0; i < tokens * d; ++i) {
      const auto at = static_cast<std::size_t>(i / d * shape.row() + head * d + i % d);
      expected[at] = c.numbers()[static_cast<std::size_t>(i)];
      expected_gradient[at] = g.numbers()[static_cast<std::size_t>(i)];
    }
    for (std::int64_t i = 0; i < own; ++i)
      expected_parameters[static_cast<std::size_t>(first + i)] +=
          sums.numbers()[static_cast<std::size_t>(i)];
  }
  CHECK(worst_error(input.numbers(), expected) < tolerance(dtype));
  CHECK(worst_error(gradient.numbers(), expected_gradient) < tolerance(dtype));
  CHECK(worst_error(parameter_gradient.numbers(), expected_parameters) < 1e-5);
}
