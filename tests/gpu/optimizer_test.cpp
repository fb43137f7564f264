#include "tests/catch.hpp"
#include "tests/gpu/device_array.hpp"

using namespace gpu_test;
using real::kernels::Range;
using sim::DType;

TEST_CASE("AdamW in double, with masters and without, with decay where it is asked for", "[gpu]") {
  const DType weight_dtype = GENERATE(DType::fp32, DType::bf16);
  const DType gradient_dtype = GENERATE(DType::fp32, DType::bf16);
  const DType moment_dtype = GENERATE(DType::fp32, DType::bf16);
  const std::size_t count = GENERATE(1200, 37);  // whole vectors, and none
  const bool masters = weight_dtype == DType::bf16;
  const Numbers g = random_numbers(1, count, gradient_dtype);
  Numbers w = random_numbers(2, count, DType::fp32), m = random_numbers(3, count, moment_dtype);
  Numbers v = random_numbers(4, count, moment_dtype);
  for (double& value : v)
    value = std::abs(value);
  const Array weight{weight_dtype, w}, master{DType::fp32, w}, dm{moment_dtype, m};
  const Array dv{moment_dtype, v}, gradient{gradient_dtype, g};
  const Values<Range> ranges{{{2, 10}, {20, 8}}};
  const Values<float> clip{{0.5F}};
  const real::kernels::Adam settings{1e-2, 0.9, 0.95, 1e-8, 0.1, 3};
  real::kernels::adam(settings,
                      {.weight_dtype = weight_dtype,
                       .gradient_dtype = gradient_dtype,
                       .moment_dtype = moment_dtype,
                       .weight = weight.data(),
                       .master = masters ? master.floats() : nullptr,
                       .m = dm.data(),
                       .v = dv.data(),
                       .gradient = gradient.data(),
                       .clip_scale = clip.data()},
                      static_cast<std::int64_t>(count), {ranges.data(), 2}, nullptr);
  for (std::size_t i = 0; i < count; ++i) {
    const double clipped = g[i] * 0.5;
    if ((i >= 2 && i < 12) || (i >= 20 && i < 28)) w[i] -= 1e-2 * 0.1 * w[i];
    m[i] = 0.9 * m[i] + 0.1 * clipped;
    v[i] = 0.95 * v[i] + 0.05 * clipped * clipped;
    w[i] -=
        1e-2 * (m[i] / (1 - std::pow(0.9, 3))) / (std::sqrt(v[i] / (1 - std::pow(0.95, 3))) + 1e-8);
  }
  const double rounding = moment_dtype == DType::bf16 ? 1.0 / 256 : 1e-6;
  CHECK(worst_error(dm.numbers(), m) < rounding);
  CHECK(worst_error(dv.numbers(), v) < rounding);
  CHECK(worst_error(weight.numbers(), w) < (masters ? 1.0 / 256 : 1e-6));
  if (masters) CHECK(worst_error(master.numbers(), w) < 1e-6);
}

TEST_CASE("Adam takes its step from the device, and stands still behind a closed gate", "[gpu]") {
  const Values<float> gate{{GENERATE(1.0F, INFINITY, NAN)}};
  const bool open = std::isfinite(gate.values()[0]);
  const Array weight{DType::fp32, Numbers{1, 1}}, m{DType::fp32, Numbers{0, 0}};
  const Array v{DType::fp32, Numbers{0, 0}}, gradient{DType::fp32, Numbers{1, -1}};
  const Values<real::kernels::AdamStep> step{{{0.25, 0.1, 0.05}}};
  real::kernels::adam({},
                      {.weight_dtype = DType::fp32,
                       .weight = weight.data(),
                       .m = m.floats(),
                       .v = v.floats(),
                       .gradient = gradient.data(),
                       .step = step.data(),
                       .gate = gate.data()},
                      2, {}, nullptr);
  // The first step moves every weight by the rate.
  CHECK(worst_error(weight.numbers(), open ? Numbers{0.75, 1.25} : Numbers{1, 1}) < 1e-6);
}

TEST_CASE("the gradient norm and what it is clipped with", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const std::size_t count = GENERATE(5, 4099);
  const Numbers x = random_numbers(1, count, dtype);
  double expected = 2;
  for (const double number : x)
    expected += 0.5 * number * number;
  const Array values{dtype, x};
  const Values<float> sum{{2.0F}}, norm{{0.0F}}, scale{{0.0F}};
  const Scratch scratch{real::kernels::square_sum_workspace()};
  square_sum({dtype, true, 0.5F}, static_cast<std::int64_t>(count), values.data(), sum.data(),
             scratch.workspace(), nullptr);
  real::kernels::finish_norm(sum.data(), 1.0F, norm.data(), scale.data(), nullptr);
  CHECK(sum.values()[0] == Approx(expected).epsilon(1e-5));
  CHECK(norm.values()[0] == Approx(std::sqrt(expected)).epsilon(1e-5));
  CHECK(scale.values()[0] == Approx(1 / (std::sqrt(expected) + 1e-6)).epsilon(1e-5));
}

TEST_CASE("a loss that is not finite spoils the sum of squares, a finite one does not", "[gpu]") {
  const Values<float> sum{{2.0F}};
  for (const double loss : {0.0, -3.5, 1e300}) {
    const Values<double> value{{loss}};
    real::kernels::require_finite(value.data(), sum.data(), nullptr);
    CHECK(sum.values()[0] == 2.0F);
  }
  const Values<double> value{{GENERATE(INFINITY, -INFINITY, NAN)}};
  real::kernels::require_finite(value.data(), sum.data(), nullptr);
  CHECK(std::isnan(sum.values()[0]));
}

TEST_CASE("the first operator with a number that is not finite is found", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  Numbers x = random_numbers(1, 3000, dtype);
  const Values<std::int32_t> first{{1000}};
  real::kernels::find_not_finite(dtype, 3000, Array{dtype, x}.data(), 7, first.data(), nullptr);
  CHECK(first.values()[0] == 1000);
  x[2999] = GENERATE(INFINITY, -INFINITY, NAN);
  real::kernels::find_not_finite(dtype, 3000, Array{dtype, x}.data(), 9, first.data(), nullptr);
  real::kernels::find_not_finite(dtype, 3000, Array{dtype, x}.data(), 12, first.data(), nullptr);
  CHECK(first.values()[0] == 9);
}
