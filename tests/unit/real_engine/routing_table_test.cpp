// Where tokens go that choose their experts by scores.
#include "real/engine/kernels/routing_table.hpp"

#include "tests/catch.hpp"

namespace real::test {
namespace {

using Counts = std::vector<std::int64_t>;

Counts list(std::span<const std::int64_t> of) {
  return {of.begin(), of.end()};
}

// A choice of 2 of 4 experts by each of 4 tokens.
RoutingTable chosen(const RoutingShape& shape) {
  RoutingTable table{shape};
  const std::vector<std::vector<std::int32_t>> experts{{0, 1}, {0, 2}, {1, 0}, {0, 3}};
  for (std::int64_t token = 0; token < 4; ++token)
    std::copy_n(experts[static_cast<std::size_t>(token)].begin(), 2,
                table.experts_of(token).begin());
  return table;
}

constexpr RoutingShape plain{.tokens = 4, .per_token = 2, .experts = 4};
const std::vector<float> weights{0.6F, 0.4F, 0.9F, 0.1F, 0.7F, 0.3F, 0.8F, 0.2F};

}  // namespace

TEST_CASE("copies lie by expert, then by token", "[routing]") {
  RoutingTable table = chosen(plain);
  table.place(weights);
  CHECK(list(table.chosen()) == Counts{4, 2, 1, 1});
  CHECK(table.rows_sent() == 8);
  CHECK(table.row_of(0, 0) == 0);
  CHECK(table.row_of(2, 1) == 2);
  CHECK(table.row_of(0, 1) == 4);
  CHECK(table.row_of(3, 1) == 7);
  CHECK(list(table.rows_of_experts()) == Counts{4, 2, 1, 1});
  for (std::int64_t row = 0; row < 8; ++row)
    CHECK(table.came_at(row) == row);
}

TEST_CASE("beyond its capacity an expert drops the choices with the smallest weights",
          "[routing]") {
  RoutingShape shape = plain;
  shape.capacity = 2;
  RoutingTable table = chosen(shape);
  table.place(weights);
  CHECK(list(table.sent()) == Counts{2, 2, 1, 1});
  CHECK(table.row_of(0, 0) == RoutingTable::dropped);  // 0.6 of expert 0, which keeps 0.9 and 0.8
  CHECK(table.row_of(2, 1) == RoutingTable::dropped);  // 0.3
  CHECK(table.row_of(1, 0) == 0);
  CHECK(table.row_of(3, 0) == 1);
  shape.padded = true;
  RoutingTable padded = chosen(shape);
  padded.place(weights);
  CHECK(list(padded.sent()) == Counts{2, 2, 2, 2});
  CHECK(padded.row_of(1, 1) == 4);
  CHECK(padded.rows_sent() == 8);
}

TEST_CASE("what came is ordered by expert, then by who sent it", "[routing]") {
  RoutingShape shape = plain;
  shape.parts = 2;
  shape.shares = 2;
  RoutingTable table{shape};  // of two ranks with two experts each, whose features two ranks share
  const std::vector<Counts> came{{1, 2}, {0, 1}, {2, 0}, {1, 1}};
  for (std::int64_t share = 0; share < 2; ++share)
    for (std::int64_t part = 0; part < 2; ++part)
      std::copy_n(came[static_cast<std::size_t>(2 * share + part)].begin(), 2,
                  table.came(share, part).begin());
  table.arrive();
  CHECK(list(table.rows_of_experts()) == Counts{4, 4});
  CHECK(table.rows_came(0) == 4);
  CHECK(table.rows_came(1, 1) == 2);
  Counts order;
  for (std::int64_t row = 0; row < table.rows_arrived(); ++row)
    order.push_back(table.came_at(row));
  CHECK(order == Counts{0, 4, 5, 6, 1, 2, 3, 7});
}

}  // namespace real::test
