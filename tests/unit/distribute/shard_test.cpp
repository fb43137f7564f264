// Parts of the work: each unit belongs to exactly one.
#include "sim/distribute/shard.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "tests/catch.hpp"

using namespace sim;

TEST_CASE("each unit belongs to one part, and parts are equally large", "[distribute]") {
  for (const std::uint32_t count : {1U, 2U, 3U, 5U, 8U}) {
    std::vector<int> sizes(count, 0);
    for (std::uint64_t unit = 0; unit < 100 * count; ++unit) {
      int owners = 0;
      for (std::uint32_t i = 0; i < count; ++i)
        if (Shard{i, count}.owns(unit)) {
          ++owners;
          ++sizes[i];
        }
      REQUIRE(owners == 1);
    }
    CHECK(sizes == std::vector<int>(count, 100));
  }
}

TEST_CASE("units at equal distances do not all fall into one part", "[distribute]") {
  // Layouts that differ in one thing alone lie at equal distances.
  int even = 0;
  for (std::uint64_t unit = 0; unit < 2000; unit += 2)
    even += Shard{0, 2}.owns(unit) ? 1 : 0;
  CHECK(even > 400);
  CHECK(even < 600);
}

TEST_CASE("a part is written i/n, counted from 0", "[distribute]") {
  CHECK(parse_shard("0/1") == Shard{0, 1});
  CHECK(parse_shard("7/8") == Shard{7, 8});
  CHECK(to_text(parse_shard("7/8")) == "7/8");
  REQUIRE_THROWS_WITH(parse_shard("8/8"),
                      "'8/8': the parts of 8 are 0/8 to 7/8 (for Slurm: --array=0-7)");
  for (const char* wrong :
       {"", "/", "1", "1/", "/2", "-1/2", "1/0", "a/b", "1/2/3", "1 /2", "+1/2", "0/99999999999"})
    CHECK_THROWS_AS(parse_shard(wrong), std::invalid_argument);
  CHECK(shard_path("r.jsonl", {}) == "r.jsonl");
  CHECK(shard_path("r.jsonl", {2, 8}) == "r.jsonl.2-of-8");
}
