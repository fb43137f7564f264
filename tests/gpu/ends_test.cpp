// Embedding and loss.
#include "tests/catch.hpp"
#include "tests/gpu/device_array.hpp"

using namespace gpu_test;
using real::kernels::LossShape;
using real::kernels::TableShape;
using real::kernels::TokenIds;
using sim::DType;

namespace {

// `sequences` of `sequence` + 1 ids.
std::vector<std::int32_t> random_ids(unsigned seed, std::size_t sequences, std::size_t sequence,
                                     unsigned vocabulary) {
  std::mt19937 generator{seed};
  std::vector<std::int32_t> ids(sequences * (sequence + 1));
  for (std::int32_t& id : ids)
    id = static_cast<std::int32_t>(generator() % vocabulary);
  return ids;
}

}  // namespace

TEST_CASE("the slices of a table add up to the lookup and take their tokens' gradients", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const std::int64_t width = GENERATE(40, 7);
  const unsigned vocabulary = GENERATE(4U, 200U);  // many tokens of an id, and few
  const bool accumulate = GENERATE(false, true);
  const std::size_t tokens = 2 * 150;
  const auto ids = random_ids(1, 2, 150, vocabulary);
  const auto w = static_cast<std::size_t>(width);
  const Numbers table = random_numbers(2, vocabulary * w, dtype);
  const Numbers dy = random_numbers(3, tokens * w, dtype);
  const Numbers before = random_numbers(4, table.size(), DType::fp32);
  const Values<std::int32_t> device_ids{ids};
  const TokenIds lookup{device_ids.data(), 300, 150, 151};
  Numbers expected(dy.size()), expected_gradient = accumulate ? before : Numbers(table.size());
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const std::size_t token = i / w;
    const auto at = static_cast<std::size_t>(ids[token / 150 * 151 + token % 150]) * w + i % w;
    expected[i] = table[at];
    expected_gradient[at] += dy[i];
  }
  Numbers sum(dy.size()), gradient;
  const Scratch scratch{real::kernels::embedding_backward_workspace(300)};
  for (const std::int64_t first : {std::int64_t{0}, std::int64_t{vocabulary / 2}}) {
    const TableShape shape{dtype, first, vocabulary / 2, width};
    const auto begin = static_cast<std::ptrdiff_t>(first * width);
    const auto end = begin + static_cast<std::ptrdiff_t>(vocabulary / 2 * w);
    const Array part{dtype, Numbers(table.begin() + begin, table.begin() + end)};
    const Array part_gradient{DType::fp32, Numbers(before.begin() + begin, before.begin() + end)};
    const Array output{dtype, dy.size()}, device_dy{dtype, dy};
    embedding_forward(shape, lookup, part.data(), output.data(), nullptr);
    embedding_backward(shape, lookup,
                       {device_dy.data(), part_gradient.data(), DType::fp32, accumulate},
                       scratch.workspace(), nullptr);
    const Numbers partial = output.numbers();
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += partial[i];
    const Numbers of_part = part_gradient.numbers();
    gradient.insert(gradient.end(), of_part.begin(), of_part.end());
  }
  CHECK(sum == expected);
  CHECK(worst_error(gradient, expected_gradient) < 1e-5);
}

TEST_CASE("learned positions count on from a rank's first token", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const std::int64_t first_token = GENERATE(0, 4);
  const std::int64_t tokens = 14, sequence = 6, rows = 8, width = GENERATE(24, 5);
  const bool accumulate = GENERATE(false, true);
  const auto w = static_cast<std::size_t>(width);
  const Numbers table = random_numbers(1, 8 * w, dtype), x = random_numbers(2, 14 * w, dtype);
  const Numbers before = random_numbers(3, table.size(), DType::fp32);
  Numbers expected = x, expected_gradient = accumulate ? before : Numbers(table.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t at = (static_cast<std::size_t>(first_token) + i / w) % 6 * w + i % w;
    expected[i] += table[at];
    expected_gradient[at] += x[i];
  }
  const Array device_table{dtype, table}, input{dtype, x}, output{dtype, x.size()};
  const Array gradient{DType::fp32, before};
  const TableShape shape{dtype, 0, rows, width};
  add_table_forward(shape, {tokens, sequence, first_token}, device_table.data(), input.data(),
                    output.data(), nullptr);
  add_table_backward(shape, {tokens, sequence, first_token},
                     {input.data(), gradient.data(), DType::fp32, accumulate}, nullptr);
  CHECK(worst_error(output.numbers(), expected) < tolerance(dtype));
  CHECK(worst_error(gradient.numbers(), expected_gradient) < 1e-5);
}

