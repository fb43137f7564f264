// Who is to blame, by a clock of the test's own.
#include "real/launch/hang_detector.hpp"

#include "tests/catch.hpp"

using namespace real;  // NOLINT(google-build-using-namespace): a test
using namespace std::chrono_literals;

namespace {

using Look = HangDetector::Look;

Look at(std::uint64_t progress, std::uint64_t waits = 0, RankPhase phase = RankPhase::step) {
  return {.state = {.phase = phase, .progress = progress, .waits = waits}};
}

struct Watch {
  HangDetector::Clock::time_point start{};
  HangDetector detector{3, {.operators = 10s, .phases = 100s}, start};
  std::optional<Hang> look(std::chrono::seconds time, std::vector<Look> looks) {
    return detector.check(looks, start + time);
  }
};

}  // namespace

TEST_CASE("nobody hangs while all move", "[launch]") {
  Watch watch;
  for (std::uint64_t second = 1; second < 100; ++second)
    REQUIRE_FALSE(
        watch.look(std::chrono::seconds{second}, {at(second), at(second / 5), at(second / 9)}));
}

TEST_CASE("the rank that does nothing hangs, not those that wait for it", "[launch]") {
  Watch watch;
  std::optional<Hang> hang;
  std::uint64_t second = 0;
  for (; !hang; ++second)
    hang = watch.look(std::chrono::seconds{second}, {at(5, second), at(4), at(5, second)});
  // It moved last at second 0.
  REQUIRE(second - 1 == 10);
  REQUIRE(hang->rank == 1);
  REQUIRE_FALSE(hang->waiting);
  REQUIRE(hang->time == 10s);
}

TEST_CASE("of several silent ranks the first to fall silent is to blame", "[launch]") {
  Watch watch;
  std::optional<Hang> hang;
  for (std::uint64_t second = 0; !hang; ++second)
    hang = watch.look(std::chrono::seconds{second}, {at(std::min<std::uint64_t>(second, 7)),
                                                     at(std::min<std::uint64_t>(second, 9)),
                                                     at(std::min<std::uint64_t>(second, 8))});
  REQUIRE(hang->rank == 0);
}

TEST_CASE("ranks that all wait for one another hang", "[launch]") {
  Watch watch;
  std::optional<Hang> hang;
  std::uint64_t second = 0;
  for (; !hang; ++second)
    hang = watch.look(std::chrono::seconds{second},
                      {at(std::min<std::uint64_t>(second, 3), second),
                       at(std::min<std::uint64_t>(second, 2), second), at(1, second)});
  REQUIRE(hang->waiting);
  REQUIRE(hang->rank == 2);
  REQUIRE(second - 1 == 13);  // ten seconds after the last moved
}

TEST_CASE("waiting for a rank that prepares the run is no hang", "[launch]") {
  Watch watch;
  for (std::uint64_t second = 0; second < 99; ++second)
    REQUIRE_FALSE(watch.look(std::chrono::seconds{second},
                             {at(1, second), at(1, 0, RankPhase::preparing), at(1, second)}));
  REQUIRE(watch.look(100s, {at(1, 1), at(1, 0, RankPhase::preparing), at(1, 1)})->rank == 1);
}

TEST_CASE("a rank that has ended does not hang", "[launch]") {
  Watch watch;
  Look ended = at(1);
  ended.ended = true;
  for (std::uint64_t second = 0; second < 50; ++second)
    REQUIRE_FALSE(watch.look(std::chrono::seconds{second}, {ended, at(second), at(second)}));
}
