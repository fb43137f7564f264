#include "sim/chakra/et_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_map>

#include "sim/base/input_error.hpp"
#include "sim/chakra/et_order.hpp"
#include "sim/chakra/messages.hpp"
#include "sim/program/program_builder.hpp"

namespace sim {
namespace {

// A plan names the communicators of a rank by role. Those of traces have none: they take these in
// turn. `world` is that of all ranks.
constexpr std::array roles_of_groups{
    GroupRole::data,          GroupRole::tensor,          GroupRole::context, GroupRole::expert,
    GroupRole::expert_tensor, GroupRole::expert_data,     GroupRole::shard,   GroupRole::replicate,
    GroupRole::expert_shard,  GroupRole::expert_replicate};
constexpr std::array streams_of_groups{Stream::data_comm, Stream::tensor_comm,
                                       Stream::context_comm};

// One stream for each communicator, as far as there are: the same on all its ranks.
Stream stream_of(GroupRole role) {
  const auto* const at = std::find(roles_of_groups.begin(), roles_of_groups.end(), role);
  return streams_of_groups[static_cast<std::size_t>(at - roles_of_groups.begin()) %
                           streams_of_groups.size()];
}

struct Counts {
  std::size_t missing = 0, without_time = 0, by_shape = 0, timed = 0;
};

// Equal items once, by number.
template <class Item>
class Numbered {
 public:
  std::uint32_t operator()(const std::string& key, const Item& item) {
    const auto [at, added] = number_.emplace(key, static_cast<std::uint32_t>(items.size()));
    if (added) items.push_back(item);
    return at->second;
  }
  std::vector<Item> items;

 private:
  std::unordered_map<std::string, std::uint32_t> number_;
};

std::optional<CollectiveKind> kind_of(EtCollective kind) {
  switch (kind) {
    case EtCollective::all_reduce:
      return CollectiveKind::all_reduce;
    case EtCollective::reduce:
      return CollectiveKind::reduce;
    case EtCollective::all_gather:
      return CollectiveKind::all_gather;
    case EtCollective::broadcast:
      return CollectiveKind::broadcast;
    case EtCollective::all_to_all:
      return CollectiveKind::all_to_all;
    case EtCollective::reduce_scatter:
    case EtCollective::reduce_scatter_block:
      return CollectiveKind::reduce_scatter;
    case EtCollective::barrier:
      return CollectiveKind::barrier;
    case EtCollective::gather:
    case EtCollective::scatter:
      return std::nullopt;
  }
  return std::nullopt;
}

// The groups of the plan, and which role each has on each rank.
class GroupRoles {
 public:
  GroupRoles(const EtRun& run, Plan& plan) : run_{run}, plan_{plan} {
    std::array<std::uint32_t, group_role_count> none;
    none.fill(Plan::no_group);
    plan_.group_of.assign(run.ranks.size(), none);
  }

  // Empty: the group is this rank alone.
  std::optional<GroupRole> role_of(std::uint32_t rank, const EtNode& node) {
    const bool named = !node.group.empty() && node.group != "0";
    const auto known = run_.groups.find(node.group);
    if (named && known == run_.groups.end())
      fail(rank, node, fmt::format("there is no group '{}'; known are {}", node.group, names()));
    if (known == run_.groups.end()) return world(rank, node);
    const std::vector<RankId>& ranks = known->second;
    if (!std::binary_search(ranks.begin(), ranks.end(), RankId{rank}))
      fail(rank, node, fmt::format("rank {} is not in its group '{}'", rank, node.group));
    if (ranks.size() < 2) return std::nullopt;
    return placed(rank, node, ranks);
  }

  std::size_t size_of(std::uint32_t rank, GroupRole role) const {
    return plan_.groups[plan_.group_of[rank][static_cast<std::size_t>(role)]].ranks.size();
  }

  [[noreturn]] void fail(std::uint32_t rank, const EtNode& node, const std::string& what) const {
    throw InputError{SourcePosition{run_.ranks[rank].path, 0, 0},
                     fmt::format("node {} ('{}'): {}", node.id, node.name, what)};
  }

 private:
  std::optional<GroupRole> world(std::uint32_t rank, const EtNode& node) {
    if (std::find(node.dimensions.begin(), node.dimensions.end(), false) != node.dimensions.end())
      fail(rank, node,
           "involved_dim leaves dimensions of the network out; name the ranks as a "
           "process group (pg_name)");
    if (run_.ranks.size() < 2) return std::nullopt;
    if (all_.empty())
      for (std::uint32_t r = 0; r < run_.ranks.size(); ++r)
        all_.push_back({r});
    return placed(rank, node, all_);
  }

