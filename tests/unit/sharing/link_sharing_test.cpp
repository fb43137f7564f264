#include "sim/sharing/link_sharing.hpp"

#include <map>

#include "tests/catch.hpp"

namespace sim {
namespace {

constexpr std::int64_t rate = 50'000'000'000;  // 50 GB/s
const std::vector<ResourceUse> over_link_0{{0, 65536}};

TimePoint at(Duration time) {
  return TimePoint{} + time;
}

// Applies what settle() says to a table of end times.
void settle(LinkSharing& sharing, TimePoint now, std::map<std::uint32_t, TimePoint>& ends) {
  for (const auto& change : sharing.settle(now))
    ends[change.id] = change.end;
}

}  // namespace

TEST_CASE("a transfer alone takes exactly its full-rate time", "[sharing]") {
  const std::vector<std::int64_t> capacities{rate};
  LinkSharing sharing{capacities};
  std::map<std::uint32_t, TimePoint> ends;
  sharing.start(0, over_link_0, rate, 123'456'789ns, at(1us));
  settle(sharing, at(1us), ends);
  REQUIRE(ends[0] == at(1us + 123'456'789ns));
}

TEST_CASE("a second transfer halves the first until one ends", "[sharing]") {
  // 100 us of work each; the second starts at 50 us. The first has 50 us left, at half speed until
  // it ends at 150 us; the second has done 50 us of its work by then and ends at 200 us.
  const std::vector<std::int64_t> capacities{rate};
  LinkSharing sharing{capacities};
  std::map<std::uint32_t, TimePoint> ends;
  sharing.start(0, over_link_0, rate, 100us, at(0us));
  settle(sharing, at(0us), ends);
  sharing.start(1, over_link_0, rate, 100us, at(50us));
  settle(sharing, at(50us), ends);
  REQUIRE(ends[0] == at(150us));
  sharing.finish(0, at(150us));
  settle(sharing, at(150us), ends);
  REQUIRE(ends[1] == at(200us));
  sharing.finish(1, at(200us));
  REQUIRE(sharing.busy(0) == Duration{200us});
}

TEST_CASE("transfers that fit together do not disturb each other", "[sharing]") {
  const std::vector<std::int64_t> capacities{2 * rate};
  LinkSharing sharing{capacities};
  std::map<std::uint32_t, TimePoint> ends;
  sharing.start(0, over_link_0, rate, 10us, at(0us));
  sharing.start(1, over_link_0, rate, 20us, at(0us));
  settle(sharing, at(0us), ends);
  REQUIRE(ends[0] == at(10us));
  REQUIRE(ends[1] == at(20us));
}

TEST_CASE("a transfer over a dead link stands still", "[sharing]") {
  const std::vector<std::int64_t> capacities{0};
  LinkSharing sharing{capacities};
  std::map<std::uint32_t, TimePoint> ends;
  sharing.start(0, over_link_0, rate, 10us, at(0us));
  settle(sharing, at(0us), ends);
  REQUIRE(ends[0] == TimePoint::max());
}

TEST_CASE("an over-asked link that empties lets its neighbours speed up again", "[sharing]") {
  // Transfer 0 on link 0, transfer 1 on links 0 and 1, transfer 2 on link 1: when 0 ends, 1 and 2
  // share link 1.
  const std::vector<std::int64_t> capacities{rate, rate};
  const std::vector<ResourceUse> both{{0, 65536}, {1, 65536}};
  const std::vector<ResourceUse> over_link_1{{1, 65536}};
  LinkSharing sharing{capacities};
  std::map<std::uint32_t, TimePoint> ends;
  sharing.start(0, over_link_0, rate, 10us, at(0us));
  sharing.start(1, both, rate, 30us, at(0us));
  sharing.start(2, over_link_1, rate, 10us, at(0us));
  settle(sharing, at(0us), ends);
  REQUIRE(ends[0] == at(20us));
  REQUIRE(ends[2] == at(20us));
  sharing.finish(0, at(20us));
  sharing.finish(2, at(20us));
  settle(sharing, at(20us), ends);
  REQUIRE(ends[1] == at(40us));
}

}  // namespace sim
