#include <optional>

#include "real/engine/kernels/dropout.hpp"
#include "tests/catch.hpp"
#include "tests/gpu/device_array.hpp"

using namespace gpu_test;
using real::kernels::AttentionShape;
using sim::DType;

namespace {

struct Reference {
  Numbers output, log_sum_exp, gradient;
};

// softmax(Q K^T / sqrt(d)) V and its gradient, all of it in double, matrix by matrix:
//   dV = P^T dO, dP = dO V^T, dS = P (dP - rowsum(P dP)), dQ = dS K / sqrt(d), dK = dS^T Q /
//   sqrt(d)
// With dropout, M the factors: the output is (M P) V, dV = (M P)^T dO, and dP is M (dO V^T).
struct Problem {
  AttentionShape shape;
  Numbers qkv, dout;
  std::vector<std::int32_t> ids{};  // of the tokens; empty: no padding
  std::int64_t d() const { return shape.heads.head_dim; }
  std::size_t at(std::int64_t token, std::int64_t head, std::int64_t i) const {
    return static_cast<std::size_t>(token * shape.heads.row() + head * d() + i);
  }
  std::size_t value_at(std::int64_t token, std::int64_t kv, std::int64_t i) const {
    return at(token, shape.heads.heads + shape.heads.kv_heads, kv * shape.heads.values() + i);
  }
  std::size_t out_at(std::int64_t token, std::int64_t head, std::int64_t i) const {
    return static_cast<std::size_t>((token * shape.heads.heads + head) * shape.heads.values() + i);
  }
  // Keys of a sequence before its padding.
  std::int64_t keys(std::int64_t first) const {
    std::int64_t end = shape.heads.sequence;
    while (end > 1 && !ids.empty() && ids[static_cast<std::size_t>(first + end - 1)] == 0)
      --end;
    return end;
  }
  double factor(std::int64_t first, std::int64_t query, std::int64_t head, std::int64_t key) const {
    const auto& rules = shape.rules;
    if (rules.dropout.probability == 0) return 1;
    const std::int64_t n = shape.heads.sequence;
    const std::int64_t sequence = rules.first_sequence + first / n;
    const std::int64_t row = (sequence * rules.all_heads + rules.first_head + head) * n + query;
    const real::kernels::AdamStep step{.number = step_number};
    real::kernels::Dropout dropout = rules.dropout;
    dropout.step = &step;
    return static_cast<double>(
        real::DropoutMask{dropout}.factor(static_cast<std::uint64_t>(row * n + key)));
  }
  static constexpr std::int64_t step_number = 3;

