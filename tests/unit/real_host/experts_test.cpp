// Kernels of mixtures of experts: against float64 functions written here, and against each other.
#include <array>
#include <set>

#include "real/host/kernels/kernels_experts.hpp"
#include "real/host/kernels/kernels_linear.hpp"
#include "tests/unit/real_host/kernel_check.hpp"

using namespace real_test;  // NOLINT(google-build-using-namespace)
using real::Arrived;
using real::Routing;
using sim::Function;

namespace {

// Tokens in a number that spreads evenly.
Routing random_routing(std::uint64_t seed) {
  const std::int64_t experts = random_size(seed, 1, 2, 7);
  return {.tokens = experts * random_size(seed, 2, 1, 4),
          .per_token = random_size(seed, 3, 1, std::min<std::int64_t>(experts, 3)),
          .experts = experts};
}

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// Weight of every choice [token, choice], by the rule of the header.
Doubles weights_of(const Routing& routing, const Doubles& scores) {
  Doubles weights;
  for (std::int64_t token = 0; token < routing.tokens; ++token) {
    std::set<std::int64_t> scored;
    for (std::int64_t i = 0; i < (routing.per_token == 1 ? routing.experts : routing.per_token);
         ++i)
      scored.insert(routing.per_token == 1 ? i : (token * routing.per_token + i) % routing.experts);
    double sum = 0;
    for (const std::int64_t expert : scored)
      sum += std::exp(scores[index(token * routing.experts + expert)]);
    for (std::int64_t i = 0; i < routing.per_token; ++i) {
      const std::int64_t expert = (token * routing.per_token + i) % routing.experts;
      weights.push_back(std::exp(scores[index(token * routing.experts + expert)]) / sum);
    }
  }
  return weights;
}

// From [token, choice] to the order in which copies are sent.
template <class Values>
Values in_rows(const Routing& routing, const Values& of_choices) {
  Values rows(of_choices.size());
  for (std::int64_t token = 0; token < routing.tokens; ++token)
    for (std::int64_t choice = 0; choice < routing.per_token; ++choice)
      rows[index(routing.row_of(token, choice))] =
          of_choices[index(token * routing.per_token + choice)];
  return rows;
}

double silu(double x) {
  return x / (1 + std::exp(-x));
}

Doubles weighed(const real::WeighedActivation& of, const Doubles& x, const Doubles& weights) {
  const bool gated = of.function == Function::swiglu;
  Doubles y;
  for (std::int64_t row = 0; row < of.arrived.rows; ++row) {
    for (std::int64_t i = 0; i < of.width; ++i) {
      const double first = x[index(row * of.width * (gated ? 2 : 1) + i)];
      const double value = gated ? silu(first) * x[index((2 * row + 1) * of.width + i)]
                           : of.function == Function::relu ? std::max(first, 0.0)
                                                           : std::pow(std::max(first, 0.0), 2);
      y.push_back(value * weights[index(of.arrived.came_at(row))]);
    }
  }
  return y;
}

}  // namespace

TEST_CASE("every expert is chosen as often, by every share of the tokens and of the sequence",
          "[real_host][experts]") {
  const std::uint64_t seed = GENERATE(range(0, 20));
  const Routing routing = random_routing(seed);
  CAPTURE(seed, routing.tokens, routing.per_token, routing.experts);
  std::vector<std::int64_t> tokens(index(routing.experts));
  std::set<std::int64_t> rows;
  for (std::int64_t token = 0; token < routing.tokens; ++token) {
    std::set<std::int64_t> chosen;
    for (std::int64_t choice = 0; choice < routing.per_token; ++choice) {
      const std::int64_t expert = routing.expert_of(token, choice);
      chosen.insert(expert);
      ++tokens[index(expert)];
      const std::int64_t row = routing.row_of(token, choice);
      rows.insert(row);
      CHECK(row / routing.copies_for_each() == expert);  // by expert
      // A rank that begins in the middle of the sequence chooses as if it counted from its start.
      const Routing twice{routing.tokens * 2, routing.per_token, routing.experts};
      CHECK(twice.expert_of(routing.tokens + token, choice) == expert);
    }
    CHECK(std::ssize(chosen) == routing.per_token);
  }
  CHECK(std::ssize(rows) == routing.copies());
  CHECK(*rows.rbegin() == routing.copies() - 1);
  for (const std::int64_t count : tokens)
    CHECK(count == routing.copies_for_each());
}

TEST_CASE("weights of choices and the gradients of their scores", "[real_host][experts]") {
  const std::uint64_t seed = GENERATE(range(0, 20));
  const Routing routing = random_routing(seed);
  CAPTURE(seed, routing.tokens, routing.per_token, routing.experts);
  const Floats scores = random_floats(seed, 4, routing.tokens * routing.experts, 2.0);
  const Floats dweights = random_floats(seed, 5, routing.copies());
  Floats probabilities(scores.size(), 7.0F);
  Floats weights(dweights.size());
  real::choose(routing, scores, probabilities, weights);
  CHECK(relative_error(weights, in_rows(routing, weights_of(routing, exact(scores)))) <
        float_error);
  Floats dscores(scores.size(), 9.0F);
  real::choose_backward(routing, probabilities, dweights, dscores);
  const Doubles expected = finite_differences(
      [&](const Doubles& at) { return dot(in_rows(routing, weights_of(routing, at)), dweights); },
      exact(scores));
  CHECK(relative_error(dscores, expected) < float_error);
}

