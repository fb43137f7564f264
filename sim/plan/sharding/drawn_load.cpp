#include "sim/plan/sharding/drawn_load.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"
#include "sim/base/random.hpp"

namespace sim {
namespace {

// Gamma numbers, one after another (Marsaglia & Tsang 2000, "A simple method for generating gamma
// variables"; below 1 as in its section 6).
class GammaNumbers {
 public:
  GammaNumbers(double shape, std::uint64_t seed, std::uint64_t stream)
      : shape_{shape}, seed_{seed}, stream_{stream} {}

  // The logarithm: small shapes give numbers below what a double holds.
  double next_log() {
    const double d = std::max(shape_, shape_ < 1 ? shape_ + 1 : shape_) - 1.0 / 3;
    const double c = 1 / std::sqrt(9 * d);
    for (;;) {
      const double x = standard_normal(seed_, stream_, 2 * drawn_);
      const double u = uniform(seed_, stream_ + 1, drawn_);
      const double extra = uniform(seed_, stream_ + 2, drawn_);
      ++drawn_;
      const double v = std::pow(1 + c * x, 3);
      if (v <= 0 || std::log(u) >= 0.5 * x * x + d - d * v + d * std::log(v)) continue;
      return std::log(d * v) + (shape_ < 1 ? std::log(extra) / shape_ : 0.0);
    }
  }

 private:
  double shape_;
  std::uint64_t seed_, stream_, drawn_ = 0;
};

// To mean 1, none above `most`: what they lose the others gain, in proportion.
void level(std::vector<double>& row, double most) {
  const auto count = static_cast<double>(row.size());
  for (std::size_t round = 0; round < row.size(); ++round) {
    double full = 0, rest = 0;
    for (const double value : row)
      (value >= most ? full : rest) += value >= most ? most : value;
    const double factor = rest > 0 ? (count - full) / rest : 0;
    bool above = false;
    for (double& value : row) {
      value = value >= most ? most : value * factor;
      above = above || value > most * (1 + 1e-12);
    }
    if (!above) return;
  }
}

}  // namespace

double most_load_cv(std::int64_t experts, std::int64_t per_token) {
  return std::sqrt(static_cast<double>(experts) / static_cast<double>(per_token) - 1);
}

std::vector<std::vector<double>> drawn_load(const LoadDraw& draw) {
  const auto experts = static_cast<double>(draw.experts);
  SIM_CHECK(draw.cv > 0 && draw.experts > 1, draw.cv, draw.experts);
  const double shape = ((experts - 1) / (draw.cv * draw.cv) - 1) / experts;
  SIM_CHECK(shape > 0, draw.cv);
  std::vector<std::vector<double>> rows;
  for (std::int64_t i = 0; i < draw.rows; ++i) {
    GammaNumbers numbers{shape, draw.seed, static_cast<std::uint64_t>(3 * i)};
    std::vector<double> row;
    for (std::int64_t expert = 0; expert < draw.experts; ++expert)
      row.push_back(numbers.next_log());
    const double most = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (double& value : row)
      sum += value = std::exp(value - most);
    for (double& value : row)
      value *= experts / sum;
    level(row, experts / static_cast<double>(draw.per_token));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace sim
