// Begin and end of every operator: the result of a simulated step, and what every report and trace
// reads.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/ids.hpp"
#include "sim/base/units.hpp"
#include "sim/plan/plan.hpp"

namespace sim {

// One operator on one rank. For communication, `begin` is when the rank arrived (its stream
// reached the operator) and `active` when all partners had: begin..active is waiting for others.
// For kernels begin == active.
struct Span {
  OpId op;
  TimePoint begin;
  TimePoint active;
  TimePoint end;
};

// One rank's spans in issue order of its program; `represents` ranks behave exactly like it.
struct RankTrack {
  RankId rank;
  std::uint32_t represents = 1;
  std::vector<Span> spans;
};

struct LinkLoad {
  LinkId link;
  std::uint32_t represents = 1;  // links that carry exactly the same
  Bytes carried{};
  Duration busy{};  // time with any traffic
};

// One kind of collective on one kind of group, over the step.
struct CollectiveSummary {
  CollectiveKind kind = CollectiveKind::all_reduce;
  GroupRole group = GroupRole::tensor;
  std::string algorithm;  // "ring/simple", "tree/ll", "measured", ...
  int ranks = 0;
  std::uint64_t count = 0;  // per rank, of the stage that issues it most
  Bytes bytes{};            // of one call: the full buffer
  Duration mean_time{};     // from `active` to `end`
  bool operator==(const CollectiveSummary&) const = default;
};

struct Timeline {
  TimePoint end;                  // of the step, over all ranks
  std::vector<RankTrack> tracks;  // representatives, or all ranks
  std::vector<LinkLoad> links;    // busiest first
  std::vector<CollectiveSummary> collectives;
  std::string engine;  // the maker: "simulated"
};

}  // namespace sim