namespace {

struct LossProblem {
  DType dtype;
  std::int64_t vocabulary, padded;
  std::vector<std::int32_t> ids;
  Numbers logits;  // [tokens, padded]
  double loss = 0;
  Numbers gradient;
};

// -log softmax(logits)[target], in double, and its gradient; padding takes no part.
LossProblem make_loss(DType dtype, std::int64_t vocabulary, std::int64_t padded) {
  const auto v = static_cast<std::size_t>(vocabulary), p = static_cast<std::size_t>(padded);
  LossProblem problem{dtype,
                      vocabulary,
                      padded,
                      random_ids(1, 2, 4, static_cast<unsigned>(vocabulary)),
                      random_numbers(2, 8 * p, dtype),
                      0,
                      Numbers(8 * p)};
  for (double& logit : problem.logits)
    logit *= 8;
  for (std::size_t t = 0; t < 8; ++t) {
    const auto target = static_cast<std::size_t>(problem.ids[t / 4 * 5 + t % 4 + 1]);
    double sum = 0;
    for (std::size_t c = 0; c < v; ++c)
      sum += std::exp(problem.logits[t * p + c]);
    problem.loss += std::log(sum) - problem.logits[t * p + target];
    for (std::size_t c = 0; c < v; ++c)
      problem.gradient[t * p + c] =
          std::exp(problem.logits[t * p + c]) / sum - (c == target ? 1.0 : 0.0);
  }
  return problem;
}

}  // namespace

TEST_CASE("cross-entropy over a whole vocabulary", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  // Whole vectors, a padding that begins inside one, rows that begin anywhere, wide blocks.
  const auto [vocabulary, padded] =
      GENERATE(std::pair{50, 50}, std::pair{50, 56}, std::pair{1000, 1000}, std::pair{1001, 1001},
               std::pair{3, 5}, std::pair{8200, 8208});
  const bool descending = GENERATE(false, true);
  run_in_descending_order(descending);
  CAPTURE(static_cast<int>(dtype), vocabulary, padded);
  const LossProblem problem = make_loss(dtype, vocabulary, padded);
  const Values<std::int32_t> ids{problem.ids};
  const TokenIds targets{ids.data() + 1, 8, 4, 5};
  const LossShape shape{dtype, 0, padded, vocabulary};
  const Array logits{dtype, problem.logits}, exponentials{DType::fp32, problem.logits.size()};
  const Array target{DType::fp32, 8}, sum{DType::fp32, 8}, gradient{dtype, problem.logits.size()};
  const Values<double> loss{{0.5}};
  loss_exponentials(shape, targets,
                    {.logits = logits.data(),
                     .exponentials = exponentials.floats(),
                     .target_logit = target.floats(),
                     .exponential_sum = sum.floats()},
                    nullptr);
  if (dtype == DType::fp32) {  // in place of the logits
    const Array same{dtype, problem.logits}, same_target{DType::fp32, 8};
    loss_exponentials(shape, targets,
                      {same.data(), nullptr, same.floats(), same_target.floats(), sum.floats()},
                      nullptr);
    CHECK(same.numbers() == exponentials.numbers());
    CHECK(same_target.numbers() == target.numbers());
  }
  loss_finish(shape, 8, {target.floats(), sum.floats(), nullptr, 4, loss.data()}, nullptr);
  loss_gradient(shape, targets, {exponentials.floats(), sum.floats(), gradient.data(), 1}, nullptr);
  CHECK(loss.values()[0] == Approx(0.5 + problem.loss / 4).epsilon(1e-6));
  CHECK(worst_error(gradient.numbers(), problem.gradient) < tolerance(dtype));
  // The same of kept logits, written over them.
  const Array kept{dtype, problem.logits};
  loss_gradient(shape, targets,
                {.exponential_sum = sum.floats(),
                 .logit_gradient = kept.data(),
                 .logits = kept.data(),
                 .target_logit = target.floats()},
                nullptr);
  CHECK(worst_error(kept.numbers(), problem.gradient) < tolerance(dtype));
  run_in_descending_order(false);
}

TEST_CASE("a loss that keeps no exponentials, and arrays that begin at no vector", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const LossProblem problem = make_loss(dtype, 45, 48);
  Numbers shifted = problem.logits;
  shifted.insert(shifted.begin(), 0);  // the arrays begin one element behind a boundary
  const Values<std::int32_t> ids{problem.ids};
  const TokenIds targets{ids.data() + 1, 8, 4, 5};
  const LossShape shape{dtype, 0, 48, 45};
  const Array array{dtype, shifted}, kept{DType::fp32, shifted.size()}, to{dtype, shifted.size()};
  const auto second = [&](const Array& of) {
    return static_cast<std::byte*>(of.data()) + sim::bytes_of(dtype);
  };
  const Array target{DType::fp32, 8}, sum{DType::fp32, 8}, sum_alone{DType::fp32, 8};
  const Array maximum{DType::fp32, 8};
  loss_maximum(shape, 8, second(array), maximum.floats(), nullptr);
  loss_exponentials(
      shape, targets,
      {second(array), maximum.floats(), kept.floats() + 1, target.floats(), sum.floats()}, nullptr);
  loss_exponentials(shape, targets,
                    {second(array), maximum.floats(), nullptr, target.floats(), sum_alone.floats()},
                    nullptr);
  CHECK(sum_alone.numbers() == sum.numbers());
  const Values<double> loss{{0.0}};
  loss_finish(shape, 8, {target.floats(), sum.floats(), kept.floats() + 1, 1, loss.data()},
              nullptr);
  CHECK(loss.values()[0] == Approx(problem.loss).epsilon(1e-6));
  loss_gradient(shape, targets, {kept.floats() + 1, nullptr, second(to), 1}, nullptr);
  Numbers gradient = to.numbers();
  gradient.erase(gradient.begin());
  CHECK(worst_error(gradient, problem.gradient) < tolerance(dtype));
}

