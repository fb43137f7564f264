#include "tests/catch.hpp"
#include "tests/gpu/device_array.hpp"

using namespace gpu_test;
using real::kernels::NormShape;
using sim::DType;
using sim::Function;

namespace {

struct Reference {
  Numbers output, gradient, parameter_gradient;
};

// One row after another in double; the formulas stand in real/cuda/kernels/norm.cuh.
Reference solve(const NormShape& shape, const Numbers& x, const Numbers& parameters,
                const Numbers& dy) {
  const auto width = static_cast<std::size_t>(shape.width);
  const auto n = static_cast<double>(width);
  const bool centred = shape.function != Function::rms_norm;
  Reference to{Numbers(x.size()), Numbers(x.size()), Numbers(parameters.size())};
  for (std::size_t row = 0; row < x.size(); row += width) {
    double mean = 0, variance = 0, along = 0, mean_g = 0;
    for (std::size_t i = 0; i < width; ++i)
      mean += centred ? x[row + i] / n : 0;
    for (std::size_t i = 0; i < width; ++i)
      variance += std::pow(x[row + i] - mean, 2) / n;
    const double inverse = 1 / std::sqrt(variance + static_cast<double>(shape.epsilon));
    const auto normal = [&](std::size_t i) { return (x[row + i] - mean) * inverse; };
    for (std::size_t i = 0; i < width; ++i) {
      to.output[row + i] = normal(i) * parameters[i];
      to.parameter_gradient[i] += dy[row + i] * normal(i);
      if (parameters.size() > width) {
        to.output[row + i] += parameters[width + i];
        to.parameter_gradient[width + i] += dy[row + i];
      }
      along += dy[row + i] * parameters[i] * normal(i) / n;
      mean_g += centred ? dy[row + i] * parameters[i] / n : 0;
    }
    for (std::size_t i = 0; i < width; ++i)
      to.gradient[row + i] = (dy[row + i] * parameters[i] - mean_g - normal(i) * along) * inverse;
  }
  return to;
}

// An array of the numbers that begins one element behind a boundary, where asked for.
class Placed {
 public:
  Placed(DType dtype, Numbers numbers, bool shifted)
      : before_{shifted ? 1U : 0U}, bytes_{shifted ? sim::bytes_of(dtype) : 0}, array_{[&] {
          if (shifted) numbers.insert(numbers.begin(), 0);
          return Array{dtype, numbers};
        }()} {}
  void* data() const { return static_cast<std::byte*>(array_.data()) + bytes_; }
  Numbers numbers() const {
    Numbers all = array_.numbers();
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(before_));
    return all;
  }

 private:
  std::size_t before_;
  std::int64_t bytes_;
  Array array_;
};

void check_norm(const NormShape& shape, DType gradient_dtype, bool residual, bool accumulate,
                bool shifted = false) {
  CAPTURE(shape.rows, shape.width, static_cast<int>(shape.dtype), residual, accumulate);
  const auto count = static_cast<std::size_t>(shape.rows * shape.width);
  const auto parameter_count =
      static_cast<std::size_t>(shape.width * (shape.function == Function::layer_norm ? 2 : 1));
  Numbers x = random_numbers(1, count, shape.dtype);
  for (double& value : x)
    value += 3;  // a mean that matters
  for (double& value : x)
    value = shape.dtype == DType::bf16 ? from_bf16(to_bf16(value)) : value;
  const Numbers parameters = random_numbers(2, parameter_count, shape.dtype);
  const Numbers dy = random_numbers(3, count, shape.dtype);
  const Numbers past = random_numbers(4, count, shape.dtype);
  const Numbers before = random_numbers(5, parameter_count, gradient_dtype);
  Reference expected = solve(shape, x, parameters, dy);
  for (std::size_t i = 0; residual && i < count; ++i)
    expected.gradient[i] += past[i];
  for (std::size_t i = 0; accumulate && i < parameter_count; ++i)
    expected.parameter_gradient[i] += before[i];

  const Placed dx{shape.dtype, x, shifted}, dparameters{shape.dtype, parameters, shifted};
  const Placed ddy{shape.dtype, dy, shifted}, dpast{shape.dtype, past, shifted};
  const Placed output{shape.dtype, Numbers(count, NAN), shifted};
  const Array parameter_gradient{gradient_dtype, before};
  norm_forward(shape, dx.data(), dparameters.data(), output.data(), nullptr);
  CHECK(worst_error(output.numbers(), expected.output) < tolerance(shape.dtype));
  const Scratch scratch{norm_backward_workspace(shape)};
  norm_backward(shape,
                {.input = dx.data(),
                 .parameters = dparameters.data(),
                 .gradient = ddy.data(),
                 .residual_gradient = residual ? dpast.data() : nullptr,
                 .input_gradient = ddy.data(),  // in place
                 .parameter_gradient = parameter_gradient.data(),
                 .gradient_dtype = gradient_dtype,
                 .accumulate = accumulate},
                scratch.workspace(), nullptr);
  CHECK(worst_error(ddy.numbers(), expected.gradient) < tolerance(shape.dtype));
  CHECK(worst_error(parameter_gradient.numbers(), expected.parameter_gradient) <
        tolerance(gradient_dtype));
}

}  // namespace

TEST_CASE("norms and their gradients equal the formulas in double", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const Function function =
      GENERATE(Function::layer_norm, Function::layer_norm_no_bias, Function::rms_norm);
  const bool descending = GENERATE(false, true);
  run_in_descending_order(descending);
  check_norm({function, dtype, 7, 64}, DType::fp32, descending, !descending);
  check_norm({function, dtype, 3, 1016}, dtype, !descending, descending);
  check_norm({function, dtype, 5, 37}, DType::fp32, true, true);  // no whole vectors
  run_in_descending_order(false);
}

TEST_CASE("norms whose rows are shared by one warp, by some, by a block", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const Function function = GENERATE(Function::layer_norm, Function::rms_norm);
  const bool descending = GENERATE(false, true);
  run_in_descending_order(descending);
  // In bf16: lanes of 3 vectors and one warp; 2 and 2, 4, 8 warps, the last ones idle in part; 3
  // and 7; 4 and 8, the widest that stays in registers.
  for (const std::int64_t width : {768, 1024, 1600, 4080, 5120, 8192})
    check_norm({function, dtype, 5, width}, DType::fp32, descending, true);
  run_in_descending_order(false);
}

TEST_CASE("norms of rows that begin at no vector", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const Function function =
      GENERATE(Function::layer_norm, Function::layer_norm_no_bias, Function::rms_norm);
  check_norm({function, dtype, 4, 64}, DType::fp32, true, true, true);
  check_norm({function, dtype, 3, 1001}, DType::fp32, true, false, true);
}

TEST_CASE("norms of wide rows, and of more rows than blocks", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  check_norm({Function::layer_norm, dtype, 2, 5000}, DType::fp32, true, true);
  check_norm({Function::rms_norm, dtype, 1, 12288}, DType::fp32, false, true);
  check_norm({Function::layer_norm, dtype, 2, 16384}, DType::fp32, true, true);
  check_norm({Function::layer_norm, dtype, 2011, 16}, DType::fp32, false, false);
  check_norm({Function::rms_norm, dtype, 300, 9}, DType::fp32, true, false);
}

TEST_CASE("a norm refuses a row that is too wide", "[gpu]") {
  CHECK_THROWS_WITH(real::kernels::norm_forward({Function::rms_norm, DType::bf16, 1, 20000},
                                                nullptr, nullptr, nullptr, nullptr),
                    "norm_forward: a width of 20000 is not within 1 ... 16384");
}
