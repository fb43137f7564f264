#include "real/host/kernels/kernels_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "real/engine/kernels/dropout.hpp"
#include "real/host/eigen_maps.hpp"

namespace real {
namespace {

// Queries and keys of a block: with 64 x 64 scores and heads of 64 to 128 elements, what a block
// works on (about 130 KB) fits a second-level cache.
constexpr std::int64_t query_block = 64;
constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

using ConstPanel = Eigen::Map<const Matrix, 0, Rows>;
using Panel = Eigen::Map<Matrix, 0, Rows>;

// The rows of one head in a matrix of tokens.
struct Head {
  std::int64_t token = 0, tokens = 0, offset = 0, head_dim = 0, width = 0;
  ConstPanel of(std::span<const float> data, std::int64_t first, std::int64_t count) const {
    return {data.data() + (token + first) * width + offset, count, head_dim, Rows{width}};
  }
  Panel of(std::span<float> data, std::int64_t first, std::int64_t count) const {
    return {data.data() + (token + first) * width + offset, count, head_dim, Rows{width}};
  }
  ConstPanel of(std::span<const float> data) const { return of(data, 0, tokens); }
  Panel of(std::span<float> data) const { return of(data, 0, tokens); }
};

struct Heads {
  Head query, key, value, out;
  std::int64_t index = 0;   // of (sequence of the batch, query head)
  std::int64_t global = 0;  // the same in the global batch
  std::int64_t keys = 0;    // that are no padding
};

Heads heads_of(const AttentionSize& size, std::int64_t batch, std::int64_t head) {
  const std::int64_t token = batch * size.sequence;
  const std::int64_t group = head / (size.heads / size.kv_heads);
  const auto at = [&](std::int64_t position, std::int64_t width) {
    return Head{token, size.sequence, position * size.head_dim, size.head_dim, width};
  };
  return {.query = at(head, size.qkv_width()),
          .key = at(size.heads + group, size.qkv_width()),
          .value = at(size.heads + size.kv_heads + group, size.qkv_width()),
          .out = at(head, size.out_width()),
          .index = batch * size.heads + head,
          .global = (size.rules.first_sequence + batch) * size.rules.all_heads +
                    size.rules.first_head + head,
          .keys = size.length(batch)};
}

// In a fixed order: gradients of a key head are summed over the query heads that share it.
template <class Visit>
void for_each_head(const AttentionSize& size, Visit visit) {
  for (std::int64_t batch = 0; batch < size.batch; ++batch) {
    for (std::int64_t head = 0; head < size.heads; ++head)
      visit(heads_of(size, batch, head));
  }
}

float scale_of(const AttentionSize& size) {
  return 1.0F / std::sqrt(static_cast<float>(size.head_dim));
}

void check(const AttentionSize& size, std::span<const float> qkv) {
  SIM_CHECK(size.kv_heads > 0 && size.heads % size.kv_heads == 0, size.heads, size.kv_heads);
  SIM_CHECK(static_cast<std::int64_t>(qkv.size()) == size.tokens() * size.qkv_width(), qkv.size(),
            size.tokens(), size.qkv_width());
}

// Masking is done twice: before the maximum is taken, and after the exponentials, since Eigen's
// vectorised exp() gives a denormal number instead of 0 for -infinity.
//
// Scores of queries first_query.. against keys first_key..: those behind their query are masked.
template <class Scores>
void mask(Scores&& scores, std::int64_t first_query, std::int64_t first_key, float with) {
  for (std::int64_t i = 0; i < scores.rows(); ++i) {
    const std::int64_t seen =
        std::clamp<std::int64_t>(first_query + i + 1 - first_key, 0, scores.cols());
    scores.row(i).tail(scores.cols() - seen).setConstant(with);
  }
}

// Multiplies what the probabilities of queries first_query.. and keys first_key.. weigh, by 0 or by
// 1 / (1 - p); nothing where there is no dropout.
class ScoreDropout {
 public:
  explicit ScoreDropout(const AttentionSize& size) : size_{size} {}

  bool exists() const { return size_.rules.dropout.probability > 0; }

  template <class Scores>
  void apply(const Heads& heads, std::int64_t first_query, std::int64_t first_key,
             Scores&& scores) const {
    DropoutMask mask{size_.rules.dropout};
    for (std::int64_t i = 0; i < scores.rows(); ++i) {
      const std::int64_t row = heads.global * size_.sequence + first_query + i;
      const auto at = static_cast<std::uint64_t>(row * size_.sequence + first_key);
      for (std::int64_t j = 0; j < scores.cols(); ++j)
        scores(i, j) *= mask.factor(at + static_cast<std::uint64_t>(j));
    }
  }

