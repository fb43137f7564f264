#include "sim/schedule/schedule.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/schedule/placement.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

Layout layout_of(Schedule schedule, int stages, int chunks, int micro_batches) {
  Layout layout = test::layout_for(1, 1, stages, micro_batches);
  layout.schedule = schedule;
  layout.virtual_stages = chunks;
  return layout;
}

struct Durations {
  int forward = 1, backward = 2, weight = 0;
};

// Runs the schedules of all stages with free transfers; returns the length of the step.
int makespan(const Layout& layout, const Durations& durations) {
  const std::vector<std::vector<Slot>> slots = schedule_of(layout);
  const Placement placement{layout};
  std::map<std::tuple<SlotKind, int, int>, int> ends;  // (kind, global chunk, micro-batch)
  std::vector<std::size_t> next(slots.size());
  std::vector<int> clock(slots.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t stage = 0; stage < slots.size(); ++stage) {
      while (next[stage] < slots[stage].size()) {
        const Slot& slot = slots[stage][next[stage]];
        const int chunk = placement.chunk_of(static_cast<int>(stage), slot.chunk);
        int ready = 0;
        int duration = durations.weight;
        bool first = slot.kind == SlotKind::weight_backward;
        auto before = std::make_tuple(SlotKind::backward, chunk, slot.microbatch);
        if (slot.kind == SlotKind::forward) {
          first = chunk == 0;
          before = {SlotKind::forward, chunk - 1, slot.microbatch};
          duration = durations.forward;
        } else if (slot.kind == SlotKind::backward) {
          const bool last = chunk + 1 == layout.chunks();
          before = last ? std::make_tuple(SlotKind::forward, chunk, slot.microbatch)
                        : std::make_tuple(SlotKind::backward, chunk + 1, slot.microbatch);
          duration = durations.backward;
        }
        if (!first) {
          const auto found = ends.find(before);
          if (found == ends.end()) break;
          ready = found->second;
        }
        clock[stage] = std::max(clock[stage], ready) + duration;
        ends[{slot.kind, chunk, slot.microbatch}] = clock[stage];
        ++next[stage];
        moved = true;
      }
    }
  }
  for (std::size_t stage = 0; stage < slots.size(); ++stage) {
    REQUIRE(next[stage] == slots[stage].size());  // else the schedules wait in a circle
  }
  return *std::max_element(clock.begin(), clock.end());
}

// Most forward passes begun and not yet undone.
int most_alive(const std::vector<Slot>& slots) {
  int alive = 0;
  int most = 0;
  for (const Slot& slot : slots) {
    if (slot.kind == SlotKind::forward) most = std::max(most, ++alive);
    if (slot.kind == SlotKind::backward) --alive;
  }
  return most;
}

}  // namespace

TEST_CASE("GPipe and 1F1B idle for (P-1)/m of the ideal time", "[plan][schedule]") {
  // Narayanan et al. 2021, section 2.2.1: bubble (P-1)(tf+tb) over ideal m (tf+tb).
  const auto schedule = GENERATE(Schedule::gpipe, Schedule::one_f_one_b);
  const int stages = GENERATE(1, 2, 4, 7);
  const int micro_batches = GENERATE(1, 4, 32);
  CAPTURE(stages, micro_batches);
  const int step = makespan(layout_of(schedule, stages, 1, micro_batches), {1, 2, 0});
  CHECK(step == 3 * (micro_batches + stages - 1));
}

TEST_CASE("Interleaving divides the bubble by the chunks per rank", "[plan][schedule]") {
  // Narayanan et al. 2021, section 2.2.2: bubble (P-1)(tf+tb)/v; here a chunk takes 1 + 2.
  const int stages = GENERATE(2, 4, 5);
  const int chunks = GENERATE(1, 2, 3);
  const int rounds = GENERATE(1, 2, 4);
  CAPTURE(stages, chunks, rounds);
  const int micro_batches = rounds * stages;
  const int step =
      makespan(layout_of(Schedule::interleaved, stages, chunks, micro_batches), {1, 2, 0});
  CHECK(step == 3 * (micro_batches * chunks + stages - 1));
}

TEST_CASE("ZB-H1 leaves a third of the bubble of 1F1B", "[plan][schedule]") {
  // Qi et al. 2023, table 1: (P-1)(TF+TB-TW); with TF = TB = TW = 1 the step is 3 m + P - 1.
  const int stages = GENERATE(2, 4, 8);
  const int micro_batches = GENERATE(8, 24);
  CAPTURE(stages, micro_batches);
  CHECK(makespan(layout_of(Schedule::zb_h1, stages, 1, micro_batches), {1, 1, 1}) ==
        3 * micro_batches + stages - 1);
}

TEST_CASE("In chunks ZB-H1 leaves a share of its bubble for each", "[plan][schedule]") {
  // With TF = TB = TW = 1 per chunk: 3 m v + P - 1.
  const int stages = GENERATE(2, 4, 8);
  const int chunks = GENERATE(2, 3);
  CAPTURE(stages, chunks);
  const int micro_batches = 3 * stages;
  CHECK(makespan(layout_of(Schedule::interleaved_zb, stages, chunks, micro_batches), {1, 1, 1}) ==
        3 * micro_batches * chunks + stages - 1);
}

