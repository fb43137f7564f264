// Choices by the scores of a router: who goes where, gradients against finite differences, groups,
// drops.
#include <cmath>
#include <vector>

#include "real/engine/kernels/routing_table.hpp"
#include "real/host/kernels/kernels_routed.hpp"
#include "sim/base/random.hpp"
#include "tests/catch.hpp"

namespace real::test {
namespace {

using kernels::RoutedTokens;
using Counts = std::vector<std::int32_t>;

// A table in memory of its own, and what a choice makes.
class Choice {
 public:
  explicit Choice(const RoutingShape& shape)
      : table_{shape, 64, 64},
        memory_(static_cast<std::size_t>(table_.counts_bytes() + table_.rest_bytes()) / 4) {
    auto* at = reinterpret_cast<std::byte*>(memory_.data());
    table_.lie_at(at, at + table_.counts_bytes(), at);
  }
  Choice(const RoutingShape& shape, RouterScore score, const std::vector<float>& scores)
      : Choice{shape} {
    kept.resize(scores.size());
    host::choose_by_scores(table_.tokens(), {.score = score}, scores.data(), kept.data(),
                           weights.data(), nullptr);
    host::order_arrived(table_.tokens(), nullptr);
  }
  const RoutingTable& table() const { return table_; }
  const RoutedTokens& tokens() const { return table_.tokens(); }
  int expert(std::int64_t token, std::int64_t choice) const {
    return tokens().experts[token * tokens().shape.per_token + choice];
  }
  int row(std::int64_t token, std::int64_t choice) const {
    return tokens().rows[token * tokens().shape.per_token + choice];
  }
  Counts order() const { return {tokens().order, tokens().order + *tokens().arrived}; }

  std::vector<float> kept, weights = std::vector<float>(64, 9.0F);

