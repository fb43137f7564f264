// A block of queries against blocks of keys: the pieces of which attention in one rank, and over
// context ranks, is made (Dao et al. 2022, algorithms 1 and 4, in the order of Dao 2023).
//
// Positions count in the sequence: a query sees no key behind its own. Queries and keys may lie
// anywhere.
#pragma once

#include <algorithm>
#include <limits>

#include "real/engine/kernels/dropout.hpp"
#include "real/host/eigen_maps.hpp"

namespace real::flash {

// Queries and keys of a block: with 64 x 64 scores and heads of 64 to 128 elements, what a block
// works on (about 130 KB) fits a second-level cache.
inline constexpr std::int64_t block_size = 64;
inline constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

using ConstPanel = Eigen::Map<const Matrix, 0, Rows>;
using Panel = Eigen::Map<Matrix, 0, Rows>;

// Scores are how the scores of a head are made.
struct Scores {
  float scale = 1;
  bool causal = true;
  std::int64_t window = 0;  // keys that a query sees, its own included; 0: all before it
  std::int64_t sequence = 0;
  kernels::Dropout dropout{};
};

// Masking is done twice: before the maximum is taken, and after the exponentials, since Eigen's
// vectorised exp() gives a denormal number instead of 0 for -infinity.
//
// Scores of queries first_query.. against keys first_key..: those behind their query are masked,
// and those before its window.
template <class Block>
void mask(Block&& scores, const Scores& how, std::int64_t first_query, std::int64_t first_key,
          float with) {
  for (std::int64_t i = 0; i < scores.rows(); ++i) {
    const std::int64_t end = first_query + i + 1 - first_key;
    const std::int64_t seen = std::clamp<std::int64_t>(end, 0, scores.cols());
    scores.row(i).tail(scores.cols() - seen).setConstant(with);
    if (how.window == 0) continue;
    const std::int64_t before = std::clamp<std::int64_t>(end - how.window, 0, scores.cols());
    scores.row(i).head(before).setConstant(with);
  }
}

// Whether the mask hides any score of so many queries and keys.
inline bool is_masked(const Scores& how, std::int64_t first_query, std::int64_t queries,
                      std::int64_t first_key, std::int64_t keys) {
  if (!how.causal) return false;
  const bool before = how.window > 0 && first_query + queries - first_key > how.window;
  return before || first_key + keys > first_query;
}

// Multiplies what the probabilities of queries first_query.. and keys first_key.. weigh, by 0 or by
// 1 / (1 - p). `head`: of the sequence and query head, in the global batch.
template <class Block>
void drop(const Scores& how, std::int64_t head, std::int64_t first_query, std::int64_t first_key,
          Block&& scores) {
  DropoutMask dropped{how.dropout};
  for (std::int64_t i = 0; i < scores.rows(); ++i) {
    const std::int64_t row = head * how.sequence + first_query + i;
    const auto at = static_cast<std::uint64_t>(row * how.sequence + first_key);
    for (std::int64_t j = 0; j < scores.cols(); ++j)
      scores(i, j) *= dropped.factor(at + static_cast<std::uint64_t>(j));
  }
}

// One block of queries of one head, over all blocks of keys that it sees.
// REQUIRES: every query sees a key of the first block that is added.
class Forward {
 public:
  explicit Forward(const Scores& how) : how_{how} {}

  void begin(const ConstPanel& queries, std::int64_t first, std::int64_t head,
             std::int64_t value_dim) {
    query_ = queries * how_.scale;
    first_ = first;
    head_ = head;
    sum_.setZero(queries.rows());
    maximum_.setConstant(queries.rows(), minus_infinity);
    result_.setZero(queries.rows(), value_dim);
  }

  void add(const ConstPanel& keys, const ConstPanel& values, std::int64_t key) {
    scores_.noalias() = query_ * keys.transpose();
    const bool masked = is_masked(how_, first_, query_.rows(), key, keys.rows());
    if (masked) mask(scores_, how_, first_, key, minus_infinity);
    larger_ = maximum_.max(scores_.rowwise().maxCoeff().array());
    scores_ = (scores_.array().colwise() - larger_).exp();
    if (masked) mask(scores_, how_, first_, key, 0.0F);
    correction_ = (maximum_ - larger_).exp();
    sum_ = sum_ * correction_ + scores_.rowwise().sum().array();
    result_ = result_.array().colwise() * correction_;
    if (how_.dropout.probability > 0) drop(how_, head_, first_, key, scores_);
    result_.noalias() += scores_ * values;
    maximum_ = larger_;
  }

  void output_to(Panel output) const { output = result_.array().colwise() / sum_; }
  Eigen::ArrayXf log_sums() const { return maximum_ + sum_.log(); }

 private:
  const Scores& how_;
  std::int64_t first_ = 0, head_ = 0;
  Matrix query_, scores_, result_;
  Eigen::ArrayXf sum_, maximum_, larger_, correction_;
};

// Gradients that a pair of blocks adds to.
struct Gradients {
  Panel query, key, value;
};

// With P = exp(S - log sum) and D = sum of dO O over a row:
//   dV = P^T dO, dS = P (dO V^T - D) / sqrt(d), dQ = dS K, dK = dS^T Q.
// With dropout, M the factors: dV = (M P)^T dO, dS = P (M (dO V^T) - D) / sqrt(d).
class Backward {
 public:
  explicit Backward(const Scores& how) : how_{how} {}

  // A block of queries: what its forward pass gave, and the gradient of that.
  struct Queries {
    ConstPanel query, output, gradient;
    Eigen::Map<const Eigen::ArrayXf> log_sums;
    std::int64_t first = 0, head = 0;
  };

  void pair(const Queries& of, const ConstPanel& keys, const ConstPanel& values, std::int64_t key,
            Gradients to) {
    scores_.noalias() = of.query * keys.transpose();
    scores_ = ((scores_.array() * how_.scale).colwise() - of.log_sums).exp();
    if (is_masked(how_, of.first, of.query.rows(), key, keys.rows()))
      mask(scores_, how_, of.first, key, 0.0F);
    slopes_.noalias() = of.gradient * values.transpose();
    rows_ = (of.gradient.array() * of.output.array()).rowwise().sum();
    if (how_.dropout.probability > 0) {
      dropped_ = scores_;
      drop(how_, of.head, of.first, key, dropped_);
      drop(how_, of.head, of.first, key, slopes_);
      to.value.noalias() += dropped_.transpose() * of.gradient;
    } else {
      to.value.noalias() += scores_.transpose() * of.gradient;
    }
    slopes_ = scores_.array() * (slopes_.array().colwise() - rows_) * how_.scale;
    to.query.noalias() += slopes_ * keys;
    to.key.noalias() += slopes_.transpose() * of.query;
  }

 private:
  const Scores& how_;
  Matrix scores_, slopes_, dropped_;
  Eigen::ArrayXf rows_;
};

}  // namespace real::flash
