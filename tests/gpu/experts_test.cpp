// Kernels of mixtures of experts against references in double.
#include "tests/catch.hpp"
#include "tests/gpu/device_array.hpp"

using namespace gpu_test;
using real::Arrived;
using real::Routing;
using real::kernels::ChoiceShape;
using real::kernels::CopyShape;
using real::kernels::SortShape;
using real::kernels::WeighedShape;
using sim::DType;
using sim::Function;

namespace {

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

bool takes_part(const Routing& routing, std::int64_t token, std::int64_t expert) {
  if (routing.per_token == 1) return true;
  for (std::int64_t choice = 0; choice < routing.per_token; ++choice)
    if (routing.expert_of(token, choice) == expert) return true;
  return false;
}

Numbers probabilities_of(const Routing& routing, const Numbers& scores) {
  Numbers result(scores.size());
  for (std::int64_t token = 0; token < routing.tokens; ++token) {
    double sum = 0;
    for (std::int64_t expert = 0; expert < routing.experts; ++expert) {
      const std::size_t at = index(token * routing.experts + expert);
      if (takes_part(routing, token, expert)) sum += result[at] = std::exp(scores[at]);
    }
    for (std::int64_t expert = 0; expert < routing.experts; ++expert)
      result[index(token * routing.experts + expert)] /= sum;
  }
  return result;
}

Routing some_routing() {
  // Fewer experts than a warp has lanes, and more.
  return GENERATE(Routing{8, 2, 4}, Routing{12, 1, 6}, Routing{40, 3, 40}, Routing{40, 1, 40});
}

double value(Function function, double x) {
  if (function == Function::swiglu) return x / (1 + std::exp(-x));
  if (function == Function::squared_relu) return x > 0 ? x * x : 0;
  return std::max(x, 0.0);
}
double slope(Function function, double x) {
  const double h = 1e-5;
  return (value(function, x + h) - value(function, x - h)) / (2 * h);
}

}  // namespace

TEST_CASE("the weights of choices, and the gradients of scores", "[gpu][experts]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const Routing routing = some_routing();
  CAPTURE(routing.tokens, routing.per_token, routing.experts);
  const Numbers scores = random_numbers(1, index(routing.tokens * routing.experts), dtype);
  const Numbers expected = probabilities_of(routing, scores);
  const Array input{dtype, scores}, probabilities{DType::fp32, scores.size()};
  const Array weights{DType::fp32, index(routing.copies())};
  choose(ChoiceShape{dtype, routing}, input.data(), probabilities.floats(), weights.floats(),
         nullptr);
  CHECK(worst_error(probabilities.numbers(), expected) < 1e-5);
  const Numbers dweights = random_numbers(2, index(routing.copies()), DType::fp32);
  Numbers in_rows(dweights.size()), dscores(scores.size());
  for (std::int64_t token = 0; token < routing.tokens; ++token) {
    const std::int64_t first = token * routing.experts;
    double mean = 0;
    for (std::int64_t choice = 0; choice < routing.per_token; ++choice) {
      const std::size_t at = index(first + routing.expert_of(token, choice));
      const std::size_t row = index(routing.row_of(token, choice));
      in_rows[row] = expected[at];
      dscores[at] = dweights[row];
      mean += expected[at] * dweights[row];
    }
    for (std::int64_t expert = 0; expert < routing.experts; ++expert) {
      const std::size_t at = index(first + expert);
      dscores[at] = expected[at] * (dscores[at] - mean);
    }
  }
  CHECK(worst_error(weights.numbers(), in_rows) < 1e-5);
  const Array weight_gradients{DType::fp32, dweights}, score_gradients{dtype, scores.size()};
  choose_backward(ChoiceShape{dtype, routing}, probabilities.floats(), weight_gradients.floats(),
                  score_gradients.data(), nullptr);
  CHECK(worst_error(score_gradients.numbers(), dscores) < tolerance(dtype));
}

