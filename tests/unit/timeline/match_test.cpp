// Operators of two records matched by what and which they are.
#include "sim/timeline/match.hpp"

#include "tests/catch.hpp"

namespace {

using namespace sim;
using namespace std::chrono_literals;

Program program_of(const std::vector<std::string>& names) {
  Program program;
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    program.kind.push_back(OpKind::gemm);
    program.stream.push_back(Stream::compute);
    program.pass.push_back(Pass::forward);
    program.work.push_back(0);
    program.label.push_back({.name = i, .layer = 0, .chunk = 0, .microbatch = 0});
    program.names.push_back(names[i]);
  }
  return program;
}

// One rank; operator i takes i + 1 us.
Record record_of(const std::vector<std::string>& names, std::uint32_t represents = 1) {
  Record record;
  record.programs.push_back(program_of(names));
  RecordedTrack track;
  track.represents = represents;
  TimePoint now{};
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    const TimePoint end = now + (i + 1) * 1us;
    track.spans.push_back({OpId{i}, now, now, end});
    now = end;
  }
  record.end = now;
  record.tracks.push_back(std::move(track));
  return record;
}

TEST_CASE("the k-th operator of a name is the k-th of that name", "[record]") {
  const RecordMatch match =
      match_operators(record_of({"up", "norm", "up"}), record_of({"norm", "up", "gate", "up"}, 3));
  REQUIRE(match.tracks.size() == 1);
  CHECK(match.tracks[0].in_a == std::vector<std::uint32_t>{1, 0, no_operator, 2});
  CHECK(match.tracks[0].in_b == std::vector<std::uint32_t>{1, 0, 3});
  // 1 + 2 + 4 of 1 + 2 + 3 + 4 us.
  CHECK_THAT(match.share(), WithinRel(0.7, 1e-12));
  CHECK_THAT(match.measured, WithinRel(30e-6, 1e-12));
  CHECK(match.operators == 12);
  CHECK(match.matched_operators == 9);
}

TEST_CASE(
    "a rank that only one record has is matched with one of its stage, or counts as unmatched",
    "[record]") {
  const Record a = record_of({"up"});
  Record b = record_of({"up"});
  b.tracks[0].rank = {5};
  CHECK(match_operators(a, b).share() == 1);
  b.tracks[0].at.pipeline = 1;
  const RecordMatch match = match_operators(a, b);
  CHECK(match.tracks.empty());
  CHECK(match.share() == 0);
  CHECK(match.measured > 0);
}

}  // namespace
