// The plan wired to the cluster: who runs which program, which channels connect them, and which
// links each channel loads. The engine runs a System and does not know whether it is the whole
// machine or its quotient under symmetry (fold.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/cost_table.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/sharing/max_min.hpp"

namespace sim {

inline constexpr std::uint32_t no_channel = UINT32_MAX;

// A rank, or in a quotient the class of ranks that it stands for. It owns one device.
struct RankSlot {
  RankId rank;
  std::uint32_t represents = 1;
  std::uint32_t program = 0;
  std::uint32_t variant = 0;                            // index into System::variants
  std::array<std::uint32_t, group_role_count> group{};  // channel per role, or no_channel
  std::array<std::uint32_t, stream_count> peer{};       // channel per send/receive stream
};

// The links that one algorithm loads on one channel, as weights on resources.
struct Pattern {
  Algorithm algorithm = Algorithm::direct;
  bool all_to_all = false;
  std::uint32_t first_use = 0;
  std::uint32_t use_count = 0;
  // The first of them are links that sharing must know (own_links.hpp).
  std::uint32_t shared_count = 0;
};

// A communicator, or one direction between two pipeline neighbours (members: sender, receiver).
struct Channel {
  std::uint32_t shape = 0;  // row of the cost table
  std::uint32_t first_member = 0;
  std::uint32_t member_count = 0;
  std::uint32_t first_pattern = 0;
  std::uint32_t pattern_count = 0;
  std::uint32_t represents = 1;
  std::uint32_t purpose =
      0;  // group role, or group_role_count + send stream: never folded together
  bool point_to_point = false;
};

struct Resource {
  LinkId link;
  std::uint32_t represents = 1;
  std::int64_t capacity = 0;  // bytes/s
};

// A program on the devices of a pool, slowed by a factor.
struct Variant {
  std::uint32_t program = 0;
  double factor = 1;
  std::uint32_t pool = 0;
  bool operator==(const Variant&) const = default;
};

// A kind of traffic that a group puts on links: each is a pattern of the group's channels.
struct Traffic {
  CollectiveKind kind = CollectiveKind::all_reduce;  // of the first request with this pattern
  Algorithm algorithm = Algorithm::direct;
  bool all_to_all = false;
  bool operator==(const Traffic&) const = default;
};

// RoleRow is the traffic of groups of a role on a row of the cost table.
struct RoleRow {
  GroupRole role = GroupRole::tensor;
  std::uint32_t row = 0;
  std::vector<Traffic> traffic;
};

struct System {
  std::vector<RankSlot> slots;
  std::vector<Channel> channels;
  std::vector<std::uint32_t> members;  // slots, by channel
  std::vector<Pattern> patterns;
  std::vector<ResourceUse> uses;
  std::vector<Resource> resources;
  std::vector<Variant> variants;

  RequestTable requests;
  std::vector<GroupShape> group_shapes;
  std::vector<CommCost> costs;     // [shape * requests.size() + request]
  std::vector<char> is_priced;     // cells of `costs` that are in use
  std::vector<Route> peer_routes;  // of the rows behind those of `group_shapes`
  std::vector<RoleRow> role_rows;  // each pair once

  std::span<const std::uint32_t> members_of(const Channel& channel) const {
    return std::span{members}.subspan(channel.first_member, channel.member_count);
  }
  std::span<const Pattern> patterns_of(const Channel& channel) const {
    return std::span{patterns}.subspan(channel.first_pattern, channel.pattern_count);
  }
  std::span<const ResourceUse> uses_of(const Pattern& pattern) const {
    return std::span{uses}.subspan(pattern.first_use, pattern.use_count);
  }
  std::span<const ResourceUse> shared_uses_of(const Pattern& pattern) const {
    return uses_of(pattern).first(pattern.shared_count);
  }
  std::span<const ResourceUse> own_uses_of(const Pattern& pattern) const {
    return uses_of(pattern).subspan(pattern.shared_count);
  }
  const CommCost& cost(std::uint32_t shape, std::uint32_t request) const {
    return costs[shape * requests.size() + request];
  }
};

// Where an operator that communicates does so, and what it costs there.
struct Call {
  std::uint32_t channel = 0;
  std::uint32_t cell = 0;  // of System::costs
};
Call call_of(const System& system, std::uint32_t slot, const Program& program, OpId op);

class KnownGroups;

// One slot per rank, one channel per communicator and per direction between neighbours.
// `known` may be null: large groups that other plans have too (wirings.hpp). Throws Stopped.
System wire(const Plan& plan, const Cluster& cluster, const SimulationOptions& options,
            const Control& control = {}, KnownGroups* known = nullptr);

// Puts the requests and costs of another plan in the place of those that the system was wired with.
// REQUIRES: ranks, groups and neighbours are the same. False: its traffic goes over other links, so
// that it has to be wired; the system is of no use then.
bool take_requests(System& system, const Plan& plan, const Cluster& cluster,
                   const SimulationOptions& options);

// Works the costs of all channels out again. REQUIRES: `options` differs from those that the system
// was wired with in nothing but costs (same_wiring() of simulator.cpp).
void price(System& system, const Cluster& cluster, const SimulationOptions& options);

}  // namespace sim
