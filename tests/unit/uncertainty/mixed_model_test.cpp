// Variances that are known, found again; block by block the same as all at once.
#include "sim/uncertainty/mixed_model.hpp"

#include <cmath>
#include <random>

#include "tests/catch.hpp"

using namespace sim;

namespace {

// `blocks` machines with `rows` runs each: y = machine's effect + rest.
MixedData made(std::size_t blocks, std::size_t rows, double machine, double rest,
               std::size_t block_of(std::size_t)) {
  std::mt19937_64 random{7};
  std::normal_distribution<double> normal;
  MixedData data;
  data.groups = 1;
  data.blocks = blocks;
  for (std::size_t b = 0; b < blocks; ++b) {
    data.effects.push_back({0, block_of(b)});
    const double off = machine * normal(random);
    for (std::size_t i = 0; i < rows; ++i) {
      data.rows.push_back({{b, 1}});
      data.values.push_back(off + rest * normal(random));
    }
  }
  return data;
}

std::size_t own(std::size_t block) {
  return block;
}
std::size_t first(std::size_t /*block*/) {
  return 0;
}

}  // namespace

TEST_CASE("The variance between machines and within them is found", "[uncertainty]") {
  const MixedFit fit = fit_mixed(made(200, 20, 0.08, 0.03, own), 200);
  CHECK(std::sqrt(fit.variance[0]) == Approx(0.08).epsilon(0.1));
  // Normal rests through t weights: the scale of t with 4 degrees is smaller than the deviation.
  CHECK(std::sqrt(fit.residual) > 0.02);
  CHECK(std::sqrt(fit.residual) < 0.031);
}

TEST_CASE("Effects in blocks of their own are those of one large block", "[uncertainty]") {
  const MixedFit apart = fit_mixed(made(12, 5, 0.05, 0.02, own), 50);
  const MixedFit together = fit_mixed(made(12, 5, 0.05, 0.02, first), 50);
  CHECK(apart.variance[0] == Approx(together.variance[0]).epsilon(1e-9));
  CHECK(apart.residual == Approx(together.residual).epsilon(1e-9));
}

TEST_CASE("A few rows that are far off do not widen everything", "[uncertainty]") {
  MixedData data = made(40, 10, 0.05, 0.02, own);
  const double before = std::sqrt(fit_mixed(data, 100).residual);
  for (std::size_t i = 0; i < data.values.size(); i += 40)
    data.values[i] += 0.5;
  CHECK(std::sqrt(fit_mixed(data, 100).residual) < 1.5 * before);
}
