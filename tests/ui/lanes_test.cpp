#include <algorithm>
#include <random>

#include "sim/forecast/forecast.hpp"
#include "sim/forecast/shown_ranks.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "ui/lanes/area_sums.hpp"
#include "ui/lanes/columns.hpp"

namespace ui {
namespace {

// Spans of random length and class, some touching, some apart.
Strip random_strip(std::mt19937& random, std::int64_t length) {
  Strip strip;
  std::int64_t time = 0;
  const auto up_to = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>{0, most}(random);
  };
  while (true) {
    time += up_to(3) == 0 ? up_to(40) : 0;
    const std::int64_t end = time + 1 + up_to(25);
    if (end > length) break;
    strip.arrive.push_back(time);
    strip.begin.push_back(time);
    strip.end.push_back(end);
    strip.ink.push_back(static_cast<std::uint8_t>(up_to(sim::ink_count - 1)));
    strip.op.push_back(static_cast<std::uint32_t>(strip.op.size()));
    time = end;
  }
  strip.sum_blocks();
  return strip;
}

InkTimes counted(const Strip& strip, std::int64_t from, std::int64_t to) {
  InkTimes times{};
  for (std::int64_t time = from; time < to; ++time)
    for (std::size_t i = 0; i < strip.size(); ++i)
      if (strip.begin[i] <= time && time < strip.end[i]) ++times[strip.ink[i]];
  return times;
}

struct Made {
  sim::Scenario scenario;
  sim::Forecast forecast;
  Lanes lanes;
};

Made made(const std::string& file) {
  sim::Scenario scenario = sim::load_scenario(sim::test::source_dir() + "/scenarios/" + file);
  sim::Forecast forecast = sim::forecast(scenario);
  Lanes lanes = make_lanes(*forecast.plan, forecast.timeline,
                           sim::one_rank_per_stage(scenario, *forecast.plan, forecast.timeline));
  return {std::move(scenario), std::move(forecast), std::move(lanes)};
}

}  // namespace

TEST_CASE("Time by class over any part of a strip is what counting every instant gives") {
  std::mt19937 random{7};
  for (int trial = 0; trial < 60; ++trial) {
    const Strip strip = random_strip(random, 900);
    std::uniform_int_distribution<std::int64_t> at{0, 950};
    for (int i = 0; i < 8; ++i) {
      std::int64_t from = at(random);
      std::int64_t to = at(random);
      if (from > to) std::swap(from, to);
      REQUIRE(ink_times(strip, from, to) == counted(strip, from, to));
    }
  }
}

TEST_CASE("A column shows the class that takes most of it, if half of it is taken") {
  std::mt19937 random{11};
  const Strip strip = random_strip(random, 2000);
  const Strip* const strips[] = {&strip};
  const TimeWindow window{130, 1790};
  const int width = 83;
  const std::vector<std::uint8_t> columns = ink_columns(strips, window, width);
  for (int x = 0; x < width; ++x) {
    const std::int64_t from = column_edge(window, width, x);
    const std::int64_t to = column_edge(window, width, x + 1);
    const InkTimes times = counted(strip, from, to);
    std::int64_t all = 0;
    for (const std::int64_t time : times)
      all += time;
    const auto most = std::max_element(times.begin(), times.end()) - times.begin();
    CHECK(columns[static_cast<std::size_t>(x)] == (2 * all >= to - from ? most : column_empty));
  }
}

TEST_CASE("Only empty columns become bubbles") {
  std::vector<std::uint8_t> columns(10, column_empty);
  columns[3] = 0;
  mark_bubbles(columns, {{20, 58}}, {0, 100});
  CHECK(columns == std::vector<std::uint8_t>{column_empty, column_empty, column_bubble, 0,
                                             column_bubble, column_bubble, column_empty,
                                             column_empty, column_empty, column_empty});
}

TEST_CASE("Lanes lose no span, and their sums are those of the timeline") {
  const Made step = made("gpt2-124m-8-h100.yaml");
  std::size_t spans = 0;
  std::int64_t time = 0;
  for (const LaneGroup& group : step.lanes.groups)
    for (const sim::Span& span : step.forecast.timeline.tracks[group.track].spans) {
      ++spans;
      time += (span.end - span.active).count();
    }
  CHECK(step.lanes.spans == spans);
  std::int64_t summed = 0;
  std::uint64_t count = 0;
  for (const NameSum& sum : area_sums(*step.forecast.plan, step.lanes, 0, step.lanes.end).names) {
    summed += sum.time;
    count += sum.count;
  }
  CHECK(summed == time);
  CHECK(count == spans);
}

TEST_CASE("Bubbles of a pipeline sum to those of the breakdown") {
  const Made step = made("gpt3-175b-1024-a100.yaml");
  REQUIRE(step.lanes.groups.size() > 1);
  for (const LaneGroup& group : step.lanes.groups) {
    const sim::RankTrack& track = step.forecast.timeline.tracks[group.track];
    const sim::Breakdown parts = sim::break_down(track, step.forecast.plan->program(track.rank),
                                                 step.forecast.timeline.end, true);
    std::int64_t idle = 0;
    for (const Idle& bubble : group.bubbles)
      idle += bubble.end - bubble.begin;
    CHECK(idle == parts.bubble.count());
  }
}

}  // namespace ui
