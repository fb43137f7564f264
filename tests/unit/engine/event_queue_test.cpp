#include "sim/engine/event_queue.hpp"

#include <algorithm>
#include <random>

#include "tests/catch.hpp"

namespace sim {
namespace {

TimePoint at(std::int64_t ps) {
  return TimePoint{} + Duration{ps};
}

}  // namespace

TEST_CASE("an instant hands out all its events in the order of scheduling", "[engine]") {
  EventQueue queue;
  queue.schedule({at(5), EventKind::kernel_end, 1});
  queue.schedule({at(7), EventKind::kernel_end, 2});
  queue.schedule({at(5), EventKind::host_wakeup, 3});
  std::vector<Event> instant;
  queue.take_instant(instant);
  REQUIRE(instant.size() == 2);
  REQUIRE(instant[0].subject == 1);
  REQUIRE(instant[1].subject == 3);
  REQUIRE(queue.now() == at(5));
  queue.schedule({at(5), EventKind::kernel_end, 4});  // at the instant itself
  queue.take_instant(instant);
  REQUIRE(instant[0].subject == 4);
  queue.take_instant(instant);
  REQUIRE(instant[0].subject == 2);
  REQUIRE(queue.empty());
}

TEST_CASE("an event in the past is a bug that is caught", "[engine]") {
  EventQueue queue;
  queue.schedule({at(5), EventKind::kernel_end, 1});
  std::vector<Event> instant;
  queue.take_instant(instant);
  REQUIRE_THROWS_AS(queue.schedule({at(4), EventKind::kernel_end, 2}), std::logic_error);
}

TEST_CASE("the queue equals a sorted list on random histories", "[engine][property]") {
  std::mt19937_64 random{3};
  EventQueue queue;
  std::vector<std::pair<TimePoint, std::uint32_t>> oracle;
  std::uint32_t next = 0;
  const auto add = [&] {
    // Steps of all magnitudes, equal times included.
    const auto step = static_cast<std::int64_t>(random() >> (20 + random() % 44));
    const TimePoint time = queue.now() + Duration{step};
    queue.schedule({time, EventKind::kernel_end, next});
    oracle.emplace_back(time, next++);
  };
  std::vector<Event> instant;
  for (int i = 0; i < 200; ++i)
    add();
  while (!queue.empty()) {
    std::stable_sort(oracle.begin(), oracle.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    queue.take_instant(instant);
    for (const Event& event : instant) {
      REQUIRE(event.at == queue.now());
      REQUIRE(oracle.front().first == event.at);
      const auto same = std::find_if(oracle.begin(), oracle.end(), [&](const auto& entry) {
        return entry.second == event.subject;
      });
      REQUIRE(same->first == event.at);
      oracle.erase(same);
    }
    if (next < 3000)
      for (std::uint64_t i = random() % 3; i > 0; --i)
        add();
  }
  REQUIRE(oracle.empty());
}

TEST_CASE("an event of an older epoch is not current", "[engine]") {
  const Event event{at(1), EventKind::transfer_end, 9, 41};
  REQUIRE(event.kind() == EventKind::transfer_end);
  REQUIRE(event.is_current(41));
  REQUIRE_FALSE(event.is_current(42));
}

}  // namespace sim