  GroupRole placed(std::uint32_t rank, const EtNode& node, const std::vector<RankId>& ranks) {
    const auto [at, added] =
        number_.emplace(ranks, static_cast<std::uint32_t>(plan_.groups.size()));
    if (added) plan_.groups.push_back({GroupRole::world, ranks});
    if (ranks.size() == run_.ranks.size()) return take(rank, GroupRole::world, at->second);
    for (const GroupRole role : roles_of_groups) {
      // A group has one role on all its ranks.
      if (role_[at->second] && *role_[at->second] != role) continue;
      if (!role_[at->second] && !free_on_all(ranks, role)) continue;
      return take_on_all(ranks, role, at->second);
    }
    fail(rank, node,
         fmt::format("a rank is in more than {} groups that overlap", roles_of_groups.size()));
  }

  bool free_on_all(const std::vector<RankId>& ranks, GroupRole role) const {
    return std::all_of(ranks.begin(), ranks.end(), [&](RankId rank) {
      return plan_.group_of[rank.value][static_cast<std::size_t>(role)] == Plan::no_group;
    });
  }

  GroupRole take(std::uint32_t rank, GroupRole role, std::uint32_t group) {
    plan_.groups[group].role = role;
    plan_.group_of[rank][static_cast<std::size_t>(role)] = group;
    return role;
  }
  GroupRole take_on_all(const std::vector<RankId>& ranks, GroupRole role, std::uint32_t group) {
    role_[group] = role;
    for (const RankId rank : ranks)
      take(rank.value, role, group);
    return role;
  }

  std::string names() const {
    std::string list;
    std::size_t shown = 0;
    for (const auto& [name, ranks] : run_.groups) {
      if (shown == 8) return list + ", ...";
      list += fmt::format("{}{}", shown++ == 0 ? "" : ", ", name);
    }
    return list.empty() ? "none: a metadata node or comm_groups.json tells them" : list;
  }

  const EtRun& run_;
  Plan& plan_;
  std::map<std::vector<RankId>, std::uint32_t> number_;
  std::map<std::uint32_t, std::optional<GroupRole>> role_;
  std::vector<RankId> all_;
};

class RankProgram {
 public:
  RankProgram(const EtRun& run, std::uint32_t rank, GroupRoles& groups, const EtMessages& messages,
              Counts& counts)
      : run_{run}, rank_{rank}, groups_{groups}, messages_{messages}, counts_{counts} {}

  Program build(const EtOrder& order) {
    const EtFile& file = run_.ranks[rank_];
    std::vector<std::vector<OpId>> ends(file.nodes.size());  // what a node's followers wait for
    builder_.reserve(file.nodes.size());
    for (const std::uint32_t i : order.nodes) {
      const EtNode& node = file.nodes[i];
      const std::vector<OpId> before = last_of_streams(order.dependencies[i], ends);
      if (node.type == EtType::invalid || node.type == EtType::metadata) {
        ends[i] = before;
        continue;
      }
      const Placed placed = place(node);
      for (const OpId on : before)
        builder_.wait(placed.stream, on);
      const OpLabel label{.name = names_(node.name, node.name)};
      ends[i] = {builder_.add(placed.kind, placed.stream, Pass::forward, placed.work, label, {})};
    }
    Program program = builder_.finish();
    program.kernels = std::move(kernels_.items);
    program.collectives = std::move(collectives_.items);
    program.transfers = std::move(transfers_.items);
    program.names = std::move(names_.items);
    return program;
  }

 private:
  struct Placed {
    OpKind kind = OpKind::generic;
    Stream stream = Stream::compute;
    std::uint32_t work = 0;
  };

  // The operators that end last on each stream: they imply the others.
  std::vector<OpId> last_of_streams(const std::vector<std::uint32_t>& nodes,
                                    const std::vector<std::vector<OpId>>& ends) const {
    std::map<Stream, OpId> last;
    for (const std::uint32_t node : nodes)
      for (const OpId op : ends[node]) {
        const auto [at, added] = last.emplace(builder_.stream_of(op), op);
        if (!added) at->second = std::max(at->second, op);
      }
    std::vector<OpId> ops;
    for (const auto& [stream, op] : last)
      ops.push_back(op);
    return ops;
  }

  Placed place(const EtNode& node) {
    switch (node.type) {
      case EtType::compute:
        return node.on_host ? timed(node.duration_micros, Stream::host_compute) : compute(node);
      case EtType::memory_load:
      case EtType::memory_store:
        return host_copy(node);
      case EtType::send:
      case EtType::receive:
        return message(node);
      case EtType::collective:
        return collective(node);
      case EtType::invalid:
      case EtType::metadata:
        break;
    }
    return timed(0, Stream::host_compute);
  }

  Placed timed(std::uint64_t micros, Stream stream) {
    const Duration time{static_cast<std::int64_t>(micros) * 1'000'000};
    return {OpKind::generic, stream,
            kernels_(fmt::format("t{}", micros), Kernel{.kind = OpKind::generic, .known = time})};
  }

