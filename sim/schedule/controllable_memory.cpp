#include "sim/schedule/controllable_memory.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "sim/base/check.hpp"

namespace sim {
namespace {

// The passes of a micro-batch in the order in which they depend on each other, then its weight
// gradients: first as one kind, in the end of either chunk.
enum Row : std::uint8_t { forward_0, forward_1, backward_1, backward_0, weight_1, weight_0 };
constexpr std::size_t row_count = 6;
constexpr int period = 6;  // slots in which a rank does all passes of a micro-batch

// When the passes of a rank begin, in slots: by row, by micro-batch.
using RankTimes = std::array<std::vector<int>, row_count>;

struct Event {
  int time = 0;
  std::uint32_t rank = 0;
  std::uint8_t row = 0;
  int microbatch = 0;
  bool operator<(const Event& other) const {
    return std::tie(time, rank, row, microbatch) <
           std::tie(other.time, other.rank, other.row, other.microbatch);
  }
};

void add_events(const RankTimes& times, std::uint32_t rank, std::size_t rows,
                std::vector<Event>& to) {
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < times[row].size(); ++i)
      to.push_back({times[row][i], rank, static_cast<std::uint8_t>(row), static_cast<int>(i)});
}

std::vector<Event> events_of(const RankTimes& times, std::size_t rows = row_count) {
  std::vector<Event> events;
  add_events(times, 0, rows, events);
  std::sort(events.begin(), events.end());
  return events;
}

// Weight gradients wait for a slot in which the rank does nothing else.
enum class Weights : std::uint8_t { joint, by_chunk };
void put_weights(RankTimes& times, Weights as) {
  times[weight_1].clear();
  times[weight_0].clear();
  std::array<int, 2> waiting{};
  int now = 0;
  const auto put = [&] {
    for (std::size_t w = 0; w < waiting.size(); ++w) {
      if (waiting[w] == 0) continue;
      times[weight_1 + w].push_back(now);
      --waiting[w];
      return true;
    }
    return false;
  };
  for (const Event& event : events_of(times, weight_1)) {
    for (; now < event.time; ++now)
      put();
    now = event.time + 1;
    if (event.row < backward_1) continue;
    ++waiting[as == Weights::by_chunk ? event.row - std::size_t{backward_1} : 0];
  }
  while (put())
    ++now;
}

// The most activations that are alive: from the forward pass to the weight gradient. Weight
// gradients that are not placed go into the first free slots.
int peak_of(const RankTimes& times) {
  int waiting = 0, alive = 0, most = 0, now = 0;
  const bool placed = !times[weight_1].empty();
  for (const Event& event : events_of(times)) {
    if (!placed) {
      const int done = std::min(waiting, std::max(0, event.time - now));
      alive -= done;
      waiting -= done;
    }
    now = event.time + 1;
    if (event.row <= forward_1) ++alive;
    if (event.row == backward_1 || event.row == backward_0) ++waiting;
    if (event.row >= weight_1) --alive;
    most = std::max(most, alive);
  }
  return most;
}

class Squeezing {
 public:
  explicit Squeezing(std::vector<RankTimes> ranks) : ranks_{std::move(ranks)} {}

  // Moves passes of the warm-up and of the end ahead into free slots. With weight gradients in
  // their places all of them; without, those of the end.
  void reorder(bool with_weights) {
    for (RankTimes& times : ranks_) {
      times[weight_1].clear();
      times[weight_0].clear();
      if (with_weights) put_weights(times, Weights::joint);
    }
    for (const RankTimes& times : ranks_)
      most_alive_ = std::max(most_alive_, peak_of(times));
    move_ahead(with_weights);
    if (!with_weights)
      for (RankTimes& times : ranks_)
        put_weights(times, Weights::joint);
    begin_at_once();
  }

  std::vector<RankTimes> take() { return std::move(ranks_); }

 private:
  std::vector<Event> all_events() const {
    std::vector<Event> events;
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank)
      add_events(ranks_[rank], rank, row_count, events);
    std::sort(events.begin(), events.end());
    return events;
  }

  int& time_of(const Event& event) {
    return ranks_[event.rank][event.row][static_cast<std::size_t>(event.microbatch)];
  }

  // The pass on another rank, or of the chunk before, that a pass waits for: `found` with its time.
  template <class Found>
  void for_each_input(const Event& event, Found found) {
    const auto i = static_cast<std::size_t>(event.microbatch);
    const bool down = event.row == forward_0 || event.row == backward_1;
    if (event.row < weight_1 && down && event.rank > 0)
      found(Event{0, event.rank - 1, event.row, event.microbatch});
    if (event.row < weight_1 && !down && event.rank + 1 < ranks_.size())
      found(Event{0, event.rank + 1, event.row, event.microbatch});
    if (event.row < weight_1 && event.row > forward_0)
      found(Event{0, event.rank, static_cast<std::uint8_t>(event.row - 1), event.microbatch});
    if (i > 0) found(Event{0, event.rank, event.row, event.microbatch - 1});
  }

