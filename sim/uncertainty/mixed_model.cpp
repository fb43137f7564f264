#include "sim/uncertainty/mixed_model.hpp"

#include <Eigen/Cholesky>
#include <algorithm>
#include <limits>
#include <utility>

#include "sim/base/check.hpp"

namespace sim {
namespace {

constexpr double freedom = 4;
constexpr double first_variance = 0.05 * 0.05;
constexpr double least_variance = 1e-3 * 1e-3;

// Henderson's equations of one block, beside the shared effects.
struct Block {
  Eigen::MatrixXd own;      // precision of the block's effects
  Eigen::MatrixXd coupled;  // with the shared ones
  Eigen::VectorXd right;
  // Solved:
  Eigen::MatrixXd inverse;    // of `own`
  Eigen::MatrixXd influence;  // inverse * coupled
  Eigen::VectorXd mean;
  Eigen::MatrixXd covariance;  // of the block's effects, given the rows
  Eigen::MatrixXd cross;       // with the shared ones
};

Eigen::MatrixXd inverse_of(const Eigen::MatrixXd& symmetric) {
  return symmetric.llt().solve(Eigen::MatrixXd::Identity(symmetric.rows(), symmetric.cols()));
}

class Fitting {
 public:
  Fitting(const MixedData& data, const MixedFit* start)
      : data_{data}, weight_(data.rows.size(), 1), place_(data.effects.size()) {
    SIM_CHECK(!data.rows.empty() && data.rows.size() == data.values.size(), data.rows.size());
    variance_ = start ? start->variance : std::vector<double>(data.groups, first_variance);
    residual_ = start ? start->residual : first_variance;
    sizes_.assign(data.blocks, 0);
    for (std::size_t effect = 0; effect < data.effects.size(); ++effect) {
      const std::size_t block = data.effects[effect].block;
      place_[effect] = block == shared_block ? shared_size_++ : sizes_[block]++;
    }
  }

  void round() {
    find_effects();
    reweigh();
    update_variances();
  }
  MixedFit take() {
    find_effects();
    return {std::move(variance_), residual_, std::move(shared_mean_),
            std::move(shared_covariance_)};
  }

 private:
  void find_effects() {
    begin_equations();
    for (std::size_t row = 0; row < data_.rows.size(); ++row)
      add_row(row);
    for (std::size_t effect = 0; effect < data_.effects.size(); ++effect) {
      const auto [group, block] = data_.effects[effect];
      Eigen::MatrixXd& own = block == shared_block ? shared_ : blocks_[block].own;
      own(place_[effect], place_[effect]) += 1 / variance_[group];
    }
    solve();
  }

  void begin_equations() {
    shared_ = Eigen::MatrixXd::Zero(shared_size_, shared_size_);
    shared_right_ = Eigen::VectorXd::Zero(shared_size_);
    blocks_.resize(data_.blocks);
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      blocks_[b].own = Eigen::MatrixXd::Zero(sizes_[b], sizes_[b]);
      blocks_[b].coupled = Eigen::MatrixXd::Zero(sizes_[b], shared_size_);
      blocks_[b].right = Eigen::VectorXd::Zero(sizes_[b]);
    }
  }

  void add_row(std::size_t row) {
    const double scale = weight_[row] / residual_;
    for (const Coefficient& a : data_.rows[row]) {
      const std::size_t block = data_.effects[a.effect].block;
      const bool a_shared = block == shared_block;
      (a_shared ? shared_right_ : blocks_[block].right)[place_[a.effect]] +=
          scale * a.value * data_.values[row];
      for (const Coefficient& b : data_.rows[row]) {
        const bool b_shared = data_.effects[b.effect].block == shared_block;
        if (a_shared && !b_shared) continue;  // the mirror image of `coupled`
        Eigen::MatrixXd& into = a_shared   ? shared_
                                : b_shared ? blocks_[block].coupled
                                           : blocks_[block].own;
        into(place_[a.effect], place_[b.effect]) += scale * a.value * b.value;
      }
    }
  }

  void solve() {
    for (Block& block : blocks_) {
      block.inverse = inverse_of(block.own);
      block.influence = block.inverse * block.coupled;
      shared_ -= block.coupled.transpose() * block.influence;
      shared_right_ -= block.influence.transpose() * block.right;
    }
    shared_covariance_ = inverse_of(shared_);
    shared_mean_ = shared_covariance_ * shared_right_;
    for (Block& block : blocks_) {
      block.mean = block.inverse * block.right - block.influence * shared_mean_;
      block.cross = -block.influence * shared_covariance_;
      block.covariance = block.inverse - block.cross * block.influence.transpose();
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
    for (std::size_t group = 0; group < data_.groups; ++group)
      if (count[group] > 0)
        variance_[group] = std::clamp(sum[group] / count[group], least_variance, most(group));
  }

  double most(std::size_t group) const {
    return data_.most_variance.empty() ? std::numeric_limits<double>::infinity()
                                       : data_.most_variance[group];
  }
  double mean_of(std::size_t effect) const {
    const std::size_t block = data_.effects[effect].block;
    return (block == shared_block ? shared_mean_ : blocks_[block].mean)[place_[effect]];
  }
  // REQUIRES: not of two blocks.
  double covariance_of(std::size_t a, std::size_t b) const {
    const std::size_t of_a = data_.effects[a].block, of_b = data_.effects[b].block;
    if (of_a == shared_block && of_b == shared_block)
      return shared_covariance_(place_[a], place_[b]);
    if (of_a == shared_block) return blocks_[of_b].cross(place_[b], place_[a]);
    if (of_b == shared_block) return blocks_[of_a].cross(place_[a], place_[b]);
    return blocks_[of_a].covariance(place_[a], place_[b]);
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
  std::vector<Eigen::Index> place_;  // of each effect in its block, or among the shared ones
  std::vector<Eigen::Index> sizes_;  // of the blocks
  Eigen::Index shared_size_ = 0;
  std::vector<double> variance_;
  double residual_ = 0;
  std::vector<Block> blocks_;
  Eigen::MatrixXd shared_, shared_covariance_;
  Eigen::VectorXd shared_right_, shared_mean_;
};

}  // namespace

MixedFit fit_mixed(const MixedData& data, int rounds, const MixedFit* start) {
  Fitting fitting{data, start};
  for (int i = 0; i < rounds; ++i)
    fitting.round();
  return fitting.take();
}

}  // namespace sim
