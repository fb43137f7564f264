#include "sim/uncertainty/mixed_model.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <utility>

#include "sim/base/check.hpp"

namespace sim {
namespace {

constexpr double freedom = 4;
constexpr double first_variance = 0.05 * 0.05;
constexpr double least_variance = 1e-3 * 1e-3;

// Henderson's equations of one block.
struct Block {
  Eigen::MatrixXd precision;
  Eigen::VectorXd right;
  // Solved: of the block's effects, given the rows.
  Eigen::VectorXd mean;
  Eigen::MatrixXd covariance;
};

class Fitting {
 public:
  Fitting(const MixedData& data, const MixedFit* start)
      : data_{data}, weight_(data.rows.size(), 1), place_(data.effects.size()) {
    SIM_CHECK(!data.rows.empty() && data.rows.size() == data.values.size(), data.rows.size());
    variance_ = start ? start->variance : std::vector<double>(data.groups, first_variance);
    residual_ = start ? start->residual : first_variance;
    sizes_.assign(data.blocks, 0);
    for (std::size_t effect = 0; effect < data.effects.size(); ++effect)
      place_[effect] = sizes_[data.effects[effect].block]++;
  }

  void round() {
    find_effects();
    reweigh();
    update_variances();
  }
  MixedFit take() { return {std::move(variance_), residual_}; }

 private:
  void find_effects() {
    blocks_.resize(data_.blocks);
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      blocks_[b].precision = Eigen::MatrixXd::Zero(sizes_[b], sizes_[b]);
      blocks_[b].right = Eigen::VectorXd::Zero(sizes_[b]);
    }
    for (std::size_t row = 0; row < data_.rows.size(); ++row)
      add_row(row);
    for (std::size_t effect = 0; effect < data_.effects.size(); ++effect) {
      const auto [group, block] = data_.effects[effect];
      blocks_[block].precision(place_[effect], place_[effect]) += 1 / variance_[group];
    }
    for (Block& block : blocks_) {
      const Eigen::Index size = block.right.size();
      block.covariance = block.precision.llt().solve(Eigen::MatrixXd::Identity(size, size));
      block.mean = block.covariance * block.right;
    }
  }

  void add_row(std::size_t row) {
    const double scale = weight_[row] / residual_;
    for (const Coefficient& a : data_.rows[row]) {
      Block& block = blocks_[data_.effects[a.effect].block];
      block.right[place_[a.effect]] += scale * a.value * data_.values[row];
      for (const Coefficient& b : data_.rows[row])
        block.precision(place_[a.effect], place_[b.effect]) += scale * a.value * b.value;
    }
  }

  void reweigh() {
    double sum = 0;
    for (std::size_t row = 0; row < data_.rows.size(); ++row) {
      const double off = residual_of(row);
      weight_[row] = (freedom + 1) / (freedom + off * off / residual_);
      sum += weight_[row] * (off * off + spread_of(row));
    }
    residual_ = std::max(least_variance, sum / static_cast<double>(data_.rows.size()));
  }

  void update_variances() {
    std::vector<double> sum(data_.groups, 0), count(data_.groups, 0);
    for (std::size_t effect = 0; effect < data_.effects.size(); ++effect) {
      const double mean = mean_of(effect);
      sum[data_.effects[effect].group] += mean * mean + covariance_of(effect, effect);
      count[data_.effects[effect].group] += 1;
    }
    for (std::size_t group = 0; group < data_.groups; ++group) {
      const VariancePrior prior = prior_of(group);
      if (const double weight = count[group] + prior.effects; weight > 0)
        variance_[group] =
            std::max(least_variance, (sum[group] + prior.effects * prior.variance) / weight);
    }
  }

  VariancePrior prior_of(std::size_t group) const {
    return data_.priors.empty() ? VariancePrior{} : data_.priors[group];
  }
  double mean_of(std::size_t effect) const {
    return blocks_[data_.effects[effect].block].mean[place_[effect]];
  }
  // REQUIRES: of one block.
  double covariance_of(std::size_t a, std::size_t b) const {
    return blocks_[data_.effects[a].block].covariance(place_[a], place_[b]);
  }
  double residual_of(std::size_t row) const {
    double off = data_.values[row];
    for (const Coefficient& one : data_.rows[row])
      off -= one.value * mean_of(one.effect);
    return off;
  }
  double spread_of(std::size_t row) const {
    double sum = 0;
    for (const Coefficient& a : data_.rows[row])
      for (const Coefficient& b : data_.rows[row])
        sum += a.value * b.value * covariance_of(a.effect, b.effect);
    return sum;
  }

  const MixedData& data_;
  std::vector<double> weight_;
  std::vector<Eigen::Index> place_;  // of each effect in its block
  std::vector<Eigen::Index> sizes_;  // of the blocks
  std::vector<double> variance_;
  double residual_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace

MixedFit fit_mixed(const MixedData& data, int rounds, const MixedFit* start) {
  Fitting fitting{data, start};
  for (int i = 0; i < rounds; ++i)
    fitting.round();
  return fitting.take();
}

}  // namespace sim
