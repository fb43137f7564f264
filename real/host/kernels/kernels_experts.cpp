#include "real/host/kernels/kernels_experts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "real/host/eigen_maps.hpp"
#include "real/host/kernels/kernels_elementwise.hpp"

namespace real {
namespace {

std::int64_t width_of(std::int64_t rows, std::span<const float> all) {
  const auto size = static_cast<std::int64_t>(all.size());
  SIM_CHECK(rows > 0 && size % rows == 0, rows, size);
  return size / rows;
}

void check_sizes(const Routing& routing, std::size_t by_expert, std::size_t by_choice) {
  SIM_CHECK(routing.copies() % routing.experts == 0, routing.copies(), routing.experts);
  SIM_CHECK(static_cast<std::int64_t>(by_expert) == routing.tokens * routing.experts &&
                static_cast<std::int64_t>(by_choice) == routing.copies(),
            by_expert, by_choice, routing.tokens);
}

// visit(expert) of those whose scores the softmax of a token takes in.
template <class Visit>
void for_each_scored(const Routing& routing, std::int64_t token, Visit visit) {
  const bool all = routing.per_token == 1;
  for (std::int64_t i = 0; i < (all ? routing.experts : routing.per_token); ++i)
    visit(static_cast<std::size_t>(all ? i : routing.expert_of(token, i)));
}

void softmax_of_scored(const Routing& routing, std::int64_t token, std::span<const float> scores,
                       std::span<float> probabilities) {
  float most = std::numeric_limits<float>::lowest();
  for_each_scored(routing, token,
                  [&](std::size_t expert) { most = std::max(most, scores[expert]); });
  float sum = 0;
  for_each_scored(routing, token, [&](std::size_t expert) {
    probabilities[expert] = std::exp(scores[expert] - most);
    sum += probabilities[expert];
  });
  for_each_scored(routing, token, [&](std::size_t expert) { probabilities[expert] /= sum; });
}

}  // namespace

void choose(const Routing& routing, std::span<const float> scores, std::span<float> probabilities,
            std::span<float> weights) {
  check_sizes(routing, scores.size(), weights.size());
  std::fill(probabilities.begin(), probabilities.end(), 0.0F);
  for (std::int64_t token = 0; token < routing.tokens; ++token) {
    const std::span<float> own = row(probabilities, token, routing.experts);
    softmax_of_scored(routing, token, row(scores, token, routing.experts), own);
    for (std::int64_t choice = 0; choice < routing.per_token; ++choice)
      weights[static_cast<std::size_t>(routing.row_of(token, choice))] =
          own[static_cast<std::size_t>(routing.expert_of(token, choice))];
  }
}

// d score_e = p_e (d p_e - sum over f of p_f d p_f)
void choose_backward(const Routing& routing, std::span<const float> probabilities,
                     std::span<const float> weight_gradients, std::span<float> score_gradients) {
  check_sizes(routing, probabilities.size(), weight_gradients.size());
  std::fill(score_gradients.begin(), score_gradients.end(), 0.0F);
  for (std::int64_t token = 0; token < routing.tokens; ++token) {
    const std::span<const float> own = row(probabilities, token, routing.experts);
    const std::span<float> to = row(score_gradients, token, routing.experts);
    float mean = 0;
    for (std::int64_t choice = 0; choice < routing.per_token; ++choice) {
      const auto expert = static_cast<std::size_t>(routing.expert_of(token, choice));
      to[expert] = weight_gradients[static_cast<std::size_t>(routing.row_of(token, choice))];
      mean += own[expert] * to[expert];
    }
    for (std::size_t expert = 0; expert < to.size(); ++expert)
      to[expert] = own[expert] * (to[expert] - mean);
  }
}

void copy_tokens(const Routing& routing, std::span<const float> tokens, std::span<float> copies) {
  const std::int64_t width = width_of(routing.tokens, tokens);
  for (std::int64_t token = 0; token < routing.tokens; ++token) {
    for (std::int64_t choice = 0; choice < routing.per_token; ++choice)
      copy(row(tokens, token, width), row(copies, routing.row_of(token, choice), width));
  }
}

void sum_copies(const Routing& routing, std::span<const float> copies, std::span<float> tokens) {
  const std::int64_t width = width_of(routing.tokens, tokens);
  for (std::int64_t token = 0; token < routing.tokens; ++token) {
    const std::span<float> to = row(tokens, token, width);
    copy(row(copies, routing.row_of(token, 0), width), to);
    for (std::int64_t choice = 1; choice < routing.per_token; ++choice)
      add(row(copies, routing.row_of(token, choice), width), to);
  }
}

void sort_copies(const Arrived& arrived, std::span<const float> came, std::span<float> sorted) {
  const std::int64_t width = width_of(arrived.rows, sorted);
  for (std::int64_t at = 0; at < arrived.rows; ++at)
    copy(row(came, arrived.came_at(at), width), row(sorted, at, width));
}

void restore_order(const Arrived& arrived, std::span<const float> sorted, std::span<float> came) {
  const std::int64_t width = width_of(arrived.rows, came);
  for (std::int64_t at = 0; at < arrived.rows; ++at)
    copy(row(sorted, at, width), row(came, arrived.came_at(at), width));
}

void weighed_forward(const WeighedActivation& of, std::span<const float> x,
                     std::span<const float> weights, std::span<float> y) {
  activation_forward(of.function, of.width, x, y);
  for (std::int64_t at = 0; at < of.arrived.rows; ++at)
    array(row(y, at, of.width)) *= weights[static_cast<std::size_t>(of.arrived.came_at(at))];
}

void weighed_backward(const WeighedActivation& of, const WeighedBackward& operands) {
  const bool from_output = of.function == sim::Function::relu;
  const std::int64_t inputs = width_of(of.arrived.rows, operands.x_or_y);
  std::vector<float> scaled(static_cast<std::size_t>(of.width));
  std::vector<float> value(scaled.size());
  for (std::int64_t at = 0; at < of.arrived.rows; ++at) {
    const auto came = static_cast<std::size_t>(of.arrived.came_at(at));
    const float weight = operands.weights[came];
    const std::span<const float> x = row(operands.x_or_y, at, inputs);
    const std::span<const float> dy = row(operands.dy, at, of.width);
    array(std::span{scaled}) = array(dy) * weight;
    activation_backward(of.function, of.width, x, scaled, row(operands.dx, at, inputs));
    if (from_output) {
      const float sum = (array(dy) * array(x)).sum();
      operands.weight_gradients[came] = weight > 0 ? sum / weight : 0;
      continue;
    }
    activation_forward(of.function, of.width, x, value);
    operands.weight_gradients[came] = (array(dy) * array(std::span<const float>{value})).sum();
  }
}

}  // namespace real
