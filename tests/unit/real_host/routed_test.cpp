// Choices by the scores of a router: their gradients against finite differences, groups, drops.
#include <cmath>
#include <vector>

#include "real/host/kernels/kernels_routed.hpp"
#include "sim/base/random.hpp"
#include "tests/catch.hpp"

namespace real::test {
namespace {

const kernels::RoutedTable& routed() {
  return host::host_routed();
}

struct Choice {
  std::vector<float> kept, weights;
};
Choice choose(RoutingTable& table, RouterScore score, const std::vector<float>& scores) {
  Choice made{std::vector<float>(scores.size()), std::vector<float>(64, 0.0F)};
  routed().choose(table, score, scores.data(), made.kept.data(), made.weights.data());
  return made;
}

// A sum of the weights, each times a number of its row.
double sum_of(const RoutingTable& table, const std::vector<float>& weights) {
  double sum = 0;
  for (std::int64_t row = 0; row < table.rows_sent(); ++row)
    sum += weights[static_cast<std::size_t>(row)] * std::cos(static_cast<double>(row));
  return sum;
}

std::vector<float> scores_of(const RoutingShape& shape) {
  std::vector<float> scores;
  for (std::int64_t i = 0; i < shape.tokens * shape.experts; ++i)
    scores.push_back(static_cast<float>(sim::standard_normal(7, 0, static_cast<std::uint64_t>(i))));
  return scores;
}

}  // namespace

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
      RoutingTable table{shape};
      const std::vector<float> scores = scores_of(shape);
      const Choice made = choose(table, score, scores);
      std::vector<float> of_weights;
      for (std::int64_t row = 0; row < table.rows_sent(); ++row)
        of_weights.push_back(static_cast<float>(std::cos(static_cast<double>(row))));
      std::vector<float> gradient(scores.size());
      routed().choose_backward(table, score, made.kept.data(), of_weights.data(), gradient.data());
      for (std::size_t i = 0; i < scores.size(); ++i) {
        constexpr float h = 1e-3F;
        const auto at = [&](float shift) {
          std::vector<float> moved = scores;
          moved[i] += shift;
          RoutingTable other{shape};
          return sum_of(other, choose(other, score, moved).weights);
        };
        const double slope = (at(h) - at(-h)) / (2 * h);
        CAPTURE(i);
        CHECK_THAT(gradient[i], WithinAbs(slope, 2e-3));
      }
    }
}

TEST_CASE("a token chooses its best experts, of the best groups", "[experts]") {
  RoutingTable all{{.tokens = 1, .per_token = 2, .experts = 4}};
  choose(all, RouterScore::softmax, {0.1F, 3, 2, 3});
  CHECK(all.experts_of(0)[0] == 1);  // of equal ones the first
  CHECK(all.experts_of(0)[1] == 3);
  RoutingTable grouped{
      {.tokens = 1, .per_token = 2, .experts = 4, .groups = 2, .groups_per_token = 1}};
  const Choice made = choose(grouped, RouterScore::softmax, {5, 0, 4, 3});
  CHECK(grouped.experts_of(0)[0] == 2);  // 4 + 3 is more than 5 + 0
  CHECK(grouped.experts_of(0)[1] == 3);
  CHECK_THAT(made.weights[0] + made.weights[1], WithinAbs(1, 1e-6));
}

TEST_CASE("copies go out and come back summed, without those that are dropped", "[experts]") {
  const RoutingShape shape{
      .tokens = 6, .per_token = 2, .experts = 4, .capacity = 4, .padded = true};
  RoutingTable table{shape};
  choose(table, RouterScore::softmax, scores_of(shape));
  std::vector<float> tokens(12), copies(32, 9.0F), sums(12);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<float>(i) + 1;
  routed().copy_tokens(table, 2, tokens.data(), copies.data());
  routed().sum_copies(table, 2, copies.data(), sums.data());
  float rows = 0;
  for (std::int64_t token = 0; token < 6; ++token) {
    int kept = 0;
    for (std::int64_t choice = 0; choice < 2; ++choice)
      if (table.row_of(token, choice) != RoutingTable::dropped) ++kept;
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