TEST_CASE("scores of any size give weights that are finite", "[real_host][experts]") {
  const Routing routing{.tokens = 2, .per_token = 1, .experts = 2};
  const Floats scores{-1e30F, 1e30F, 3e38F, -3e38F};
  Floats probabilities(4);
  Floats weights(2);
  real::choose(routing, scores, probabilities, weights);
  CHECK(weights == Floats{0.0F, 0.0F});
  CHECK(probabilities == Floats{0.0F, 1.0F, 1.0F, 0.0F});
}

TEST_CASE("tokens are copied for each choice, and copies summed", "[real_host][experts]") {
  const std::uint64_t seed = GENERATE(range(0, 10));
  const Routing routing = random_routing(seed);
  const std::int64_t width = random_size(seed, 6, 1, 9);
  const Floats tokens = random_floats(seed, 7, routing.tokens * width);
  Floats copies(index(routing.copies() * width));
  real::copy_tokens(routing, tokens, copies);
  for (std::int64_t token = 0; token < routing.tokens; ++token)
    for (std::int64_t choice = 0; choice < routing.per_token; ++choice)
      for (std::int64_t i = 0; i < width; ++i)
        REQUIRE(copies[index(routing.row_of(token, choice) * width + i)] ==
                tokens[index(token * width + i)]);
  // The one is the gradient of the other.
  const Floats other = random_floats(seed, 8, routing.copies() * width);
  Floats sums(tokens.size());
  real::sum_copies(routing, other, sums);
  CHECK(dot(exact(copies), other) == Approx(dot(exact(tokens), sums)).margin(1e-4));
}

TEST_CASE("what came from every rank is sorted by expert, and goes back", "[real_host][experts]") {
  // Two experts, three ranks that sent two copies for each: the hundreds name the expert.
  const Arrived arrived{.experts = 2, .parts = 3, .rows = 12};
  const Floats came{111, 112, 211, 212, 121, 122, 221, 222, 131, 132, 231, 232};
  Floats sorted(12);
  real::sort_copies(arrived, came, sorted);
  CHECK(sorted == Floats{111, 112, 121, 122, 131, 132, 211, 212, 221, 222, 231, 232});
  Floats back(12);
  real::restore_order(arrived, sorted, back);
  CHECK(back == came);
  const Arrived in_order{.experts = 4, .parts = 1, .rows = 12};
  real::sort_copies(in_order, came, sorted);
  CHECK(sorted == came);
}

TEST_CASE("an expert's activation times the weight of the choice, and its gradients",
          "[real_host][experts]") {
  const Function function = GENERATE(Function::swiglu, Function::relu, Function::squared_relu);
  const std::uint64_t seed = GENERATE(range(0, 6));
  CAPTURE(word(function), seed);
  const Arrived arrived{.experts = 2, .parts = 3, .rows = 6 * random_size(seed, 1, 1, 3)};
  const real::WeighedActivation of{function, random_size(seed, 2, 1, 9), arrived};
  const std::int64_t outputs = arrived.rows * of.width;
  const Floats x = random_floats(seed, 3, outputs * (function == Function::swiglu ? 2 : 1));
  Floats weights = random_floats(seed, 4, arrived.rows);
  for (float& weight : weights)
    weight = 0.1F + std::abs(weight);
  const Floats dy = random_floats(seed, 5, outputs);
  Floats y(dy.size());
  real::weighed_forward(of, x, weights, y);
  CHECK(relative_error(y, weighed(of, exact(x), exact(weights))) < float_error);
  Floats dx(x.size());
  Floats dweights(weights.size(), 9.0F);
  real::weighed_backward(of, {.x_or_y = function == Function::relu ? y : x,
                              .weights = weights,
                              .dy = dy,
                              .dx = dx,
                              .weight_gradients = dweights});
  const auto of_input = [&](const Doubles& at) { return dot(weighed(of, at, exact(weights)), dy); };
  const auto of_weights = [&](const Doubles& at) { return dot(weighed(of, exact(x), at), dy); };
  CHECK(relative_error(dx, finite_differences(of_input, exact(x))) < float_error);
  CHECK(relative_error(dweights, finite_differences(of_weights, exact(weights))) < float_error);
}

TEST_CASE("a choice of no weight has no gradient through ReLU's output", "[real_host][experts]") {
  const real::WeighedActivation of{Function::relu, 2, {.experts = 1, .parts = 1, .rows = 1}};
  const Floats y{0, 0};
  const Floats weights{0};
  const Floats dy{1, 1};
  Floats dx(2, 9.0F);
  Floats dweights(1, 9.0F);
  real::weighed_backward(of, {y, weights, dy, dx, dweights});
  CHECK(dx == Floats{0, 0});
  CHECK(dweights == Floats{0});
}
