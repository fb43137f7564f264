// The hold model (Jones 1986): take the next event, schedule another a random time later. Beside
// the radix heap runs a binary heap of the same events, so that the ratio can be read in one run.
#include <benchmark/benchmark.h>

#include <queue>

#include "sim/base/random.hpp"
#include "sim/engine/event_queue.hpp"

namespace {

using sim::Duration;
using sim::Event;
using sim::EventKind;

// Steps of 1 ns to 4 ms, exponentially spread, as kernel and transfer times are.
Duration random_step(std::uint64_t i) {
  const std::uint64_t bits = sim::mix64(i);
  return Duration{static_cast<std::int64_t>(1000 + (bits >> (32 + bits % 16)))};
}

void hold_radix_heap(benchmark::State& state) {
  sim::EventQueue queue;
  std::uint64_t i = 0;
  for (; i < static_cast<std::uint64_t>(state.range(0)); ++i)
    queue.schedule(
        {queue.now() + random_step(i), EventKind::kernel_end, static_cast<std::uint32_t>(i)});
  std::vector<Event> instant;
  std::int64_t held = 0;
  for (auto _ : state) {
    queue.take_instant(instant);
    for (const Event& event : instant)
      queue.schedule({event.at + random_step(i++), EventKind::kernel_end, event.subject});
    held += static_cast<std::int64_t>(instant.size());
  }
  state.SetItemsProcessed(held);
}
BENCHMARK(hold_radix_heap)->Arg(1'000)->Arg(100'000)->Arg(1'000'000);

struct Later {
  bool operator()(const Event& a, const Event& b) const { return a.at > b.at; }
};

void hold_binary_heap(benchmark::State& state) {
  std::priority_queue<Event, std::vector<Event>, Later> queue;
  std::uint64_t i = 0;
  for (; i < static_cast<std::uint64_t>(state.range(0)); ++i)
    queue.emplace(sim::TimePoint{} + random_step(i), EventKind::kernel_end,
                  static_cast<std::uint32_t>(i));
  for (auto _ : state) {
    const Event event = queue.top();
    queue.pop();
    queue.emplace(event.at + random_step(i++), EventKind::kernel_end, event.subject);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(hold_binary_heap)->Arg(1'000)->Arg(100'000)->Arg(1'000'000);

}  // namespace