TEST_CASE("a target outside of a whole vocabulary makes the loss not a number", "[gpu]") {
  const LossProblem problem = make_loss(DType::bf16, 45, 48);
  const Values<std::int32_t> ids{{1, 2, 46, 3, 4, 5, 6, 7, 8, 9}};
  const Array logits{DType::bf16, problem.logits};
  const Array target{DType::fp32, 8}, sum{DType::fp32, 8};
  const Values<double> loss{{0.0}};
  const LossShape shape{DType::bf16, 0, 48, 45};
  loss_exponentials(shape, {ids.data() + 1, 8, 4, 5},
                    {logits.data(), nullptr, nullptr, target.floats(), sum.floats()}, nullptr);
  loss_finish(shape, 8, {target.floats(), sum.floats(), nullptr, 1, loss.data()}, nullptr);
  CHECK(std::isnan(loss.values()[0]));
}

TEST_CASE("cross-entropy in slices of the vocabulary, one of padding only", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const std::int64_t slices = 3, width = 24;
  const std::int64_t vocabulary = GENERATE(45, 70);  // 45: the last slice has no class
  const LossProblem problem = make_loss(dtype, vocabulary, slices * width);
  const Values<std::int32_t> ids{problem.ids};
  const TokenIds targets{ids.data() + 1, 8, 4, 5};
  const bool finish = GENERATE(false, true);
  struct Part {
    LossShape shape;
    Array logits, maximum, exponentials, target, sum;
  };
  std::vector<Part> parts;
  Numbers maximum(8, -1e300), target(8), sum(8), gradient(problem.logits.size());
  for (std::int64_t s = 0; s < slices; ++s) {
    Numbers own;
    for (std::int64_t i = 0; i < 8 * width; ++i)
      own.push_back(problem.logits[static_cast<std::size_t>(i / width * slices * width + s * width +
                                                            i % width)]);
    const std::int64_t valid = std::clamp<std::int64_t>(vocabulary - s * width, 0, width);
    parts.push_back({{dtype, s * width, width, valid},
                     {dtype, own},
                     {DType::fp32, 8},
                     {DType::fp32, own.size()},
                     {DType::fp32, 8},
                     {DType::fp32, 8}});
    loss_maximum(parts.back().shape, 8, parts.back().logits.data(), parts.back().maximum.floats(),
                 nullptr);
    const Numbers of_part = parts.back().maximum.numbers();
    for (std::size_t t = 0; t < 8; ++t)
      maximum[t] = std::max(maximum[t], of_part[t]);
  }
  const Array all_maximum{DType::fp32, maximum};
  for (const Part& part : parts) {
    loss_exponentials(part.shape, targets,
                      {part.logits.data(), all_maximum.floats(), part.exponentials.floats(),
                       part.target.floats(), part.sum.floats()},
                      nullptr);
    if (dtype == DType::fp32) {  // in place of the logits
      const Numbers apart = part.exponentials.numbers(), target_apart = part.target.numbers();
      loss_exponentials(part.shape, targets,
                        {part.logits.data(), all_maximum.floats(), part.logits.floats(),
                         part.target.floats(), part.sum.floats()},
                        nullptr);
      CHECK(part.logits.numbers() == apart);
      CHECK(part.target.numbers() == target_apart);
    }
    for (std::size_t t = 0; t < 8; ++t) {
      target[t] += part.target.numbers()[t];
      sum[t] += part.sum.numbers()[t];
    }
  }
  const Array all_target{DType::fp32, target}, all_sum{DType::fp32, sum};
  for (std::size_t s = 0; s < parts.size(); ++s) {
    const Part& part = parts[s];
    const Values<double> loss{{0.0}};
    loss_finish(part.shape, 8,
                {all_target.floats(), all_sum.floats(),
                 finish ? part.exponentials.floats() : nullptr, 2, loss.data()},
                nullptr);
    CHECK(loss.values()[0] == Approx(problem.loss / 2).epsilon(1e-6));
    const Array part_gradient{dtype, part.exponentials.size()};
    loss_gradient(
        part.shape, targets,
        {part.exponentials.floats(), finish ? nullptr : all_sum.floats(), part_gradient.data(), 1},
        nullptr);
    const Numbers numbers = part_gradient.numbers();
    for (std::size_t i = 0; i < numbers.size(); ++i)
      gradient[i / 24 * 72 + s * 24 + i % 24] = numbers[i];
  }
  CHECK(worst_error(gradient, problem.gradient) < tolerance(dtype));
}