TEST_CASE("tokens are copied for their experts, and copies summed", "[gpu][experts]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const Routing routing = some_routing();
  const std::int64_t width = GENERATE(24, 5);  // whole vectors, and none
  CAPTURE(routing.tokens, routing.per_token, routing.experts, width);
  const CopyShape shape{dtype, routing, width};
  const Numbers x = random_numbers(1, index(routing.tokens * width), dtype);
  const Numbers y = random_numbers(2, index(routing.copies() * width), dtype);
  Numbers copies(y.size()), sums(x.size());
  for (std::int64_t token = 0; token < routing.tokens; ++token)
    for (std::int64_t choice = 0; choice < routing.per_token; ++choice)
      for (std::int64_t i = 0; i < width; ++i) {
        const std::size_t row = index(routing.row_of(token, choice) * width + i);
        copies[row] = x[index(token * width + i)];
        sums[index(token * width + i)] += y[row];
      }
  const Array tokens{dtype, x}, made{dtype, copies.size()}, others{dtype, y};
  const Array summed{dtype, sums.size()};
  copy_tokens(shape, tokens.data(), made.data(), nullptr);
  CHECK(made.numbers() == copies);
  sum_copies(shape, others.data(), summed.data(), nullptr);
  CHECK(worst_error(summed.numbers(), sums) < tolerance(dtype));
}

TEST_CASE("copies are sorted by expert, and put back", "[gpu][experts]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const Arrived arrived = GENERATE(Arrived{2, 3, 24}, Arrived{4, 1, 8}, Arrived{1, 4, 12});
  const std::int64_t width = GENERATE(16, 3);
  const Numbers x = random_numbers(1, index(arrived.rows * width), dtype);
  Numbers expected(x.size());
  for (std::int64_t row = 0; row < arrived.rows; ++row)
    for (std::int64_t i = 0; i < width; ++i)
      expected[index(row * width + i)] = x[index(arrived.came_at(row) * width + i)];
  const Array came{dtype, x}, sorted{dtype, x.size()}, back{dtype, x.size()};
  const SortShape shape{dtype, arrived, width};
  sort_copies(shape, came.data(), sorted.data(), nullptr);
  CHECK(sorted.numbers() == expected);
  restore_order(shape, sorted.data(), back.data(), nullptr);
  CHECK(back.numbers() == x);
}

TEST_CASE("an activation times the weight of a choice, and both gradients", "[gpu][experts]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const Function function = GENERATE(Function::swiglu, Function::relu, Function::squared_relu);
  const std::int64_t width = GENERATE(150, 5);  // more than a block's threads, and fewer
  const Arrived arrived{2, 3, 12};
  CAPTURE(static_cast<int>(function), width);
  const bool gated = function == Function::swiglu;
  const std::int64_t inputs = width * (gated ? 2 : 1);
  const Numbers x = random_numbers(1, index(arrived.rows * inputs), dtype);
  Numbers w = random_numbers(2, index(arrived.rows), DType::fp32);
  for (double& weight : w)
    weight = std::abs(weight) / 2 + 0.25;
  const Numbers dy = random_numbers(3, index(arrived.rows * width), dtype);
  Numbers y(dy.size()), dx(x.size()), dw(w.size());
  for (std::int64_t row = 0; row < arrived.rows; ++row) {
    const std::size_t came = index(arrived.came_at(row));
    for (std::int64_t i = 0; i < width; ++i) {
      const std::size_t in = index(row * inputs + i), out = index(row * width + i);
      const double other = gated ? x[in + index(width)] : 1;
      y[out] = w[came] * value(function, x[in]) * other;
      dx[in] = w[came] * dy[out] * other * slope(function, x[in]);
      if (gated) dx[in + index(width)] = w[came] * dy[out] * value(function, x[in]);
      dw[came] += dy[out] * value(function, x[in]) * other;
    }
  }
  const WeighedShape shape{function, dtype, arrived, width};
  const Array input{dtype, x}, weights{DType::fp32, w}, output{dtype, y.size()};
  weighed_forward(shape, input.data(), weights.floats(), output.data(), nullptr);
  CHECK(worst_error(output.numbers(), y) < tolerance(dtype));
  const Array gradient{dtype, dy}, input_gradient{dtype, x.size()};
  const Array weight_gradients{DType::fp32, w.size()};
  weighed_backward(shape,
                   {.saved = function == Function::relu ? output.data() : input.data(),
                    .weights = weights.floats(),
                    .gradient = gradient.data(),
                    .input_gradient = input_gradient.data(),
                    .weight_gradients = weight_gradients.floats()},
                   nullptr);
  CHECK(worst_error(input_gradient.numbers(), dx) < tolerance(dtype));
  CHECK(worst_error(weight_gradients.numbers(), dw) < tolerance(dtype));
}
