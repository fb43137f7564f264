#include "real/host/kernels/kernels_routed.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "real/host/eigen_maps.hpp"
#include "real/host/kernels/kernels_elementwise.hpp"

namespace real::host {
namespace {

using kernels::RoutedActivation;
using kernels::RoutedRows;
using kernels::RoutedScores;
using kernels::RoutedTokens;

std::span<const float> floats(const void* data, std::int64_t count) {
  return {static_cast<const float*>(data), static_cast<std::size_t>(count)};
}
std::span<float> floats(void* data, std::int64_t count) {
  return {static_cast<float*>(data), static_cast<std::size_t>(count)};
}
std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// The `count` largest of `values` in descending order; of equals the first.
void largest(std::span<const float> values, std::vector<std::int32_t>& order, std::int64_t count) {
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      const float x = values[index(a)], y = values[index(b)];
                      return x > y || (x == y && a < b);
                    });
}

// Experts among which a token chooses: all, or those of the groups with the largest sums of their
// best scores (Megatron-LM, core/transformer/moe/moe_utils.py, group_limited_topk).
class Candidates {
 public:
  explicit Candidates(const RoutingShape& shape) : shape_{shape} {}

  std::vector<std::int32_t>& of(std::span<const float> scores) {
    experts_.clear();
    if (shape_.groups == 0) {
      experts_.resize(index(shape_.experts));
      std::iota(experts_.begin(), experts_.end(), 0);
      return experts_;
    }
    const std::int64_t each = shape_.experts / shape_.groups;
    const std::int64_t best = std::max<std::int64_t>(1, shape_.per_token / shape_.groups_per_token);
    std::vector<float> sums;
    for (std::int64_t group = 0; group < shape_.groups; ++group) {
      const std::span<const float> own = row(scores, group, each);
      std::vector<std::int32_t> order(own.size());
      std::iota(order.begin(), order.end(), 0);
      largest(own, order, std::min(best, each));
      float sum = 0;
      for (std::int64_t i = 0; i < std::min(best, each); ++i)
        sum += own[index(order[index(i)])];
      sums.push_back(sum);
    }
    std::vector<std::int32_t> groups(sums.size());
    std::iota(groups.begin(), groups.end(), 0);
    largest(sums, groups, shape_.groups_per_token);
    for (std::int64_t i = 0; i < shape_.groups_per_token; ++i)
      for (std::int64_t e = 0; e < each; ++e)
        experts_.push_back(static_cast<std::int32_t>(groups[index(i)] * each + e));
    return experts_;
  }

 private:
  const RoutingShape& shape_;
  std::vector<std::int32_t> experts_;
};

float sigmoid(float x) {
  return 1 / (1 + std::exp(-x));
}

std::span<std::int32_t> list(std::int32_t* data, std::int64_t count) {
  return {data, index(count)};
}
std::span<std::int32_t> experts_of(const RoutedTokens& tokens, std::int64_t token) {
  const std::int64_t each = tokens.shape.per_token;
  return list(tokens.experts + token * each, each);
}
std::int32_t row_of(const RoutedTokens& tokens, std::int64_t token, std::int64_t choice) {
  return tokens.rows[token * tokens.shape.per_token + choice];
}

// Softmaxes over all experts, or sigmoids.
void score_token(RouterScore score, std::span<const float> scores, std::span<float> kept) {
  if (score == RouterScore::sigmoid) {
    std::transform(scores.begin(), scores.end(), kept.begin(), sigmoid);
    return;
  }
  const float most = *std::max_element(scores.begin(), scores.end());
  array(kept) = (array(scores) - most).exp();
  array(kept) /= array(kept).sum();
}

// divisor_of() is what the weights of a token's choices are divided by: the sum of those chosen.
float divisor_of(const RoutedTokens& tokens, std::int64_t token, std::span<const float> kept) {
  if (tokens.shape.per_token == 1) return 1;
  float sum = 0;
  for (const std::int32_t expert : experts_of(tokens, token))
    sum += kept[index(expert)];
  return sum;
}

// drop() takes their rows from the copies that an expert has beyond its capacity.
void drop(const RoutedTokens& tokens, std::int64_t expert) {
  const RoutingShape& shape = tokens.shape;
  if (tokens.chosen[expert] > shape.capacity) {
    std::vector<std::int64_t> copies;
    for (std::int64_t copy = 0; copy < shape.copies(); ++copy)
      if (tokens.experts[copy] == expert) copies.push_back(copy);
    std::stable_sort(copies.begin(), copies.end(), [&](std::int64_t a, std::int64_t b) {
      return tokens.weights[a] > tokens.weights[b];
    });
    for (std::size_t i = index(shape.capacity); i < copies.size(); ++i)
      tokens.rows[copies[i]] = RoutedTokens::dropped;
  }
  const auto capacity = static_cast<std::int32_t>(shape.capacity);
  tokens.sent[expert] = shape.padded ? capacity : std::min(tokens.chosen[expert], capacity);
}

std::int64_t rows_sent(const RoutedTokens& tokens) {
  const auto sent = list(tokens.sent, tokens.shape.experts);
  return std::accumulate(sent.begin(), sent.end(), std::int64_t{0});
}