 private:
  const AttentionSize& size_;
};

// One block of queries of one head, over all blocks of keys that it sees.
class FlashForward {
 public:
  explicit FlashForward(const AttentionSize& size) : size_{size} {}

  void run(const Heads& heads, std::span<const float> qkv, std::int64_t first, std::span<float> out,
           std::span<float> log_sums) {
    const std::int64_t count = std::min(query_block, size_.sequence - first);
    query_ = heads.query.of(qkv, first, count) * scale_of(size_);
    sum_.setZero(count);
    maximum_.setConstant(count, minus_infinity);
    result_.setZero(count, size_.head_dim);
    const std::int64_t end = std::min(size_.causal ? first + count : size_.sequence, heads.keys);
    for (std::int64_t key = 0; key < end; key += query_block)
      add_keys(heads, qkv, first, key, std::min(query_block, end - key));
    if (!out.empty()) {
      heads.out.of(out, first, count) = result_.array().colwise() / sum_;
    }
    if (!log_sums.empty()) {
      array(row(log_sums, heads.index, size_.sequence)).segment(first, count) =
          maximum_ + sum_.log();
    }
  }

 private:
  void add_keys(const Heads& heads, std::span<const float> qkv, std::int64_t first,
                std::int64_t key, std::int64_t count) {
    scores_.noalias() = query_ * heads.key.of(qkv, key, count).transpose();
    const bool masked = size_.causal && key + count > first;
    if (masked) mask(scores_, first, key, minus_infinity);
    // The first block of keys holds key 0, which every query sees: the maximum is finite from there
    // on.
    larger_ = maximum_.max(scores_.rowwise().maxCoeff().array());
    scores_ = (scores_.array().colwise() - larger_).exp();
    if (masked) mask(scores_, first, key, 0.0F);
    correction_ = (maximum_ - larger_).exp();
    sum_ = sum_ * correction_ + scores_.rowwise().sum().array();
    result_ = result_.array().colwise() * correction_;
    if (dropout_.exists()) dropout_.apply(heads, first, key, scores_);
    result_.noalias() += scores_ * heads.value.of(qkv, key, count);
    maximum_ = larger_;
  }

  const AttentionSize& size_;
  ScoreDropout dropout_{size_};
  Matrix query_, scores_, result_;
  Eigen::ArrayXf sum_, maximum_, larger_, correction_;
};

// With P = exp(S - log sum) and D = sum of dO O over a row:
//   dV = P^T dO, dS = P (dO V^T - D) / sqrt(d), dQ = dS K, dK = dS^T Q.
// With dropout, M the factors: dV = (M P)^T dO, dS = P (M (dO V^T) - D) / sqrt(d).
class FlashBackward {
 public:
  FlashBackward(const AttentionSize& size, std::span<const float> qkv, std::span<const float> dout,
                std::span<float> dqkv)
      : size_{size}, qkv_{qkv}, dout_{dout}, dqkv_{dqkv} {}

  void run(const Heads& heads, std::span<const float> out, std::span<const float> log_sums) {
    log_sums_ = array(row(log_sums, heads.index, size_.sequence));
    rows_ = (heads.out.of(dout_).array() * heads.out.of(out).array()).rowwise().sum();
    for (std::int64_t key = 0; key < heads.keys; key += query_block) {
      const std::int64_t keys = std::min(query_block, heads.keys - key);
      for (std::int64_t query = size_.causal ? key : 0; query < size_.sequence;
           query += query_block)
        pair(heads, query, std::min(query_block, size_.sequence - query), key, keys);
    }
  }

 private:
  void pair(const Heads& heads, std::int64_t first, std::int64_t queries, std::int64_t key,
            std::int64_t keys) {
    const auto q = heads.query.of(qkv_, first, queries);
    const auto k = heads.key.of(qkv_, key, keys);
    const auto gradient = heads.out.of(dout_, first, queries);
    const float scale = scale_of(size_);
    scores_.noalias() = q * k.transpose();
    scores_ = ((scores_.array() * scale).colwise() - log_sums_.segment(first, queries)).exp();
    if (size_.causal && key + keys > first) mask(scores_, first, key, 0.0F);
    slopes_.noalias() = gradient * heads.value.of(qkv_, key, keys).transpose();
    if (dropout_.exists()) {
      dropped_ = scores_;
      dropout_.apply(heads, first, key, dropped_);
      dropout_.apply(heads, first, key, slopes_);
      heads.value.of(dqkv_, key, keys).noalias() += dropped_.transpose() * gradient;
    } else {
      heads.value.of(dqkv_, key, keys).noalias() += scores_.transpose() * gradient;
    }
    slopes_ = scores_.array() * (slopes_.array().colwise() - rows_.segment(first, queries)) * scale;
    heads.query.of(dqkv_, first, queries).noalias() += slopes_ * k;
    heads.key.of(dqkv_, key, keys).noalias() += slopes_.transpose() * q;
  }

