#include "sim/forecast/shown_ranks.hpp"

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"

using namespace sim;

TEST_CASE("ranks are listed one by one and in ranges", "[shown_ranks]") {
  const std::vector<RankId> ranks = parse_ranks("0,8,64-66", 128, "--trace-ranks");
  CHECK(ranks == std::vector<RankId>{RankId{0}, RankId{8}, RankId{64}, RankId{65}, RankId{66}});
  CHECK(parse_ranks("7", 8, "") == std::vector<RankId>{RankId{7}});
}

TEST_CASE("a trace of any rank needs a simulation of every rank", "[shown_ranks]") {
  const auto parsed = [](const std::string& text) { return parse_trace_ranks(text, 8, "here"); };
  CHECK_FALSE(parsed("stages").any_rank());
  CHECK_FALSE(parsed("representatives").any_rank());
  CHECK(parsed("all").any_rank());
  CHECK(parsed("all").listed.empty());
  CHECK(parsed("1-2").any_rank());
  CHECK(parsed("1-2").listed == std::vector<RankId>{RankId{1}, RankId{2}});
  CHECK_THROWS_WITH(parsed("8"), "here: error: '8' is no rank of 0 to 7");
}

TEST_CASE("what is no rank is refused where it was written", "[shown_ranks]") {
  for (const char* text : {"8", "", "1,", "a", "1-", "3-2", "-1", "1,,2", "0-99999999999"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_ranks(text, 8, "--trace-ranks"), InputError);
  }
}
