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

std::span<const float> floats(const float* data, std::int64_t count) {
  return {data, static_cast<std::size_t>(count)};
}
std::span<float> floats(float* data, std::int64_t count) {
  return {data, static_cast<std::size_t>(count)};
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

// visit(expert) of those whose scores make the weights of a token's choices.
template <class Visit>
void for_each_scored(const RoutingTable& table, RouterScore score, std::int64_t token,
                     Visit visit) {
  const RoutingShape& shape = table.shape();
  if (shape.per_token == 1 && score == RouterScore::softmax) {
    for (std::int64_t expert = 0; expert < shape.experts; ++expert)
      visit(index(expert));
    return;
  }
  for (const std::int32_t expert : table.experts_of(token))
    visit(index(expert));
}

// Softmaxes, or sigmoids before they are divided by their sum.
void score_token(const RoutingTable& table, RouterScore score, std::int64_t token,
                 std::span<const float> scores, std::span<float> kept) {
  if (score == RouterScore::sigmoid) {
    for (const std::int32_t expert : table.experts_of(token))
      kept[index(expert)] = sigmoid(scores[index(expert)]);
    return;
  }
  float most = std::numeric_limits<float>::lowest(), sum = 0;
  for_each_scored(table, score, token, [&](std::size_t e) { most = std::max(most, scores[e]); });
  for_each_scored(table, score, token,
                  [&](std::size_t e) { sum += kept[e] = std::exp(scores[e] - most); });
  for_each_scored(table, score, token, [&](std::size_t e) { kept[e] /= sum; });
}

// The divisor of sigmoids, their sum; softmaxes need none.
float divisor_of(const RoutingTable& table, RouterScore score, std::int64_t token,
                 std::span<const float> kept) {
  if (score == RouterScore::softmax || table.shape().per_token == 1) return 1;
  float sum = 0;
  for (const std::int32_t expert : table.experts_of(token))
    sum += kept[index(expert)];
  return sum;
}

void choose(RoutingTable& table, RouterScore score, const float* scores, float* kept,
            float* weights) {
  const RoutingShape& shape = table.shape();
  const std::int64_t all = shape.tokens * shape.experts;
  const std::span<const float> from = floats(scores, all);
  const std::span<float> to = floats(kept, all);
  std::fill(to.begin(), to.end(), 0.0F);
  std::vector<float> of_copies(index(shape.copies()));
  Candidates candidates{shape};
  std::vector<float> compared(index(shape.experts));
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    const std::span<const float> own = row(from, token, shape.experts);
    std::transform(own.begin(), own.end(), compared.begin(),
                   [&](float x) { return score == RouterScore::sigmoid ? sigmoid(x) : x; });
    std::vector<std::int32_t>& order = candidates.of(compared);
    largest(compared, order, shape.per_token);
    std::copy_n(order.begin(), shape.per_token, table.experts_of(token).begin());
    const std::span<float> made = row(to, token, shape.experts);
    score_token(table, score, token, own, made);
    const float divisor = divisor_of(table, score, token, made);
    for (std::int64_t choice = 0; choice < shape.per_token; ++choice)
      of_copies[index(token * shape.per_token + choice)] =
          made[index(table.experts_of(token)[index(choice)])] / divisor;
  }
  table.place(of_copies);
  std::fill_n(weights, table.rows_sent(), 0.0F);
  for (std::int64_t token = 0; token < shape.tokens; ++token)
    for (std::int64_t choice = 0; choice < shape.per_token; ++choice)
      if (const std::int64_t to_row = table.row_of(token, choice); to_row != RoutingTable::dropped)
        weights[to_row] = of_copies[index(token * shape.per_token + choice)];
}