  Placed compute(const EtNode& node) {
    if (node.duration_micros > 0 || (node.operations == 0 && node.tensor_bytes == 0)) {
      ++(node.duration_micros > 0 ? counts_.timed : counts_.without_time);
      return timed(node.duration_micros, Stream::compute);
    }
    ++counts_.by_shape;
    Kernel kernel{.kind = OpKind::generic};
    kernel.flops = Flops{node.operations};
    kernel.bytes = Bytes{static_cast<std::int64_t>(node.tensor_bytes)};
    return {OpKind::generic, Stream::compute,
            kernels_(fmt::format("f{:a} {}", node.operations, node.tensor_bytes), kernel)};
  }

  Placed host_copy(const EtNode& node) {
    Kernel kernel{.kind = OpKind::host_copy};
    kernel.bytes = Bytes{static_cast<std::int64_t>(node.tensor_bytes)};
    return {OpKind::host_copy,
            node.type == EtType::memory_load ? Stream::host_load : Stream::host_copy,
            kernels_(fmt::format("h{}", node.tensor_bytes), kernel)};
  }

  Placed message(const EtNode& node) {
    const bool sends = node.type == EtType::send;
    const std::uint32_t other = sends ? *node.destination : *node.source;
    const Peer way = messages_.way.at(sends ? std::pair{rank_, other} : std::pair{other, rank_});
    const bool forward = way == Peer::next_stage;
    Transfer transfer{.bytes = Bytes{static_cast<std::int64_t>(node.comm_bytes)}};
    transfer.peer = sends == forward ? Peer::next_stage : Peer::previous_stage;
    const Stream stream = sends ? (forward ? Stream::forward_send : Stream::backward_send)
                                : (forward ? Stream::forward_recv : Stream::backward_recv);
    return {sends ? OpKind::send : OpKind::recv, stream,
            transfers_(fmt::format("{} {}", static_cast<int>(transfer.peer), node.comm_bytes),
                       transfer)};
  }

  Placed collective(const EtNode& node) {
    const auto kind = node.collective ? kind_of(*node.collective) : std::nullopt;
    if (!kind)
      groups_.fail(rank_, node,
                   node.collective ? "a gather or a scatter is not simulated"
                                   : "a collective without comm_type");
    const std::optional<GroupRole> role = groups_.role_of(rank_, node);
    if (!role) return timed(0, Stream::data_comm);  // a group of one rank
    const std::size_t size = groups_.size_of(rank_, *role);
    const std::uint64_t whole =
        *kind == CollectiveKind::all_gather ? node.comm_bytes * size : node.comm_bytes;
    const Collective made{
        .kind = *kind, .group = *role, .bytes = Bytes{static_cast<std::int64_t>(whole)}};
    const std::uint32_t work = collectives_(
        fmt::format("{} {} {}", static_cast<int>(*kind), static_cast<int>(*role), whole), made);
    return {OpKind::collective, stream_of(*role), work};
  }

  const EtRun& run_;
  std::uint32_t rank_;
  GroupRoles& groups_;
  const EtMessages& messages_;
  Counts& counts_;
  ProgramBuilder builder_{0};
  Numbered<Kernel> kernels_;
  Numbered<Collective> collectives_;
  Numbered<Transfer> transfers_;
  Numbered<std::string> names_;
};

void add_note(std::vector<std::string>& notes, std::size_t count, const char* what) {
  if (count > 0) notes.push_back(fmt::format("{} {}", count, what));
}

}  // namespace

EtPlan plan_of(const EtRun& run) {
  EtPlan made;
  Plan& plan = made.plan;
  Counts counts;
  std::vector<EtOrder> orders;
  for (const EtFile& file : run.ranks) {
    orders.push_back(order_of(file));
    counts.missing += orders.back().missing;
  }
  const EtMessages messages = messages_of(run, orders);
  (messages.peer_of.empty() ? plan.layout.data_parallel : plan.layout.pipeline_parallel) =
      run.world_size();
  plan.peer_of = messages.peer_of;
  for (std::uint32_t r = 0; plan.peer_of.size() < run.ranks.size(); ++r)
    plan.peer_of.push_back({RankId{r}, RankId{r}});
  GroupRoles groups{run, plan};
  for (std::uint32_t rank = 0; rank < run.ranks.size(); ++rank) {
    plan.program_of_rank.push_back(static_cast<std::uint32_t>(plan.programs.size()));
    plan.programs.push_back(RankProgram{run, rank, groups, messages, counts}.build(orders[rank]));
  }
  add_note(made.notes, counts.timed, "kernels take the time of the trace");
  add_note(made.notes, counts.by_shape,
           "kernels have no time: that of their FLOPs (bf16) and bytes on the device is taken");
  add_note(made.notes, counts.without_time,
           "kernels have neither a time nor FLOPs and bytes: they take none");
  add_note(made.notes, counts.missing,
           "dependencies on nodes that the traces do not have are left out");
  return made;
}

}  // namespace sim
