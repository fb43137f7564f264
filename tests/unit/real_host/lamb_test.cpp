// The host's kernels of LAMB against the formulas of DeepSpeed's.
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "real/host/kernels/kernels_lamb.hpp"
#include "tests/catch.hpp"

using namespace real;

namespace {

double norm(const std::vector<double>& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

struct Tensors {
  std::vector<float> weight{3, -4, 0.5F, 0.5F}, m{0.1F, 0.2F, -0.1F, 0.3F},
      v{0.04F, 0.01F, 0.09F, 0.16F}, gradient{1, -2, 0.5F, 4};
  kernels::AdamStep step{.rate = 0.1, .correction1 = 0.5, .correction2 = 0.25, .number = 3};
  float clip = 0.5F, gate = 1;
  std::array<BoundTensor, 2> tensors{{{0, 2, true}, {2, 2, false}}};

  kernels::AdamState state() {
    return {.weight_dtype = sim::DType::fp32,
            .weight = weight.data(),
            .m = m.data(),
            .v = v.data(),
            .gradient = gradient.data(),
            .clip_scale = &clip,
            .step = &step,
            .gate = &gate};
  }
};

constexpr kernels::Adam settings{.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-3, .decay = 0.1};

}  // namespace

TEST_CASE("LAMB scales Adam's direction by the norms of each tensor", "[real_host]") {
  Tensors now;
  const Tensors before = now;
  host::host_lamb().lamb(settings, now.state(), now.tensors, {}, nullptr);
  for (const BoundTensor& tensor : now.tensors) {
    std::vector<double> weights, direction;
    for (auto i = static_cast<std::size_t>(tensor.first);
         i < static_cast<std::size_t>(tensor.first + tensor.count); ++i) {
      const double gradient = 0.5 * before.gradient[i];
      const double m = 0.9 * before.m[i] + 0.1 * gradient;
      const double v = 0.99 * before.v[i] + 0.01 * gradient * gradient;
      CHECK(now.m[i] == Approx(m));
      CHECK(now.v[i] == Approx(v));
      weights.push_back(before.weight[i]);
      direction.push_back(m / (std::sqrt(v) + 1e-3) +
                          (tensor.decayed ? 0.1 * before.weight[i] : 0));
    }
    const double coefficient = norm(weights) / norm(direction);
    const double rate = 0.1 * std::sqrt(0.25) / 0.5;
    for (std::size_t i = 0; i < weights.size(); ++i)
      CHECK(now.weight[static_cast<std::size_t>(tensor.first) + i] ==
            Approx(weights[i] - rate * coefficient * direction[i]));
  }
}

TEST_CASE("the coefficient of LAMB has bounds, and is 1 of weights that are zero", "[real_host]") {
  const auto moved = [](float weight) {
    Tensors one;
    one.weight.assign(4, weight);
    one.tensors[0].decayed = false;
    host::host_lamb().lamb(settings, one.state(), one.tensors, {}, nullptr);
    double off = 0;
    for (const float value : one.weight)
      off = std::max(off, std::fabs(double{value} - weight));
    return off;
  };
  const double usual = moved(0);
  CHECK(moved(1e5F) == Approx(10 * usual).epsilon(1e-2));
  CHECK(moved(1e-6F) == Approx(0.01 * usual).epsilon(1e-2));
}

TEST_CASE("1-bit LAMB changes its coefficient by a tenth at most, and no variance", "[real_host]") {
  Tensors now;
  std::vector<float> fresh(4), numbers(6);
  numbers[0] = numbers[3] = 2;  // scales of the momenta
  const Tensors before = now;
  float last = 1;
  for (int turn = 0; turn < 5; ++turn) {
    // A momentum that vanishes: the fresh variance falls, and with it the factor rises.
    now.gradient.assign(4, turn == 0 ? 0.4F : 0.0F);
    host::host_lamb().one_bit_lamb(settings, now.state(), {fresh.data(), numbers.data()},
                                   now.tensors, nullptr);
    CHECK(now.v == before.v);
    CHECK(now.m[0] == now.gradient[0] / 2);
    CHECK(numbers[2] <= 1.1F * last * 1.0001F);
    CHECK(numbers[2] >= 0.9F * last * 0.9999F);
    CHECK(numbers[2] >= 0.5F);
    CHECK(numbers[2] <= 4);
    last = numbers[2];
  }
  CHECK(numbers[1] > 0);
  // A norm that is not finite: nothing is written.
  now.gate = INFINITY;
  const std::vector<float> weights = now.weight;
  host::host_lamb().one_bit_lamb(settings, now.state(), {fresh.data(), numbers.data()}, now.tensors,
                                 nullptr);
  CHECK(now.weight == weights);
}