  int earliest(const Event& event) {
    int last = -1;
    for_each_input(event, [&](const Event& input) { last = std::max(last, time_of(input)); });
    if (event.row == weight_1) {
      std::vector<int> inputs = ranks_[event.rank][backward_1];
      inputs.insert(inputs.end(), ranks_[event.rank][backward_0].begin(),
                    ranks_[event.rank][backward_0].end());
      const auto at = inputs.begin() + event.microbatch;
      std::nth_element(inputs.begin(), at, inputs.end());
      last = std::max(last, *at);
    }
    return last + 1;
  }

  void move_ahead(bool warm_up) {
    std::vector<std::vector<bool>> taken(ranks_.size());
    const auto take_slot = [&](std::uint32_t rank, int time) {
      const auto at = static_cast<std::size_t>(time);
      if (taken[rank].size() <= at) taken[rank].resize(at + 1);
      taken[rank][at] = true;
    };
    const auto is_taken = [&](std::uint32_t rank, int time) {
      const auto at = static_cast<std::size_t>(time);
      return at < taken[rank].size() && taken[rank][at];
    };
    enum class Phase : std::uint8_t { begin, steady, end };
    Phase phase = Phase::begin;
    for (const Event& event : all_events()) {
      if (event.row == backward_0 && event.rank == 0 && phase == Phase::begin)
        phase = Phase::steady;
      const bool steady = phase == Phase::steady;
      if (steady && event.row == forward_0 &&
          static_cast<std::size_t>(event.microbatch) + 1 == ranks_[0][forward_0].size())
        phase = Phase::end;
      if (!steady && (phase == Phase::end || warm_up)) {
        int& time = time_of(event);
        for (int slot = earliest(event); slot < event.time; ++slot) {
          if (is_taken(event.rank, slot)) continue;
          time = slot;
          if (peak_of(ranks_[event.rank]) <= most_alive_) break;
          time = event.time;
        }
      }
      take_slot(event.rank, time_of(event));
    }
  }

  // Every pass as soon as its rank is free and its inputs are there, in the order found.
  void begin_at_once() {
    std::vector<int> free(ranks_.size(), 0);
    for (const Event& event : all_events()) {
      int start = free[event.rank];
      for_each_input(event,
                     [&](const Event& input) { start = std::max(start, time_of(input) + 1); });
      time_of(event) = start;
      free[event.rank] = start + 1;
    }
  }

  std::vector<RankTimes> ranks_;
  int most_alive_ = 0;
};

// Offsets of the four passes of the first micro-batch on a rank.
std::array<int, 4> block_of(Schedule schedule, int ranks, int rank) {
  if (schedule == Schedule::v_min) {
    const int pause = ranks % 3 == 0 ? 2 : 0;
    return {rank, 2 * ranks - rank - 1, 2 * ranks + pause + rank, 4 * ranks + pause - rank - 1};
  }
  SIM_CHECK(schedule == Schedule::v_half, static_cast<int>(schedule));
  const int pause = ranks % 2 == 0 ? 3 : 0;
  return {2 * rank, 3 * ranks - rank - 2, 3 * ranks + pause + 2 * rank - 1,
          6 * ranks + pause - rank - 2};
}

Slot slot_of(const Event& event) {
  constexpr std::array kinds{SlotKind::forward,         SlotKind::forward,
                             SlotKind::backward,        SlotKind::backward,
                             SlotKind::weight_backward, SlotKind::weight_backward};
  constexpr std::array chunks{0, 1, 1, 0, 1, 0};
  return {kinds[event.row], chunks[event.row], event.microbatch};
}

}  // namespace

std::vector<std::vector<Slot>> controllable_memory(const Layout& layout) {
  const int ranks = layout.pipeline_parallel;
  const auto micro_batches = static_cast<int>(layout.run_batches());
  std::vector<RankTimes> times(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const std::array<int, 4> block = block_of(layout.schedule, ranks, rank);
    for (std::size_t row = 0; row < block.size(); ++row)
      for (int i = 0; i < micro_batches; ++i)
        times[static_cast<std::size_t>(rank)][row].push_back(block[row] + period * i);
  }
  Squeezing squeezing{std::move(times)};
  squeezing.reorder(true);
  squeezing.reorder(false);
  std::vector<std::vector<Slot>> orders;
  for (RankTimes& of_rank : squeezing.take()) {
    put_weights(of_rank, Weights::by_chunk);
    std::vector<Slot>& order = orders.emplace_back();
    for (const Event& event : events_of(of_rank))
      order.push_back(slot_of(event));
  }
  return orders;
}

}  // namespace sim
