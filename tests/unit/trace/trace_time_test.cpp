// Times of traces, exact beyond what a double holds.
#include "sim/trace/trace_event.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {
TraceTime time_of(std::string_view number) {
  const std::optional<TraceTime> time = trace_time(number);
  REQUIRE(time.has_value());
  return *time;
}
}  // namespace

TEST_CASE("a time of a trace is exact to the picosecond", "[trace]") {
  CHECK(time_of("1790857026123456.789") == TraceTime{1790857026123456, 789000});
  CHECK(time_of("0.000001") == TraceTime{0, 1});
  CHECK(time_of("0.0000005") == TraceTime{0, 1});
  CHECK(time_of("1.9999999") == TraceTime{2, 0});
  CHECK(time_of("12") == TraceTime{12, 0});
  CHECK(time_of("-0.25") == TraceTime{-1, 750000});
  CHECK(time_of("-3") == TraceTime{-3, 0});
  CHECK(time_of("1.5e3") == TraceTime{1500, 0});
}

TEST_CASE("a time that no clock has is none", "[trace]") {
  CHECK_FALSE(trace_time("1e19").has_value());
  CHECK_FALSE(trace_time("99999999999999999999").has_value());
}

TEST_CASE("ranks of a group, written as text", "[trace]") {
  CHECK(ranks_in("[0, 1, 12]") == std::vector<std::int64_t>{0, 1, 12});
  CHECK(ranks_in("[0, 1, ..., 12]").empty());
  CHECK(ranks_in("").empty());
}