  const AttentionSize& size_;
  std::span<const float> qkv_, dout_;
  std::span<float> dqkv_;
  ScoreDropout dropout_{size_};
  Matrix scores_, slopes_, dropped_;
  Eigen::ArrayXf log_sums_, rows_;
};

// The columns of keys that are padding.
template <class Scores>
auto padding_of(const Heads& heads, Scores& scores) {
  return scores.rightCols(scores.cols() - heads.keys);
}

}  // namespace

std::int64_t AttentionSize::length(std::int64_t of_batch) const {
  std::int64_t end = sequence;
  if (rules.tokens.ids == nullptr) return end;
  while (end > 1 && rules.tokens[of_batch * sequence + end - 1] == rules.padding)
    --end;
  return end;
}

void flash_forward(const AttentionSize& size, std::span<const float> qkv, std::span<float> out,
                   std::span<float> log_sums) {
  check(size, qkv);
  FlashForward forward{size};
  for_each_head(size, [&](const Heads& heads) {
    for (std::int64_t first = 0; first < size.sequence; first += query_block)
      forward.run(heads, qkv, first, out, log_sums);
  });
}

void flash_backward(const AttentionSize& size, std::span<const float> qkv,
                    std::span<const float> out, std::span<const float> log_sums,
                    std::span<const float> dout, std::span<float> dqkv) {
  check(size, qkv);
  SIM_CHECK(dqkv.size() == qkv.size() && out.size() == dout.size(), dqkv.size(), dout.size());
  array(dqkv).setZero();
  FlashBackward backward{size, qkv, dout, dqkv};
  for_each_head(size, [&](const Heads& heads) { backward.run(heads, out, log_sums); });
}

void unfused_forward(const AttentionSize& size, std::span<const float> qkv, std::span<float> out,
                     std::span<float> probabilities) {
  check(size, qkv);
  const ScoreDropout dropout{size};
  Matrix scores;
  Eigen::ArrayXf of_row;
  for_each_head(size, [&](const Heads& heads) {
    scores.noalias() = heads.query.of(qkv) * heads.key.of(qkv).transpose();
    scores *= scale_of(size);
    if (size.causal) mask(scores, 0, 0, minus_infinity);
    padding_of(heads, scores).setConstant(minus_infinity);
    of_row = scores.rowwise().maxCoeff();
    scores = (scores.array().colwise() - of_row).exp();
    if (size.causal) mask(scores, 0, 0, 0.0F);
    padding_of(heads, scores).setZero();
    of_row = scores.rowwise().sum();
    scores = scores.array().colwise() / of_row;
    if (!probabilities.empty()) {
      matrix(row(probabilities, heads.index, size.sequence * size.sequence), size.sequence,
             size.sequence) = scores;
    }
    if (dropout.exists()) dropout.apply(heads, 0, 0, scores);
    if (!out.empty()) heads.out.of(out).noalias() = scores * heads.value.of(qkv);
  });
}

// dP = M (dO V^T), dS = P (dP - sum of dP P over a row) / sqrt(d), the rest as above.
void unfused_backward(const AttentionSize& size, std::span<const float> qkv,
                      std::span<const float> probabilities, std::span<const float> dout,
                      std::span<float> dqkv) {
  check(size, qkv);
  SIM_CHECK(dqkv.size() == qkv.size(), dqkv.size(), qkv.size());
  array(dqkv).setZero();
  const ScoreDropout dropout{size};
  Matrix slopes, dropped;
  for_each_head(size, [&](const Heads& heads) {
    const auto p = matrix(row(probabilities, heads.index, size.sequence * size.sequence),
                          size.sequence, size.sequence);
    const auto gradient = heads.out.of(dout);
    dropped = p;
    slopes.noalias() = gradient * heads.value.of(qkv).transpose();
    if (dropout.exists()) {
      dropout.apply(heads, 0, 0, dropped);
      dropout.apply(heads, 0, 0, slopes);
    }
    heads.value.of(dqkv).noalias() += dropped.transpose() * gradient;
    const Eigen::ArrayXf along = (slopes.array() * p.array()).rowwise().sum();
    slopes = p.array() * (slopes.array().colwise() - along) * scale_of(size);
    heads.query.of(dqkv).noalias() += slopes * heads.key.of(qkv);
    heads.key.of(dqkv).noalias() += slopes.transpose() * heads.query.of(qkv);
  });
}

}  // namespace real