// Gives each copy its row.
void place(const RoutedTokens& tokens) {
  const RoutingShape& shape = tokens.shape;
  const auto chosen = list(tokens.chosen, shape.experts), sent = list(tokens.sent, shape.experts);
  std::fill(chosen.begin(), chosen.end(), 0);
  std::fill_n(tokens.rows, shape.copies(), 0);
  for (const std::int32_t expert : list(tokens.experts, shape.copies()))
    ++chosen[index(expert)];
  std::copy(chosen.begin(), chosen.end(), sent.begin());
  if (shape.capacity > 0)
    for (std::int64_t expert = 0; expert < shape.experts; ++expert)
      drop(tokens, expert);
  std::vector<std::int32_t> next(sent.size(), 0);
  std::exclusive_scan(sent.begin(), sent.end(), next.begin(), 0);
  std::fill_n(tokens.copies, rows_sent(tokens), RoutedTokens::dropped);
  for (std::int64_t copy = 0; copy < shape.copies(); ++copy) {
    if (tokens.rows[copy] == RoutedTokens::dropped) continue;
    tokens.rows[copy] = next[index(tokens.experts[copy])]++;
    tokens.copies[tokens.rows[copy]] = static_cast<std::int32_t>(copy);
  }
  if (shape.padded)
    std::fill_n(tokens.came, shape.sources() * shape.held(), sent[0]);
  else if (shape.parts == 1)
    std::copy(sent.begin(), sent.end(), tokens.came + shape.share * shape.held());
}

}  // namespace

void choose_by_scores(const RoutedTokens& tokens, const RoutedScores& how, const void* scores,
                      float* kept, float* weights, kernels::StreamHandle /*stream*/) {
  const RoutingShape& shape = tokens.shape;
  const std::int64_t all = shape.tokens * shape.experts;
  const std::span<const float> from = floats(scores, all);
  const std::span<float> to = floats(kept, all);
  Candidates candidates{shape};
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    const std::span<const float> own = row(from, token, shape.experts);
    const std::span<float> made = row(to, token, shape.experts);
    score_token(how.score, own, made);
    const std::span<const float> compared = how.score == RouterScore::sigmoid ? made : own;
    std::vector<std::int32_t>& order = candidates.of(compared);
    largest(compared, order, shape.per_token);
    std::copy_n(order.begin(), shape.per_token, experts_of(tokens, token).begin());
    const float divisor = divisor_of(tokens, token, made);
    for (std::int64_t choice = 0; choice < shape.per_token; ++choice)
      tokens.weights[token * shape.per_token + choice] =
          made[index(order[index(choice)])] / divisor;
  }
  place(tokens);
  const std::int64_t sent = rows_sent(tokens);
  for (std::int64_t at = 0; at < sent; ++at) {
    const std::int32_t copy = tokens.copies[at];
    weights[at] = copy == RoutedTokens::dropped ? 0 : tokens.weights[copy];
  }
}

// d p_e = (d w_e - sum over f of w_f d w_f) / S where w_e = p_e / S; of one choice, w = p. Behind
// softmaxes d score_e = p_e (d p_e - sum over f of p_f d p_f), of all experts; behind sigmoids
// p_e (1 - p_e) d p_e.
void choose_by_scores_backward(const RoutedTokens& tokens, const RoutedScores& how,
                               const float* kept, const float* weight_gradients,
                               void* score_gradients, kernels::StreamHandle /*stream*/) {
  const RoutingShape& shape = tokens.shape;
  const std::int64_t all = shape.tokens * shape.experts;
  const std::span<float> to = floats(score_gradients, all);
  std::fill(to.begin(), to.end(), 0.0F);
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    const std::span<const float> own = row(floats(kept, all), token, shape.experts);
    const std::span<float> made = row(to, token, shape.experts);
    const float divisor = divisor_of(tokens, token, own);
    const auto gradient_of = [&](std::int64_t choice) {
      const std::int32_t at = row_of(tokens, token, choice);
      return at == RoutedTokens::dropped ? 0 : weight_gradients[at];
    };
    const std::span<const std::int32_t> experts = experts_of(tokens, token);
    float mean = 0;
    for (std::int64_t choice = 0; choice < shape.per_token; ++choice)
      mean += own[index(experts[index(choice)])] / divisor * gradient_of(choice);
    if (shape.per_token == 1) mean = 0;
    for (std::int64_t choice = 0; choice < shape.per_token; ++choice)
      made[index(experts[index(choice)])] = (gradient_of(choice) - mean) / divisor;
    if (how.score == RouterScore::sigmoid) {
      array(made) *= array(own) * (1 - array(own));
      continue;
    }
    const float sum = (array(made) * array(own)).sum();
    array(made) = array(own) * (array(made) - sum);
  }
}

