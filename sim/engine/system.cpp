#include "sim/engine/system.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/work.hpp"
#include "sim/engine/wirings.hpp"

namespace sim {
namespace {

// Options of tensor-parallel groups hold for context-parallel ones too.
bool is_tensor(GroupRole role) {
  return is_within_layers(role);
}

// Works out the cost of a request (collectives first, then transfers) on a row.
void price_cell(System& system, const Cluster& cluster, const SimulationOptions& options,
                std::size_t row, std::size_t request) {
  const std::size_t collectives = system.requests.collectives.size();
  const std::size_t cell = row * system.requests.size() + request;
  system.is_priced[cell] = 1;
  system.costs[cell] =
      request < collectives
          ? priced_collective(cluster, system.group_shapes[row],
                              system.requests.collectives[request], options)
          : priced_transfer(cluster, system.peer_routes[row - system.group_shapes.size()],
                            system.requests.transfers[request - collectives], options);
}

using RequestsOfRole = std::array<std::vector<std::uint32_t>, group_role_count>;

RequestsOfRole requests_of_roles(const RequestTable& table, std::span<const Program> programs) {
  RequestsOfRole of_role;
  for (std::size_t p = 0; p < programs.size(); ++p) {
    const Program& program = programs[p];
    for (std::size_t w = 0; w < program.collectives.size(); ++w) {
      auto& requests = of_role[static_cast<std::size_t>(program.collectives[w].group)];
      const std::uint32_t request = table.of_collective[p][w];
      if (std::find(requests.begin(), requests.end(), request) == requests.end())
        requests.push_back(request);
    }
  }
  return of_role;
}

// REQUIRES: the requests are priced on the row.
std::vector<Traffic> traffic_of(const System& system, std::span<const std::uint32_t> requests,
                                std::uint32_t row) {
  std::vector<Traffic> all;
  for (const std::uint32_t request : requests) {
    const CommCost& cost = system.cost(row, request);
    if (cost.link_bytes == 0) continue;
    const CollectiveKind kind = system.requests.collectives[request].kind;
    const Traffic one{kind, cost.algorithm, kind == CollectiveKind::all_to_all};
    if (std::none_of(all.begin(), all.end(), [&](const Traffic& other) {
          return other.algorithm == one.algorithm && other.all_to_all == one.all_to_all;
        }))
      all.push_back(one);
  }
  return all;
}

// Builds a System step by step; a class only to share the tables between the steps.
class Wiring {
 public:
  Wiring(const Plan& plan, const Cluster& cluster, const SimulationOptions& options,
         KnownGroups* known_groups)
      : plan_{plan},
        cluster_{cluster},
        options_{options},
        known_groups_{known_groups},
        resource_of_link_(cluster.link_count(), UINT32_MAX) {}

  System build(const Control& control) {
    system_.requests = collect_requests(plan_.programs);
    requests_of_role_ = requests_of_roles(system_.requests, plan_.programs);
    add_slots();
    reserve();
    for (std::uint32_t g = 0; g < plan_.groups.size(); ++g) {
      if (g % 256 == 0) throw_if_stopped(control);
      add_group(g);
    }
    group_rows_ = static_cast<std::uint32_t>(system_.group_shapes.size());
    throw_if_stopped(control);
    if (plan_.layout.pipeline_parallel > 1) add_peers();
    return std::move(system_);
  }

 private:
  // Some routes have more hops and some groups more patterns: then the vectors grow.
  void reserve() {
    const bool pipeline = plan_.layout.pipeline_parallel > 1;
    const std::size_t peers = pipeline ? 2 * system_.slots.size() : 0;
    system_.channels.reserve(plan_.groups.size() + peers);
    system_.patterns.reserve(2 * plan_.groups.size() + peers);
    system_.members.reserve(group_role_count * system_.slots.size() + 2 * peers);
    system_.uses.reserve(16 * system_.slots.size() + 10 * peers);
    system_.resources.reserve(cluster_.link_count());
  }

  std::uint32_t variant_of(std::uint32_t program, RankId rank) {
    Variant variant{program, 1, static_cast<std::uint32_t>(cluster_.pool_of({rank.value}))};
    for (const Straggler& straggler : options_.stragglers)
      if (straggler.rank == rank) variant.factor *= straggler.factor;
    auto& variants = system_.variants;
    const auto found = std::find(variants.begin(), variants.end(), variant);
    if (found != variants.end()) return static_cast<std::uint32_t>(found - variants.begin());
    variants.push_back(variant);
    return static_cast<std::uint32_t>(variants.size() - 1);
  }