 private:
  RoutingTable table_;
  std::vector<std::int32_t> memory_;
};

// A sum of the weights, each times a number of its row.
double sum_of(const Choice& choice) {
  double sum = 0;
  for (std::int64_t row = 0; row < choice.table().rows_sent(); ++row)
    sum += choice.weights[static_cast<std::size_t>(row)] * std::cos(static_cast<double>(row));
  return sum;
}

std::vector<float> scores_of(const RoutingShape& shape) {
  std::vector<float> scores;
  for (std::int64_t i = 0; i < shape.tokens * shape.experts; ++i)
    scores.push_back(static_cast<float>(sim::standard_normal(7, 0, static_cast<std::uint64_t>(i))));
  return scores;
}

Counts list(RoutingTable::Counts of) {
  return {of.begin(), of.end()};
}
Counts rows_of_experts(const RoutingTable& table) {
  Counts rows;
  for (std::int64_t expert = 0; expert < table.shape().held(); ++expert)
    rows.push_back(static_cast<std::int32_t>(table.rows_of(expert)));
  return rows;
}

// Four tokens that choose two of four experts each, with these weights.
constexpr RoutingShape plain{.tokens = 4, .per_token = 2, .experts = 4};
const std::vector<float>& some_scores() {
  static const std::vector<float> scores = [] {
    const float far = -50;
    const auto of = [](double weight) { return static_cast<float>(std::log(weight)); };
    return std::vector<float>{of(0.6), of(0.4), far, far, of(0.9), far, of(0.1), far,
                              of(0.3), of(0.7), far, far, of(0.8), far, far,     of(0.2)};
  }();
  return scores;
}

}  // namespace

TEST_CASE("copies lie by expert, then by token", "[routing]") {
  const Choice choice{plain, RouterScore::softmax, some_scores()};
  const RoutingTable& table = choice.table();
  CHECK(list(table.chosen()) == Counts{4, 2, 1, 1});
  CHECK(table.rows_sent() == 8);
  CHECK(choice.row(0, 0) == 0);
  CHECK(choice.row(2, 1) == 2);
  CHECK(choice.row(0, 1) == 4);
  CHECK(choice.row(3, 1) == 7);
  CHECK(rows_of_experts(table) == Counts{4, 2, 1, 1});
  CHECK(choice.order() == Counts{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("beyond its capacity an expert drops the choices with the smallest weights",
          "[routing]") {
  RoutingShape shape = plain;
  shape.capacity = 2;
  const Choice choice{shape, RouterScore::softmax, some_scores()};
  CHECK(list(choice.table().sent()) == Counts{2, 2, 1, 1});
  CHECK(choice.row(0, 0) == RoutedTokens::dropped);  // 0.6 of expert 0, which keeps 0.9 and 0.8
  CHECK(choice.row(2, 1) == RoutedTokens::dropped);  // 0.3
  CHECK(choice.row(1, 0) == 0);
  CHECK(choice.row(3, 0) == 1);
  shape.padded = true;
  const Choice padded{shape, RouterScore::softmax, some_scores()};
  CHECK(list(padded.table().sent()) == Counts{2, 2, 2, 2});
  CHECK(padded.row(1, 1) == 4);
  CHECK(padded.table().rows_sent() == 8);
  CHECK(list(padded.table().chosen()) == Counts{4, 2, 1, 1});
}

TEST_CASE("what came is ordered by expert, then by who sent it", "[routing]") {
  RoutingShape shape = plain;
  shape.parts = 2;
  shape.shares = 2;
  Choice choice{shape};  // of two ranks with two experts each, whose features two ranks share
  const RoutingTable& table = choice.table();
  const Counts came{1, 2, 0, 1, 2, 0, 1, 1};  // by share, part, expert
  std::copy(came.begin(), came.end(), table.tokens().came);
  host::order_arrived(table.tokens(), nullptr);
  CHECK(rows_of_experts(table) == Counts{4, 4});
  CHECK(table.rows_came(0) == 4);
  CHECK(table.rows_came(1, 1) == 2);
  CHECK(choice.order() == Counts{0, 4, 5, 6, 1, 2, 3, 7});
}

TEST_CASE("gradients of a router's scores are slopes of its weights", "[experts]") {
  for (const RouterScore score : {RouterScore::softmax, RouterScore::sigmoid})
    for (const RoutingShape& shape :
         {RoutingShape{.tokens = 5, .per_token = 1, .experts = 4},
          RoutingShape{.tokens = 5, .per_token = 2, .experts = 4},
          RoutingShape{
              .tokens = 6, .per_token = 2, .experts = 8, .groups = 4, .groups_per_token = 2},
          RoutingShape{.tokens = 6, .per_token = 2, .experts = 4, .capacity = 2},
          RoutingShape{.tokens = 6, .per_token = 2, .experts = 4, .capacity = 4, .padded = true}}) {
      CAPTURE(static_cast<int>(score), shape.per_token, shape.groups, shape.capacity);
      const std::vector<float> scores = scores_of(shape);
      const Choice made{shape, score, scores};
      std::vector<float> of_weights;
      for (std::int64_t row = 0; row < made.table().rows_sent(); ++row)
        of_weights.push_back(static_cast<float>(std::cos(static_cast<double>(row))));
      std::vector<float> gradient(scores.size());
      host::choose_by_scores_backward(made.tokens(), {.score = score}, made.kept.data(),
                                      of_weights.data(), gradient.data(), nullptr);
      for (std::size_t i = 0; i < scores.size(); ++i) {
        constexpr float h = 1e-3F;
        const auto at = [&](float shift) {
          std::vector<float> moved = scores;
          moved[i] += shift;
          return sum_of(Choice{shape, score, moved});
        };
        const double slope = (at(h) - at(-h)) / (2 * h);
        CAPTURE(i);
        CHECK_THAT(gradient[i], WithinAbs(slope, 2e-3));
      }
    }
}

TEST_CASE("a token chooses its best experts, of the best groups", "[experts]") {
  const Choice all{
      {.tokens = 1, .per_token = 2, .experts = 4}, RouterScore::softmax, {0.1F, 3, 2, 3}};
  CHECK(all.expert(0, 0) == 1);  // of equal ones the first
  CHECK(all.expert(0, 1) == 3);
  const Choice grouped{
      {.tokens = 1, .per_token = 2, .experts = 4, .groups = 2, .groups_per_token = 1},
      RouterScore::softmax,
      {5, 0, 4, 3}};
  CHECK(grouped.expert(0, 0) == 2);  // 4 + 3 is more than 5 + 0
  CHECK(grouped.expert(0, 1) == 3);
  CHECK_THAT(grouped.weights[0] + grouped.weights[1], WithinAbs(1, 1e-6));
}

TEST_CASE("copies go out and come back summed, without those that are dropped", "[experts]") {
  const RoutingShape shape{
      .tokens = 6, .per_token = 2, .experts = 4, .capacity = 4, .padded = true};
  const Choice choice{shape, RouterScore::softmax, scores_of(shape)};
  std::vector<float> tokens(12), copies(32, 9.0F), sums(12);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<float>(i) + 1;
  const kernels::RoutedRows two{.width = 2};
  host::copy_routed(choice.tokens(), two, tokens.data(), copies.data(), nullptr);
  host::sum_routed(choice.tokens(), two, copies.data(), sums.data(), nullptr);
  float rows = 0;
  for (std::int64_t token = 0; token < 6; ++token) {
    int kept = 0;
    for (std::int64_t of = 0; of < 2; ++of)
      if (choice.row(token, of) != RoutedTokens::dropped) ++kept;
    CHECK(sums[static_cast<std::size_t>(2 * token)] ==
          static_cast<float>(kept) * tokens[static_cast<std::size_t>(2 * token)]);
    rows += static_cast<float>(kept) * tokens[static_cast<std::size_t>(2 * token)];
  }
  float all = 0;  // rows that pad are zeros
  for (std::size_t i = 0; i < copies.size(); i += 2)
    all += copies[i];
  CHECK(all == rows);
}

}  // namespace real::test
