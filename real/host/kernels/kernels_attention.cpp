#include "real/host/kernels/kernels_attention.hpp"

#include <algorithm>
#include <cmath>

#include "real/host/kernels/flash_blocks.hpp"

namespace real {
namespace {

using flash::block_size;
using flash::ConstPanel;
using flash::Panel;

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
  const std::int64_t d = size.head_dim, v = size.values();
  const auto at = [&](std::int64_t offset, std::int64_t dim, std::int64_t width) {
    return Head{token, size.sequence, offset, dim, width};
  };
  return {.query = at(head * d, d, size.qkv_width()),
          .key = at((size.heads + group) * d, d, size.qkv_width()),
          .value = at((size.heads + size.kv_heads) * d + group * v, v, size.qkv_width()),
          .out = at(head * v, v, size.out_width()),
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
  SIM_CHECK(size.window == 0 || (size.causal && size.rules.tokens.ids == nullptr), size.window);
}

flash::Scores scores_of(const AttentionSize& size) {
  return {.scale = scale_of(size),
          .causal = size.causal,
          .window = size.window,
          .sequence = size.sequence,
          .dropout = size.rules.dropout};
}

// Blocks of keys before `end` that some query from `first` on sees. With a window from the last to
// the first: in the last one every query sees its own key. visit(key, keys)
template <class Visit>
void for_each_key_block(const AttentionSize& size, std::int64_t first, std::int64_t end,
                        Visit visit) {
  if (size.window == 0) {
    for (std::int64_t key = 0; key < end; key += block_size)
      visit(key, std::min(block_size, end - key));
    return;
  }
  for (std::int64_t key = first; key >= 0 && key + block_size > first + 1 - size.window;
       key -= block_size)
    visit(key, std::min(block_size, end - key));
}

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
  const flash::Scores how = scores_of(size);
  flash::Forward forward{how};
  for_each_head(size, [&](const Heads& heads) {
    for (std::int64_t first = 0; first < size.sequence; first += block_size) {
      const std::int64_t count = std::min(block_size, size.sequence - first);
      const std::int64_t end = std::min(size.causal ? first + count : size.sequence, heads.keys);
      forward.begin(heads.query.of(qkv, first, count), first, heads.global, size.values());
      for_each_key_block(size, first, end, [&](std::int64_t key, std::int64_t keys) {
        forward.add(heads.key.of(qkv, key, keys), heads.value.of(qkv, key, keys), key);
      });
      if (!out.empty()) forward.output_to(heads.out.of(out, first, count));
      if (!log_sums.empty())
        array(row(log_sums, heads.index, size.sequence)).segment(first, count) = forward.log_sums();
    }
  });
}

void flash_backward(const AttentionSize& size, std::span<const float> qkv,
                    std::span<const float> out, std::span<const float> log_sums,
                    std::span<const float> dout, std::span<float> dqkv) {
  check(size, qkv);
  SIM_CHECK(dqkv.size() == qkv.size() && out.size() == dout.size(), dqkv.size(), dout.size());
  array(dqkv).setZero();
  const flash::Scores how = scores_of(size);
  flash::Backward backward{how};
  for_each_head(size, [&](const Heads& heads) {
    const std::span<const float> sums = row(log_sums, heads.index, size.sequence);
    for (std::int64_t key = 0; key < heads.keys; key += block_size) {
      const std::int64_t keys = std::min(block_size, heads.keys - key);
      const std::int64_t end =
          size.window > 0 ? std::min(size.sequence, key + keys - 1 + size.window) : size.sequence;
      for (std::int64_t first = size.causal ? key : 0; first < end; first += block_size) {
        const std::int64_t count = std::min(block_size, size.sequence - first);
        const flash::Backward::Queries queries{
            .query = heads.query.of(qkv, first, count),
            .output = heads.out.of(out, first, count),
            .gradient = heads.out.of(dout, first, count),
            .log_sums = array(
                sums.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count))),
            .first = first,
            .head = heads.global};
        backward.pair(queries, heads.key.of(qkv, key, keys), heads.value.of(qkv, key, keys), key,
                      {.query = heads.query.of(dqkv, first, count),
                       .key = heads.key.of(dqkv, key, keys),
                       .value = heads.value.of(dqkv, key, keys)});
      }
    }
  });
}

void unfused_forward(const AttentionSize& size, std::span<const float> qkv, std::span<float> out,
                     std::span<float> probabilities) {
  check(size, qkv);
  const flash::Scores how = scores_of(size);
  Matrix scores;
  Eigen::ArrayXf of_row;
  for_each_head(size, [&](const Heads& heads) {
    scores.noalias() = heads.query.of(qkv) * heads.key.of(qkv).transpose();
    scores *= how.scale;
    if (size.causal) flash::mask(scores, how, 0, 0, flash::minus_infinity);
    padding_of(heads, scores).setConstant(flash::minus_infinity);
    of_row = scores.rowwise().maxCoeff();
    scores = (scores.array().colwise() - of_row).exp();
    if (size.causal) flash::mask(scores, how, 0, 0, 0.0F);
    padding_of(heads, scores).setZero();
    of_row = scores.rowwise().sum();
    scores = scores.array().colwise() / of_row;
    if (!probabilities.empty()) {
      matrix(row(probabilities, heads.index, size.sequence * size.sequence), size.sequence,
             size.sequence) = scores;
    }
    if (how.dropout.probability > 0) flash::drop(how, heads.global, 0, 0, scores);
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
  const flash::Scores how = scores_of(size);
  Matrix slopes, dropped;
  for_each_head(size, [&](const Heads& heads) {
    const auto p = matrix(row(probabilities, heads.index, size.sequence * size.sequence),
                          size.sequence, size.sequence);
    const auto gradient = heads.out.of(dout);
    dropped = p;
    slopes.noalias() = gradient * heads.value.of(qkv).transpose();
    if (how.dropout.probability > 0) {
      flash::drop(how, heads.global, 0, 0, dropped);
      flash::drop(how, heads.global, 0, 0, slopes);
    }
    heads.value.of(dqkv).noalias() += dropped.transpose() * gradient;
    const Eigen::ArrayXf along = (slopes.array() * p.array()).rowwise().sum();
    slopes = p.array() * (slopes.array().colwise() - along) * how.scale;
    heads.query.of(dqkv).noalias() += slopes * heads.key.of(qkv);
    heads.key.of(dqkv).noalias() += slopes.transpose() * heads.query.of(qkv);
  });
}

}  // namespace real