  void add_slots() {
    system_.slots.resize(static_cast<std::size_t>(plan_.world_size()));
    for (std::uint32_t r = 0; r < system_.slots.size(); ++r) {
      RankSlot& slot = system_.slots[r];
      slot.rank = {r};
      slot.program = plan_.program_of_rank[r];
      slot.variant = variant_of(slot.program, slot.rank);
      slot.peer.fill(no_channel);
      for (std::size_t role = 0; role < slot.group.size(); ++role)
        slot.group[role] =
            plan_.group_of[r][role] == Plan::no_group ? no_channel : plan_.group_of[r][role];
    }
  }

  std::uint32_t shape_row(const GroupShape& shape) {
    auto& shapes = system_.group_shapes;
    const auto found = std::find(shapes.begin(), shapes.end(), shape);
    if (found != shapes.end()) return static_cast<std::uint32_t>(found - shapes.begin());
    shapes.push_back(shape);
    add_rows(shapes.size());
    return static_cast<std::uint32_t>(shapes.size() - 1);
  }

  void add_rows(std::size_t rows) {
    system_.costs.resize(rows * system_.requests.size());
    system_.is_priced.resize(system_.costs.size(), 0);
  }

  // The traffic of groups of the role on this row; their requests are priced when the row is first
  // asked for.
  const RoleRow& role_row(std::uint32_t row, GroupRole role) {
    const std::size_t cell =
        row * static_cast<std::size_t>(group_role_count) + static_cast<std::size_t>(role);
    if (cell >= known_.size()) known_.resize(cell + 1, UINT32_MAX);
    if (known_[cell] == UINT32_MAX) {
      const std::vector<std::uint32_t>& requests =
          requests_of_role_[static_cast<std::size_t>(role)];
      for (const std::uint32_t request : requests)
        price_cell(system_, cluster_, options_, row, request);
      known_[cell] = static_cast<std::uint32_t>(system_.role_rows.size());
      system_.role_rows.push_back({role, row, traffic_of(system_, requests, row)});
    }
    return system_.role_rows[known_[cell]];
  }

  void add_group(std::uint32_t g) {
    const Group& group = plan_.groups[g];
    gpus_.clear();
    for (const RankId rank : group.ranks)
      gpus_.push_back({rank.value});
    Channel channel{.first_member = static_cast<std::uint32_t>(system_.members.size()),
                    .member_count = static_cast<std::uint32_t>(group.ranks.size()),
                    .first_pattern = static_cast<std::uint32_t>(system_.patterns.size()),
                    .purpose = static_cast<std::uint32_t>(group.role)};
    for (const RankId rank : group.ranks)
      system_.members.push_back(rank.value);
    if (!copy_from_like_node(channel)) work_out(channel, group.role);
    system_.channels.push_back(channel);
  }

  void work_out(Channel& channel, GroupRole role) {
    channel.shape = shape_row(shape_of_group());
    const int shards =
        is_tensor(role) ? options_.tensor_choice.server_shards : options_.data_choice.server_shards;
    for (const Traffic& traffic : role_row(channel.shape, role).traffic)
      append_pattern(channel, traffic.algorithm, traffic.all_to_all,
                     pattern_of_group(traffic, shards));
    if (within_a_node()) originals_.push_back(static_cast<std::uint32_t>(system_.channels.size()));
  }

  bool may_be_known() const {
    return known_groups_ != nullptr && gpus_.size() >= KnownGroups::least_ranks;
  }

  GroupShape shape_of_group() const {
    return may_be_known() ? known_groups_->shape(cluster_, gpus_) : group_shape(cluster_, gpus_);
  }

  std::vector<Hop> pattern_of_group(const Traffic& traffic, int shards) const {
    return may_be_known()
               ? known_groups_->pattern(cluster_, gpus_, traffic, shards)
               : collective_pattern(cluster_, gpus_, traffic.kind, traffic.algorithm, shards);
  }

  bool within_a_node() const {
    const int node = cluster_.node_of(gpus_.front());
    return cluster_.node_as_built(node) && std::all_of(gpus_.begin(), gpus_.end(), [&](GpuId gpu) {
             return cluster_.node_of(gpu) == node;
           });
  }