TEST_CASE("Every run of a step has a bubble of its own", "[plan][schedule]") {
  struct Kind {
    Schedule schedule;
    int chunks;
  };
  const auto kind = GENERATE(Kind{Schedule::gpipe, 1}, Kind{Schedule::one_f_one_b, 1},
                             Kind{Schedule::interleaved, 2}, Kind{Schedule::zb_h1, 1},
                             Kind{Schedule::interleaved_zb, 2}, Kind{Schedule::dual_pipe_v, 2},
                             Kind{Schedule::v_half, 2}, Kind{Schedule::v_min, 2});
  const int stages = GENERATE(2, 4);
  const int runs = GENERATE(1, 2, 5);
  const int each = 2 * stages;
  CAPTURE(static_cast<int>(kind.schedule), stages, runs);
  Layout step = layout_of(kind.schedule, stages, kind.chunks, runs * each);
  step.pipeline_runs = runs;
  const Layout run = layout_of(kind.schedule, stages, kind.chunks, each);
  const Durations durations{1, 1, splits_backward(kind.schedule) ? 1 : 0};
  CHECK(makespan(step, durations) == runs * makespan(run, durations));
  // In flight are the micro-batches of one run, and each of the step goes through every chunk once.
  const std::vector<std::vector<Slot>> orders = schedule_of(step), orders_of_run = schedule_of(run);
  for (std::size_t rank = 0; rank < orders.size(); ++rank) {
    CHECK(most_alive(orders[rank]) == most_alive(orders_of_run[rank]));
    std::map<std::tuple<SlotKind, int, int>, int> times;
    for (const Slot& slot : orders[rank])
      ++times[{slot.kind, slot.chunk, slot.microbatch}];
    CHECK(times.size() == orders[rank].size());
    CHECK(orders[rank].size() == static_cast<std::size_t>(runs) * orders_of_run[rank].size());
  }
}

TEST_CASE("Runs of zb-v leave one late start", "[plan][schedule]") {
  // No rank idles between its passes, and each begins a run when it ends the one before.
  const int stages = GENERATE(2, 4, 7);
  const int each = 3 * stages;
  Layout step = layout_of(Schedule::zb_v, stages, 2, 3 * each);
  step.pipeline_runs = 3;
  CHECK(makespan(step, {1, 1, 1}) == 6 * 3 * each + stages - 1);
}

TEST_CASE("A stage holds as many micro-batches as its schedule says", "[plan][schedule]") {
  const int stages = 4;
  const int micro_batches = GENERATE(1, 2, 8);
  for (int stage = 0; stage < stages; ++stage) {
    CAPTURE(stage, micro_batches);
    const auto alive = [&](Schedule schedule) {
      return most_alive(schedule_of(
          layout_of(schedule, stages, 1, micro_batches))[static_cast<std::size_t>(stage)]);
    };
    CHECK(alive(Schedule::gpipe) == micro_batches);
    CHECK(alive(Schedule::one_f_one_b) == std::min(micro_batches, stages - stage));
    CHECK(alive(Schedule::zb_h1) == std::min(micro_batches, stages - stage));
  }
}

TEST_CASE("Interleaving holds more activations by 1 + (P-1)/(P v)", "[plan][schedule]") {
  // Korthikanti et al. 2022, section 4.2.3: on stage 0, in chunks of 1/v of a stage each:
  // P v (1 + (P-1)/(P v)) = P v + P - 1.
  for (const int chunks : {1, 2, 4}) {
    const int stages = 4;
    CHECK(most_alive(schedule_of(layout_of(Schedule::interleaved, stages, chunks, 16))[0]) ==
          stages * chunks + stages - 1);
  }
}

TEST_CASE("Interleaved slots follow Megatron's order", "[plan][schedule]") {
  // P = 2, v = 2, m = 2, last stage: warm-up of (2-1-1)*2 + (2-1)*2 = 2 forwards.
  const auto slots = schedule_of(layout_of(Schedule::interleaved, 2, 2, 2))[1];
  const std::vector<Slot> expected{
      {SlotKind::forward, 0, 0},  {SlotKind::forward, 0, 1},  {SlotKind::forward, 1, 0},
      {SlotKind::backward, 1, 0}, {SlotKind::forward, 1, 1},  {SlotKind::backward, 1, 1},
      {SlotKind::backward, 0, 0}, {SlotKind::backward, 0, 1},
  };
  CHECK(slots == expected);
}