// softmax: d score_e = p_e (d p_e - sum over f of p_f d p_f)
// sigmoid: of w_e = s_e / S, d s_e = (d w_e - sum over f of w_f d w_f) / S, and s' = s (1 - s)
void choose_backward(const RoutingTable& table, RouterScore score, const float* kept,
                     const float* weight_gradients, float* score_gradients) {
  const RoutingShape& shape = table.shape();
  const std::int64_t all = shape.tokens * shape.experts;
  const std::span<float> to = floats(score_gradients, all);
  std::fill(to.begin(), to.end(), 0.0F);
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    const std::span<const float> own = row(floats(kept, all), token, shape.experts);
    const std::span<float> made = row(to, token, shape.experts);
    const float divisor = divisor_of(table, score, token, own);
    float mean = 0;
    for (std::int64_t choice = 0; choice < shape.per_token; ++choice) {
      const std::int64_t at = table.row_of(token, choice);
      if (at == RoutingTable::dropped) continue;
      const std::size_t expert = index(table.experts_of(token)[index(choice)]);
      made[expert] = weight_gradients[at];
      mean += own[expert] / divisor * made[expert];
    }
    const bool alone = score == RouterScore::sigmoid && shape.per_token == 1;
    for_each_scored(table, score, token, [&](std::size_t e) {
      const float gradient = alone ? made[e] : (made[e] - mean) / divisor;
      made[e] = gradient * own[e] * (score == RouterScore::sigmoid ? 1 - own[e] : 1);
    });
  }
}

void copy_tokens(const RoutingTable& table, std::int64_t width, const float* tokens,
                 float* copies) {
  const RoutingShape& shape = table.shape();
  const std::span<float> to = floats(copies, table.rows_sent() * width);
  if (shape.padded) std::fill(to.begin(), to.end(), 0.0F);
  for (std::int64_t token = 0; token < shape.tokens; ++token)
    for (std::int64_t choice = 0; choice < shape.per_token; ++choice)
      if (const std::int64_t at = table.row_of(token, choice); at != RoutingTable::dropped)
        copy(floats(tokens + token * width, width), row(to, at, width));
}

void sum_copies(const RoutingTable& table, std::int64_t width, const float* copies, float* tokens) {
  const RoutingShape& shape = table.shape();
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    const std::span<float> to = floats(tokens + token * width, width);
    std::fill(to.begin(), to.end(), 0.0F);
    for (std::int64_t choice = 0; choice < shape.per_token; ++choice)
      if (const std::int64_t at = table.row_of(token, choice); at != RoutingTable::dropped)
        add(floats(copies + at * width, width), to);
  }
}

void sort_copies(const RoutingTable& table, std::int64_t width, const float* came, float* sorted) {
  for (std::int64_t at = 0; at < table.rows_arrived(); ++at)
    copy(floats(came + table.came_at(at) * width, width), floats(sorted + at * width, width));
}

void restore_order(const RoutingTable& table, std::int64_t width, const float* sorted,
                   float* came) {
  for (std::int64_t at = 0; at < table.rows_arrived(); ++at)
    copy(floats(sorted + at * width, width), floats(came + table.came_at(at) * width, width));
}

void weighed_forward(const RoutingTable& table, const RoutedActivation& of, const float* input,
                     const float* weights, float* output) {
  const std::int64_t rows = table.rows_arrived();
  if (rows == 0) return;
  const std::int64_t inputs = of.width * (is_gated(of.function) ? 2 : 1);
  const std::span<float> y = floats(output, rows * of.width);
  activation_forward(of.function, of.width, floats(input, rows * inputs), y);
  for (std::int64_t at = 0; at < rows; ++at)
    array(row(y, at, of.width)) *= weights[table.came_at(at)];
}

// ReLU keeps its output, from which its weight has to be divided out.
void weighed_backward(const RoutingTable& table, const RoutedActivation& of,
                      const kernels::WeighedBackward& operands) {
  const bool from_output = of.function == sim::Function::relu;
  const std::int64_t inputs = of.width * (is_gated(of.function) ? 2 : 1);
  const auto* saved = static_cast<const float*>(operands.saved);
  const auto* gradient = static_cast<const float*>(operands.gradient);
  auto* input_gradient = static_cast<float*>(operands.input_gradient);
  std::vector<float> scaled(index(of.width)), value(index(of.width));
  for (std::int64_t at = 0; at < table.rows_arrived(); ++at) {
    const std::int64_t came = table.came_at(at);
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

}  // namespace

const kernels::RoutedTable& host_routed() {
  static constexpr kernels::RoutedTable table{.choose = choose,
                                              .choose_backward = choose_backward,
                                              .copy_tokens = copy_tokens,
                                              .sum_copies = sum_copies,
                                              .sort_copies = sort_copies,
                                              .restore_order = restore_order,
                                              .weighed_forward = weighed_forward,
                                              .weighed_backward = weighed_backward};
  return table;
}

}  // namespace real::host
