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
  sharing.start(0, {.uses = over_link_0, .full_rate = rate, .full_time = 123'456'789ns}, at(1us));
  settle(sharing, at(1us), ends);
  REQUIRE(ends[0] == at(1us + 123'456'789ns));
}

TEST_CASE("a second transfer halves the first until one ends", "[sharing]") {
  // 100 us of work each; the second starts at 50 us. The first has 50 us left, at half speed until
  // it ends at 150 us; the second has done 50 us of its work by then and ends at 200 us.
  const std::vector<std::int64_t> capacities{rate};
  LinkSharing sharing{capacities};
  std::map<std::uint32_t, TimePoint> ends;
  sharing.start(0, {.uses = over_link_0, .full_rate = rate, .full_time = 100us}, at(0us));
  settle(sharing, at(0us), ends);
  sharing.start(1, {.uses = over_link_0, .full_rate = rate, .full_time = 100us}, at(50us));
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
  sharing.start(0, {.uses = over_link_0, .full_rate = rate, .full_time = 10us}, at(0us));
  sharing.start(1, {.uses = over_link_0, .full_rate = rate, .full_time = 20us}, at(0us));
  settle(sharing, at(0us), ends);
  REQUIRE(ends[0] == at(10us));
  REQUIRE(ends[1] == at(20us));
}

TEST_CASE("a transfer over a dead link stands still", "[sharing]") {
  const std::vector<std::int64_t> capacities{0};
  LinkSharing sharing{capacities};
  std::map<std::uint32_t, TimePoint> ends;
  sharing.start(0, {.uses = over_link_0, .full_rate = rate, .full_time = 10us}, at(0us));
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
  sharing.start(0, {.uses = over_link_0, .full_rate = rate, .full_time = 10us}, at(0us));
  sharing.start(1, {.uses = both, .full_rate = rate, .full_time = 30us}, at(0us));
  sharing.start(2, {.uses = over_link_1, .full_rate = rate, .full_time = 10us}, at(0us));
  settle(sharing, at(0us), ends);
  REQUIRE(ends[0] == at(20us));
  REQUIRE(ends[2] == at(20us));
  sharing.finish(0, at(20us));
  sharing.finish(2, at(20us));
  settle(sharing, at(20us), ends);
  REQUIRE(ends[1] == at(40us));
}

TEST_CASE("of a link that two transfers fill, each gets what its flows make up", "[sharing]") {
  // Three flows against one, 99 us of work each: at 3/4 of the link the first ends after 132 us;
  // the second has done 33 us of its work at 1/4 by then, and ends 66 us later.
  const std::vector<std::int64_t> capacities{rate};
  LinkSharing sharing{capacities};
  std::map<std::uint32_t, TimePoint> ends;
  sharing.start(0, {.uses = over_link_0, .full_rate = rate, .flows = 3, .full_time = 99us},
                at(0us));
  sharing.start(1, {.uses = over_link_0, .full_rate = rate, .full_time = 99us}, at(0us));
  settle(sharing, at(0us), ends);
  REQUIRE(ends[0] == at(132us));
  sharing.finish(0, at(132us));
  settle(sharing, at(132us), ends);
  REQUIRE(ends[1] == at(198us));
}

TEST_CASE("eight flows over eight links and one over one of them share that one in halves",
          "[sharing]") {
  // As a tensor group's ring over all NICs of two nodes beside a data-parallel one: an eighth of
  // the first, one flow, passes each NIC. Both have 80 us of work at full rate on it.
  const std::vector<std::int64_t> capacities(8, rate);
  std::vector<ResourceUse> over_all;
  for (std::uint32_t link = 0; link < 8; ++link)
    over_all.push_back({link, 65536 / 8});
  LinkSharing sharing{capacities};
  std::map<std::uint32_t, TimePoint> ends;
  sharing.start(0, {.uses = over_all, .full_rate = 8 * rate, .flows = 8, .full_time = 80us},
                at(0us));
  sharing.start(1, {.uses = over_link_0, .full_rate = rate, .full_time = 80us}, at(0us));
  settle(sharing, at(0us), ends);
  REQUIRE(ends[0] == at(160us));
  REQUIRE(ends[1] == at(160us));
}

}  // namespace sim