  void add_query(Reference& to, std::int64_t first, std::int64_t query, std::int64_t head) const {
    const auto& h = shape.heads;
    const std::int64_t kv = head / (h.heads / h.kv_heads), key_head = h.heads + kv;
    const std::int64_t keys = shape.causal ? query + 1 : this->keys(first);
    const double scale = 1 / std::sqrt(static_cast<double>(d()));
    const std::int64_t begin =
        shape.window > 0 ? std::max<std::int64_t>(0, keys - shape.window) : 0;
    Numbers p(static_cast<std::size_t>(keys)), dp(p.size()), kept(p.size());
    double maximum = -1e300, sum = 0, delta = 0;
    for (std::int64_t k = begin; k < keys; ++k) {
      double& score = p[static_cast<std::size_t>(k)];
      for (std::int64_t i = 0; i < d(); ++i)
        score += scale * qkv[at(first + query, head, i)] * qkv[at(first + k, key_head, i)];
      for (std::int64_t i = 0; i < h.values(); ++i)
        dp[static_cast<std::size_t>(k)] +=
            dout[out_at(first + query, head, i)] * qkv[value_at(first + k, kv, i)];
      kept[static_cast<std::size_t>(k)] = factor(first, query, head, k);
      dp[static_cast<std::size_t>(k)] *= kept[static_cast<std::size_t>(k)];
      maximum = std::max(maximum, score);
    }
    for (auto k = static_cast<std::size_t>(begin); k < p.size(); ++k)
      sum += p[k] = std::exp(p[k] - maximum);
    to.log_sum_exp[static_cast<std::size_t>(head * h.tokens + first + query)] =
        maximum + std::log(sum);
    for (std::size_t k = 0; k < p.size(); ++k)
      delta += (p[k] /= sum) * dp[k];
    for (std::int64_t k = 0; k < keys; ++k) {
      const double probability = p[static_cast<std::size_t>(k)];
      const double ds = probability * (dp[static_cast<std::size_t>(k)] - delta) * scale;
      const double weight = probability * kept[static_cast<std::size_t>(k)];
      for (std::int64_t i = 0; i < h.values(); ++i) {
        to.output[out_at(first + query, head, i)] += weight * qkv[value_at(first + k, kv, i)];
        to.gradient[value_at(first + k, kv, i)] += weight * dout[out_at(first + query, head, i)];
      }
      for (std::int64_t i = 0; i < d(); ++i) {
        to.gradient[at(first + query, head, i)] += ds * qkv[at(first + k, key_head, i)];
        to.gradient[at(first + k, key_head, i)] += ds * qkv[at(first + query, head, i)];
      }
    }
  }
  Reference solve() const {
    const auto& h = shape.heads;
    Reference result{Numbers(dout.size()), Numbers(static_cast<std::size_t>(h.heads * h.tokens)),
                     Numbers(qkv.size())};
    for (std::int64_t first = 0; first < h.tokens; first += h.sequence)
      for (std::int64_t query = 0; query < h.sequence; ++query)
        for (std::int64_t head = 0; head < h.heads; ++head)
          add_query(result, first, query, head);
    return result;
  }
};

Problem make_problem(const AttentionShape& shape, unsigned seed) {
  const auto& h = shape.heads;
  Problem problem{shape, {}, {}};
  problem.qkv = random_numbers(seed, static_cast<std::size_t>(h.tokens * h.row()), h.dtype);
  problem.dout =
      random_numbers(seed + 1, static_cast<std::size_t>(h.tokens * h.heads * h.values()), h.dtype);
  // Scores that differ: with small ones all probabilities are alike, and an error is hidden.
  for (std::size_t i = 0; i < problem.qkv.size(); ++i)
    if (static_cast<std::int64_t>(i) % h.row() < h.heads * h.head_dim) problem.qkv[i] *= 4;
  return problem;
}

void check_problem(const Problem& problem, unsigned seed) {
  AttentionShape shape = problem.shape;
  const Values<std::int32_t> ids{problem.ids};
  const Values<real::kernels::AdamStep> step{{{.number = Problem::step_number}}};
  shape.rules.dropout.step = step.data();
  if (!problem.ids.empty())
    shape.rules.tokens = {.ids = ids.data(),
                          .tokens = shape.heads.tokens,
                          .sequence = shape.heads.sequence,
                          .stride = shape.heads.sequence};
  const Reference expected = problem.solve();
  const auto& h = shape.heads;
  const Array qkv{h.dtype, problem.qkv}, dout{h.dtype, problem.dout};
  const Array output{h.dtype, problem.dout.size()}, gradient{h.dtype, problem.qkv.size()};
  const Array log_sums{DType::fp32, expected.log_sum_exp.size()};
  const Scratch scratch{real::kernels::attention_backward_workspace(shape)};
  real::kernels::attention_forward(shape, qkv.data(), output.data(), log_sums.floats(), nullptr);
  real::kernels::attention_backward(shape,
                                    {.qkv = qkv.data(),
                                     .output = output.data(),
                                     .log_sum_exp = log_sums.floats(),
                                     .gradient = dout.data(),
                                     .qkv_gradient = gradient.data()},
                                    scratch.workspace(), nullptr);
  CAPTURE(seed, h.tokens, h.sequence, h.heads, h.kv_heads, h.head_dim, shape.causal);
  CHECK(worst_error(log_sums.numbers(), expected.log_sum_exp) < 1e-5);
  CHECK(worst_error(output.numbers(), expected.output) < tolerance(h.dtype));
  CHECK(worst_error(gradient.numbers(), expected.gradient) < tolerance(h.dtype));
  // A forward pass that is repeated later keeps no sums.
  const Array again{h.dtype, problem.dout.size()};
  real::kernels::attention_forward(shape, qkv.data(), again.data(), nullptr, nullptr);
  CHECK(again.numbers() == output.numbers());
}

void check_attention(const AttentionShape& shape, unsigned seed) {
  check_problem(make_problem(shape, seed), seed);
}

}  // namespace

TEST_CASE("attention whose scores are all very small, in a sequence that ends inside a tile",
          "[gpu]") {
  const bool causal = GENERATE(true, false);
  Problem problem = make_problem({{DType::bf16, 2 * 40, 40, 1, 1, 64}, causal}, 13);
  // Products of -256: exp(-log-sum-exp) of a key that does not exist is infinite.
  for (std::size_t i = 0; i < problem.qkv.size(); ++i) {
    if (i % 192 < 64) problem.qkv[i] = -16;
    if (i % 192 / 64 == 1) problem.qkv[i] = 2;
  }
  check_problem(problem, 13);
}