void order_arrived(const RoutedTokens& tokens, kernels::StreamHandle /*stream*/) {
  const std::int64_t held = tokens.shape.held();
  const std::span<const std::int32_t> came = list(tokens.came, tokens.shape.sources() * held);
  std::vector<std::int32_t> first(came.size(), 0);
  std::exclusive_scan(came.begin(), came.end(), first.begin(), 0);
  std::int32_t rows = 0;
  for (std::int64_t expert = 0; expert < held; ++expert)
    for (std::size_t at = index(expert); at < came.size(); at += index(held))
      for (std::int32_t i = 0; i < came[at]; ++i)
        tokens.order[rows++] = first[at] + i;
  *tokens.arrived = rows;
}

void copy_routed(const RoutedTokens& tokens, const RoutedRows& rows, const void* from, void* to,
                 kernels::StreamHandle /*stream*/) {
  const std::int64_t all = rows_sent(tokens), width = rows.width;
  const std::span<const float> input = floats(from, tokens.shape.tokens * width);
  const std::span<float> copies = floats(to, all * width);
  for (std::int64_t at = 0; at < all; ++at) {
    const std::span<float> made = row(copies, at, width);
    if (tokens.copies[at] == RoutedTokens::dropped)
      std::fill(made.begin(), made.end(), 0.0F);
    else
      copy(row(input, tokens.copies[at] / tokens.shape.per_token, width), made);
  }
}

void sum_routed(const RoutedTokens& tokens, const RoutedRows& rows, const void* from, void* to,
                kernels::StreamHandle /*stream*/) {
  const std::span<const float> copies = floats(from, rows_sent(tokens) * rows.width);
  for (std::int64_t token = 0; token < tokens.shape.tokens; ++token) {
    const std::span<float> made =
        row(floats(to, tokens.shape.tokens * rows.width), token, rows.width);
    std::fill(made.begin(), made.end(), 0.0F);
    for (std::int64_t choice = 0; choice < tokens.shape.per_token; ++choice)
      if (const std::int32_t at = row_of(tokens, token, choice); at != RoutedTokens::dropped)
        add(row(copies, at, rows.width), made);
  }
}

void sort_routed(const RoutedTokens& tokens, const RoutedRows& rows, const void* from, void* to,
                 kernels::StreamHandle /*stream*/) {
  const std::int64_t elements = *tokens.arrived * rows.width;
  for (std::int64_t at = 0; at < *tokens.arrived; ++at)
    copy(row(floats(from, elements), tokens.order[at], rows.width),
         row(floats(to, elements), at, rows.width));
}

void restore_routed(const RoutedTokens& tokens, const RoutedRows& rows, const void* from, void* to,
                    kernels::StreamHandle /*stream*/) {
  const std::int64_t elements = *tokens.arrived * rows.width;
  for (std::int64_t at = 0; at < *tokens.arrived; ++at)
    copy(row(floats(from, elements), at, rows.width),
         row(floats(to, elements), tokens.order[at], rows.width));
}

void weighed_routed(const RoutedTokens& tokens, const RoutedActivation& of, const void* input,
                    const float* weights, void* output, kernels::StreamHandle /*stream*/) {
  const std::int64_t rows = *tokens.arrived;
  if (rows == 0) return;
  const std::int64_t inputs = of.width * (is_gated(of.function) ? 2 : 1);
  const std::span<float> y = floats(output, rows * of.width);
  activation_forward(of.function, of.width, floats(input, rows * inputs), y);
  for (std::int64_t at = 0; at < rows; ++at)
    array(row(y, at, of.width)) *= weights[tokens.order[at]];
}

// ReLU keeps its output, from which its weight has to be divided out.
void weighed_routed_backward(const RoutedTokens& tokens, const RoutedActivation& of,
                             const kernels::WeighedBackward& operands,
                             kernels::StreamHandle /*stream*/) {
  const bool from_output = of.function == sim::Function::relu;
  const std::int64_t inputs = of.width * (is_gated(of.function) ? 2 : 1);
  const auto* saved = static_cast<const float*>(operands.saved);
  const auto* gradient = static_cast<const float*>(operands.gradient);
  auto* input_gradient = static_cast<float*>(operands.input_gradient);
  std::vector<float> scaled(index(of.width)), value(index(of.width));
  for (std::int64_t at = 0; at < *tokens.arrived; ++at) {
    const std::int32_t came = tokens.order[at];
    const float weight = operands.weights[came];
    const std::span<const float> x = floats(saved + at * inputs, inputs);
    const std::span<const float> dy = floats(gradient + at * of.width, of.width);
    array(std::span{scaled}) = array(dy) * weight;
    activation_backward(of.function, of.width, x, scaled,
                        floats(input_gradient + at * inputs, inputs));
    if (from_output) {
      const float sum = (array(dy) * array(x)).sum();
      operands.weight_gradients[came] = weight > 0 ? sum / weight : 0;
      continue;
    }
    activation_forward(of.function, of.width, x, value);
    operands.weight_gradients[came] = (array(dy) * array(std::span<const float>{value})).sum();
  }
}

#define STEPCAST_KERNEL(name) .name = host::name,
const kernels::RoutedTable& host_routed() {
  static constexpr kernels::RoutedTable table{STEPCAST_ROUTED_KERNELS(STEPCAST_KERNEL)};
  return table;
}
#undef STEPCAST_KERNEL

}  // namespace real::host