  // Nodes of a pool are copies of each other: a group within one is like the first group with the
  // same role and local members, a number of nodes further on.
  bool copy_from_like_node(Channel& channel) {
    if (!within_a_node()) return false;
    const auto per_node = static_cast<std::uint32_t>(cluster_.gpus_per_node());
    for (const std::uint32_t index : originals_) {
      const Channel original = system_.channels[index];
      if (original.purpose != channel.purpose || original.member_count != channel.member_count)
        continue;
      const GpuId member{system_.members[original.first_member]};
      if (cluster_.pool_of(member) != cluster_.pool_of(gpus_.front())) continue;
      // Modulo 2^32, since the original may lie on a later node: added to an id it is exact.
      const int here = cluster_.node_of(gpus_.front());
      const int there = cluster_.node_of(member);
      const auto nodes = static_cast<std::uint32_t>(here - there);
      const auto places =
          static_cast<std::uint32_t>(cluster_.place_of(here) - cluster_.place_of(there));
      const auto same = [&](GpuId gpu, std::uint32_t like) {
        return like + nodes * per_node == gpu.value;
      };
      if (!std::equal(gpus_.begin(), gpus_.end(), system_.members.begin() + original.first_member,
                      same))
        continue;
      channel.shape = original.shape;
      copy_patterns(channel, original, places * cluster_.links_per_node());
      return true;
    }
    return false;
  }

  void copy_patterns(Channel& channel, const Channel& original, std::uint32_t link_shift) {
    for (std::uint32_t p = 0; p < original.pattern_count; ++p) {
      Pattern pattern = system_.patterns[original.first_pattern + p];
      const std::uint32_t first = pattern.first_use;
      pattern.first_use = static_cast<std::uint32_t>(system_.uses.size());
      for (std::uint32_t u = first; u < first + pattern.use_count; ++u) {
        const ResourceUse use = system_.uses[u];
        const LinkId link{system_.resources[use.resource].link.value + link_shift};
        system_.uses.push_back({resource_of(link), use.weight});
      }
      system_.patterns.push_back(pattern);
      ++channel.pattern_count;
    }
  }

  void append_pattern(Channel& channel, Algorithm algorithm, bool all_to_all,
                      std::span<const Hop> hops) {
    Pattern pattern{.algorithm = algorithm,
                    .all_to_all = all_to_all,
                    .first_use = static_cast<std::uint32_t>(system_.uses.size()),
                    .use_count = static_cast<std::uint32_t>(hops.size()),
                    .shared_count = static_cast<std::uint32_t>(hops.size())};
    for (const Hop& hop : hops)
      system_.uses.push_back({resource_of(hop.link), hop.share});
    system_.patterns.push_back(pattern);
    ++channel.pattern_count;
  }

  std::uint32_t resource_of(LinkId link) {
    std::uint32_t& resource = resource_of_link_[link.value];
    if (resource == UINT32_MAX) {
      resource = static_cast<std::uint32_t>(system_.resources.size());
      // A million times what it has is more than all transfers together ask for; and so is what
      // 64 bits hold, which a link to a core comes near to.
      const double own = cluster_.link(link).capacity.in_bytes_per_second();
      const double capacity = options_.link_contention ? own : std::min(1e6 * own, 4e18);
      system_.resources.push_back({.link = link, .capacity = std::llround(capacity)});
    }
    return resource;
  }

  void add_peers() {
    constexpr auto next = static_cast<std::size_t>(Peer::next_stage);
    constexpr auto previous = static_cast<std::size_t>(Peer::previous_stage);
    for (std::uint32_t r = 0; r < system_.slots.size(); ++r) {
      const auto& peers = plan_.peer_of[r];
      if (peers[next].value != r)
        add_peer(r, peers[next].value, Stream::forward_send, Stream::forward_recv);
      if (peers[previous].value != r)
        add_peer(r, peers[previous].value, Stream::backward_send, Stream::backward_recv);
    }
  }

  void add_peer(std::uint32_t from, std::uint32_t to, Stream send, Stream recv) {
    const Route route = cluster_.route({from}, {to});
    Channel channel{.shape = peer_row(route),
                    .first_member = static_cast<std::uint32_t>(system_.members.size()),
                    .member_count = 2,
                    .first_pattern = static_cast<std::uint32_t>(system_.patterns.size()),
                    .purpose = group_role_count + static_cast<std::uint32_t>(send),
                    .point_to_point = true};
    const auto index = static_cast<std::uint32_t>(system_.channels.size());
    system_.slots[from].peer[static_cast<std::size_t>(send)] = index;
    system_.slots[to].peer[static_cast<std::size_t>(recv)] = index;
    system_.members.push_back(from);
    system_.members.push_back(to);
    append_pattern(channel, Algorithm::direct, false, transfer_pattern(cluster_, route));
    system_.channels.push_back(channel);
  }