TEST_CASE("attention and its gradient equal the matrices in double", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const bool causal = GENERATE(true, false);
  run_in_descending_order(causal);
  SECTION("a head of 64, sequences that end inside a tile") {
    check_attention({{dtype, 2 * 75, 75, 2, 2, 64}, causal}, 1);
  }
  SECTION("grouped queries, a head of 128, several tiles") {
    check_attention({{dtype, 200, 200, 2, 1, 128}, causal}, 2);
  }
  SECTION("heads narrower than their tile") {
    check_attention({{dtype, 130, 130, 2, 1, 16}, causal}, 3);
    check_attention({{dtype, 65, 65, 1, 1, 80}, causal}, 4);
  }
  SECTION("every width of a tile, sequences longer than a block's rows and divisible by nothing") {
    check_attention({{dtype, 2 * 139, 139, 2, 1, 32}, causal}, 8);
    check_attention({{dtype, 133, 133, 2, 1, 96}, causal}, 9);
    check_attention({{dtype, 165, 165, 1, 1, 112}, causal}, 10);
  }
  SECTION("statistics that begin at no vector, three heads that share their keys") {
    check_attention({{dtype, 3 * 33, 33, 3, 1, 64}, causal}, 11);
    check_attention({{dtype, 131, 131, 3, 1, 64}, causal}, 12);
  }
  SECTION("a sequence of one token, and whole tiles") {
    check_attention({{dtype, 3, 1, 1, 1, 32}, causal}, 5);
    check_attention({{dtype, 128, 128, 1, 1, 48}, causal}, 6);
  }
  run_in_descending_order(false);
}

TEST_CASE("attention of values of another size than queries, and of wide heads", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const bool causal = GENERATE(true, false);
  run_in_descending_order(causal);
  check_attention({{dtype, 2 * 37, 37, 2, 2, 192, {}, 128}, causal}, 14);
  check_attention({{dtype, 70, 70, 2, 1, 16, {}, 48}, causal}, 15);
  check_attention({{dtype, 35, 35, 1, 1, 256}, causal}, 17);
  run_in_descending_order(false);
}

TEST_CASE("attention sees the keys of its window", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const auto check = [&](const real::kernels::HeadsShape& heads, std::int64_t window) {
    check_attention({.heads = heads, .window = window}, 18);
  };
  check({dtype, 2 * 75, 75, 2, 1, 64}, 1);
  check({dtype, 300, 300, 1, 1, 32}, 70);  // whole tiles before the window, and behind a key's
  check({dtype, 300, 300, 1, 1, 128}, 33);
  check({dtype, 139, 139, 2, 1, 96}, 200);
  check({dtype, 70, 70, 2, 1, 16, {}, 48}, 20);
}

TEST_CASE("attention sees no padding, and drops the probabilities that the host drops", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const bool pads = GENERATE(true, false);
  AttentionShape shape{{dtype, 3 * 41, 41, 4, 2, 32}, !pads};
  shape.rules = {.padding = 0,
                 .dropout = {.probability = 0.25, .seed = 5, .site = 7},
                 .first_sequence = 2,
                 .first_head = 4,
                 .all_heads = 8};
  Problem problem = make_problem(shape, 16);
  if (pads) {
    problem.ids.assign(3 * 41, 9);
    std::fill(problem.ids.begin() + 1, problem.ids.begin() + 41, 0);        // one token is left
    std::fill(problem.ids.begin() + 41 + 33, problem.ids.begin() + 82, 0);  // of the second 33
    problem.ids[82 + 12] = 0;                                               // within the third
  }
  check_problem(problem, 16);
}

TEST_CASE("attention does not depend on the order of its warps", "[gpu]") {
  const AttentionShape shape{{DType::bf16, 140, 140, 2, 1, 64}, true};
  const Problem problem = make_problem(shape, 7);
  const Array qkv{DType::bf16, problem.qkv}, dout{DType::bf16, problem.dout};
  std::vector<Numbers> results;
  for (const bool descending : {false, true}) {
    run_in_descending_order(descending);
    const Array output{DType::bf16, problem.dout.size()}, gradient{DType::bf16, qkv.size()};
    const Array log_sums{DType::fp32, 280};
    const Scratch scratch{real::kernels::attention_backward_workspace(shape)};
    real::kernels::attention_forward(shape, qkv.data(), output.data(), log_sums.floats(), nullptr);
    real::kernels::attention_backward(
        shape, {qkv.data(), output.data(), log_sums.floats(), dout.data(), gradient.data()},
        scratch.workspace(), nullptr);
    results.push_back(output.numbers());
    results.push_back(gradient.numbers());
  }
  run_in_descending_order(false);
  CHECK(results[0] == results[2]);
  CHECK(results[1] == results[3]);
}

TEST_CASE("attention refuses shapes that it cannot do", "[gpu]") {
  const auto run = [](const AttentionShape& shape) {
    real::kernels::attention_forward(shape, nullptr, nullptr, nullptr, nullptr);
  };
  CHECK_THROWS_WITH(run({{DType::bf16, 8, 8, 1, 1, 72}, true}),
                    "attention_forward: a head of 72 elements is no multiple of 16 up to 256");
  CHECK_THROWS_WITH(run({{DType::bf16, 8, 8, 3, 2, 64}, true}),
                    "attention_forward: 3 heads do not share 2 key/value heads");
  CHECK_THROWS_WITH(run({{DType::bf16, 8, 3, 1, 1, 64}, true}),
                    "attention_forward: 8 tokens in sequences of 3");
}