TEST_CASE("A V goes back from the last rank: both ends of the model are on the first",
          "[plan][schedule]") {
  const Placement v{layout_of(Schedule::zb_v, 4, 2, 8)};
  const Placement loop{layout_of(Schedule::interleaved, 4, 2, 8)};
  std::vector<int> ranks_of_v, steps;
  for (int chunk = 0; chunk < 8; ++chunk) {
    ranks_of_v.push_back(v.rank_of(chunk));
    CHECK(v.chunk_of(v.rank_of(chunk), v.local_of(chunk)) == chunk);
    CHECK(loop.chunk_of(loop.rank_of(chunk), loop.local_of(chunk)) == chunk);
    if (chunk < 7) steps.push_back(v.step_behind(chunk));
    if (chunk < 7) CHECK(loop.step_behind(chunk) == 1);
  }
  CHECK(ranks_of_v == std::vector<int>{0, 1, 2, 3, 3, 2, 1, 0});
  CHECK(steps == std::vector<int>{1, 1, 1, 0, -1, -1, -1});
  CHECK(v.ends_where_it_begins());
  CHECK_FALSE(loop.ends_where_it_begins());
}

TEST_CASE("V-shaped schedules do every pass once, in an order that ends", "[plan][schedule]") {
  const Schedule schedule = GENERATE(Schedule::zb_v, Schedule::v_half, Schedule::v_min);
  const int stages = GENERATE(2, 3, 4, 7);
  const int micro_batches = GENERATE(1, 2, 5, 16);
  CAPTURE(word(schedule), stages, micro_batches);
  const Layout layout = layout_of(schedule, stages, 2, micro_batches);
  for (const std::vector<Slot>& order : schedule_of(layout)) {
    std::map<std::tuple<SlotKind, int, int>, std::size_t> at;
    for (const Slot& slot : order)
      at.emplace(std::tuple{slot.kind, slot.chunk, slot.microbatch}, at.size());
    REQUIRE(order.size() == static_cast<std::size_t>(6 * micro_batches));
    REQUIRE(at.size() == order.size());
    for (int chunk = 0; chunk < 2; ++chunk)
      for (int i = 0; i < micro_batches; ++i) {
        CHECK(at[{SlotKind::forward, chunk, i}] < at[{SlotKind::backward, chunk, i}]);
        CHECK(at[{SlotKind::backward, chunk, i}] < at[{SlotKind::weight_backward, chunk, i}]);
      }
  }
  CHECK(makespan(layout, {1, 1, 1}) >= 6 * micro_batches);  // throws when it hangs
}

TEST_CASE("Bubbles of V-shaped schedules are those of the paper", "[plan][schedule]") {
  // Qi et al. 2024, table 2, with F = B = W = 1 per chunk: of b = 6 (P-1), none, half, two thirds.
  // Here the last rank's wait for its first pass counts, P-1; squeezing saves some slots.
  const int stages = GENERATE(2, 4, 5, 8);
  const int micro_batches = 6 * stages;
  CAPTURE(stages);
  const auto bubble = [&](Schedule schedule) {
    return makespan(layout_of(schedule, stages, 2, micro_batches), {1, 1, 1}) - 6 * micro_batches;
  };
  const int of_1f1b = 6 * (stages - 1);
  CHECK(bubble(Schedule::zb_v) == stages - 1);
  CHECK(bubble(Schedule::v_half) <= of_1f1b / 2);
  CHECK(bubble(Schedule::v_half) >= of_1f1b / 2 - 4);
  CHECK(bubble(Schedule::v_min) <= 2 * of_1f1b / 3);
  CHECK(bubble(Schedule::v_min) >= 2 * of_1f1b / 3 - 3);
}

TEST_CASE("DualPipeV whose pairs run one after the other idles as ZB-V", "[plan][schedule]") {
  // The last rank waits P-1 passes for its first one. Activations: 2 P + 1 chunks (DeepSeek-AI
  // 2024, table 2, for twice as many ranks).
  const int stages = GENERATE(2, 3, 4, 8);
  const int micro_batches = GENERATE_COPY(2 * stages, 5 * stages);
  CAPTURE(stages, micro_batches);
  const Layout layout = layout_of(Schedule::dual_pipe_v, stages, 2, micro_batches);
  CHECK(makespan(layout, {1, 1, 1}) == 6 * micro_batches + stages - 1);
  int most = 0;
  for (const std::vector<Slot>& order : schedule_of(layout)) {
    CHECK(order.size() == static_cast<std::size_t>(6 * micro_batches));
    most = std::max(most, most_alive(order));
  }
  CHECK(most == 2 * stages + 1);
}

TEST_CASE("V-shaped schedules keep a half and a third of the activations", "[plan][schedule]") {
  // In chunks of half a stage: 1F1B keeps 2 P of them; ZB-V the same; V-Half P + O(1); V-Min
  // 2 P / 3 + O(1) (Qi et al. 2024, section 3.3).
  const int stages = GENERATE(4, 8, 16);
  const auto most = [&](Schedule schedule) {
    int found = 0;
    for (const std::vector<Slot>& order : schedule_of(layout_of(schedule, stages, 2, 4 * stages)))
      found = std::max(found, most_alive(order));
    return found;
  };
  CAPTURE(stages);
  CHECK(most(Schedule::zb_v) == 2 * stages);
  CHECK(most(Schedule::v_half) <= stages + 2);
  CHECK(most(Schedule::v_min) <= 2 * stages / 3 + 3);
}