  // Rows for routes follow those for groups. Routes with equal latency and bandwidth cost the same.
  std::uint32_t peer_row(const Route& route) {
    std::vector<Route>& routes = system_.peer_routes;
    for (std::size_t i = 0; i < routes.size(); ++i)
      if (routes[i].latency == route.latency && routes[i].bandwidth == route.bandwidth &&
          routes[i].kind == route.kind && routes[i].pool == route.pool)
        return group_rows_ + static_cast<std::uint32_t>(i);
    const auto row = group_rows_ + static_cast<std::uint32_t>(routes.size());
    routes.push_back(route);
    add_rows(row + std::size_t{1});
    const std::size_t collectives = system_.requests.collectives.size();
    for (std::size_t t = 0; t < system_.requests.transfers.size(); ++t)
      price_cell(system_, cluster_, options_, row, collectives + t);
    return row;
  }

  const Plan& plan_;
  const Cluster& cluster_;
  const SimulationOptions& options_;
  KnownGroups* known_groups_ = nullptr;
  System system_;
  RequestsOfRole requests_of_role_;
  std::vector<std::uint32_t> resource_of_link_;
  std::vector<std::uint32_t> known_;  // index into role_rows, by row and role
  std::vector<GpuId> gpus_;
  std::vector<std::uint32_t> originals_;  // channels within a node that others are copies of
  std::uint32_t group_rows_ = 0;
};

}  // namespace

System wire(const Plan& plan, const Cluster& cluster, const SimulationOptions& options,
            const Control& control, KnownGroups* known) {
  SIM_CHECK(plan.world_size() <= cluster.gpus(), plan.world_size(), cluster.gpus());
  count_work(Work::groups_wired, plan.groups.size());
  return Wiring{plan, cluster, options, known}.build(control);
}

bool take_requests(System& system, const Plan& plan, const Cluster& cluster,
                   const SimulationOptions& options) {
  system.requests = collect_requests(plan.programs);
  const std::size_t groups = system.group_shapes.size();
  const std::size_t rows = groups + system.peer_routes.size();
  system.costs.assign(rows * system.requests.size(), {});
  system.is_priced.assign(system.costs.size(), 0);
  const RequestsOfRole of_role = requests_of_roles(system.requests, plan.programs);
  for (const RoleRow& known : system.role_rows) {
    const std::vector<std::uint32_t>& requests = of_role[static_cast<std::size_t>(known.role)];
    for (const std::uint32_t request : requests)
      price_cell(system, cluster, options, known.row, request);
    if (traffic_of(system, requests, known.row) != known.traffic) return false;
  }
  for (std::size_t row = groups; row < rows; ++row)
    for (std::size_t t = 0; t < system.requests.transfers.size(); ++t)
      price_cell(system, cluster, options, row, system.requests.collectives.size() + t);
  return true;
}

void price(System& system, const Cluster& cluster, const SimulationOptions& options) {
  const std::size_t width = system.requests.size();
  for (std::size_t cell = 0; cell < system.costs.size(); ++cell)
    if (system.is_priced[cell] != 0)
      price_cell(system, cluster, options, cell / width, cell % width);
}

Call call_of(const System& system, std::uint32_t slot, const Program& program, OpId op) {
  const RankSlot& wired = system.slots[slot];
  const std::uint32_t work = program.work[op.value];
  std::uint32_t channel = no_channel;
  std::uint32_t request = 0;
  if (program.kind[op.value] == OpKind::collective) {
    channel = wired.group[static_cast<std::size_t>(program.collectives[work].group)];
    request = system.requests.of_collective[wired.program][work];
  } else {
    SIM_CHECK(program.kind[op.value] == OpKind::send || program.kind[op.value] == OpKind::recv,
              word(program.kind[op.value]));
    channel = wired.peer[static_cast<std::size_t>(program.stream[op.value])];
    request = static_cast<std::uint32_t>(system.requests.collectives.size()) +
              system.requests.of_transfer[wired.program][work];
  }
  SIM_CHECK(channel != no_channel, program.name(op));
  const std::size_t row = system.channels[channel].shape * system.requests.size();
  return {channel, static_cast<std::uint32_t>(row) + request};
}

}  // namespace sim
