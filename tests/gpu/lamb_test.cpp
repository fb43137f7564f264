#include "real/engine/kernels/lamb.hpp"

#include "tests/catch.hpp"
#include "tests/gpu/device_array.hpp"

using namespace gpu_test;
using sim::DType;

// The second tensor's weights are so small that its coefficient is at its lower bound.
TEST_CASE("LAMB moves every tensor in its own measure", "[gpu]") {
  const DType weight_dtype = GENERATE(DType::fp32, DType::bf16);
  const DType gradient_dtype = GENERATE(DType::fp32, DType::bf16);
  const bool masters = weight_dtype == DType::bf16;
  const std::vector<real::BoundTensor> tensors{{3, 700, true}, {703, 37, false}};
  const Numbers g = random_numbers(1, 740, gradient_dtype);
  Numbers w = random_numbers(2, 740, DType::fp32), m = random_numbers(3, 740, DType::fp32), v = m;
  for (double& number : v)
    number = std::abs(number);
  for (std::size_t i = 703; i < 740; ++i)
    w[i] = std::ldexp(1.0, -20);
  const Array weight{weight_dtype, w}, master{DType::fp32, w}, dm{DType::fp32, m};
  const Array dv{DType::fp32, v}, gradient{gradient_dtype, g};
  const Values<float> clip{{0.5F}}, gate{{1.0F}};
  const Values<real::kernels::AdamStep> step{{{0.25, 0.1, 0.05}}};
  const Scratch scratch{real::kernels::lamb_workspace};
  const real::kernels::Adam settings{
      .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-3, .decay = 0.1, .step = 1};
  real::kernels::lamb(settings,
                      {.weight_dtype = weight_dtype,
                       .gradient_dtype = gradient_dtype,
                       .weight = weight.data(),
                       .master = masters ? master.floats() : nullptr,
                       .m = dm.floats(),
                       .v = dv.floats(),
                       .gradient = gradient.data(),
                       .clip_scale = clip.data(),
                       .step = step.data(),
                       .gate = gate.data()},
                      tensors, scratch.workspace(), nullptr);
  for (const real::BoundTensor& tensor : tensors) {
    const auto first = static_cast<std::size_t>(tensor.first);
    const auto end = first + static_cast<std::size_t>(tensor.count);
    Numbers direction(w.size());
    double weights = 0, update = 0;
    for (std::size_t i = first; i < end; ++i) {
      m[i] = 0.9 * m[i] + 0.1 * 0.5 * g[i];
      v[i] = 0.95 * v[i] + 0.05 * 0.25 * g[i] * g[i];
      direction[i] = m[i] / (std::sqrt(v[i]) + 1e-3) + (tensor.decayed ? 0.1 * w[i] : 0);
      weights += w[i] * w[i];
      update += direction[i] * direction[i];
    }
    const double coefficient = std::clamp(std::sqrt(weights / update), 0.01, 10.0);
    for (std::size_t i = first; i < end; ++i)
      w[i] -= 0.25 * std::sqrt(0.05) / 0.1 * coefficient * direction[i];
  }
  CHECK(worst_error(dm.numbers(), m) < 1e-6);
  CHECK(worst_error(dv.numbers(), v) < 1e-6);
  CHECK(worst_error(weight.numbers(), w) < (masters ? 1.0 / 256 : 1e-5));
  if (masters) CHECK(worst_error(master.numbers(), w) < 1e-5);
}
