#include "real/cuda/nccl/communicators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "sim/base/check.hpp"

namespace real {

namespace {

using sim::CollectiveKind;
using sim::GroupRole;
using sim::OpKind;
using sim::Peer;
using sim::RankId;
using sim::Stream;

constexpr std::uint64_t message_order = std::uint64_t{1} << 32;  // behind all groups

// Neighbours in rank order share a node.
int node_of(RankId rank, const Algorithms& algorithms) {
  return algorithms.ranks_per_node > 0 ? static_cast<int>(rank.value) / algorithms.ranks_per_node
                                       : 0;
}

// Members of each node, in the order of the group.
std::map<int, std::vector<int>> nodes_of(std::span<const RankId> ranks,
                                         const Algorithms& algorithms) {
  std::map<int, std::vector<int>> nodes;
  for (const RankId rank : ranks) {
    nodes[node_of(rank, algorithms)].push_back(static_cast<int>(rank.value));
  }
  return nodes;
}

int position_in(const std::vector<int>& members, RankId rank) {
  const auto at = std::find(members.begin(), members.end(), static_cast<int>(rank.value));
  SIM_CHECK(at != members.end(), rank.value);
  return static_cast<int>(at - members.begin());
}

class Grouping {
 public:
  Grouping(const BoundProgram& program, const Algorithms& algorithms)
      : program_{program}, algorithms_{algorithms} {}

  std::vector<Communicator> run() {
    for (const BoundOp& op : program_.ops) {
      if (op.collective != nullptr) add_group(op);
      if (op.transfer != nullptr) add_message(op);
    }
    std::vector<Communicator> result;
    for (auto& [order, communicator] : all_)
      result.push_back(std::move(communicator));
    return result;
  }

 private:
  void add(Communicator communicator) {
    communicator.position = position_in(communicator.members, program_.rank);
    const auto order = communicator.order;
    const std::vector<CollectiveKind> more = communicator.collectives;
    std::vector<CollectiveKind>& kinds =
        all_.emplace(order, std::move(communicator)).first->second.collectives;
    std::vector<CollectiveKind> both;
    std::set_union(kinds.begin(), kinds.end(), more.begin(), more.end(), std::back_inserter(both));
    kinds = std::move(both);
  }

  void add_group(const BoundOp& op) {
    const GroupRole role = op.collective->group;
    const BoundGroup& group = program_.groups[static_cast<std::size_t>(role)];
    if (group.index == sim::Plan::no_group || group.ranks.size() < 2) return;
    const AlgorithmChoice algorithm = algorithms_.of(role);
    const bool composed = algorithm == AlgorithmChoice::hierarchical &&
                          op.collective->kind == CollectiveKind::all_reduce;
    const auto nodes = nodes_of(group.ranks, algorithms_);
    Communicator base;
    base.stream = op.stream;
    base.role = role;
    const auto stream = static_cast<std::uint64_t>(op.stream);
    if (!composed || nodes.size() < 2 || nodes.size() == group.ranks.size()) {
      for (const RankId rank : group.ranks) {
        base.members.push_back(static_cast<int>(rank.value));
      }
      // Hierarchical on one node, or with one rank on each, is a plain all-reduce.
      base.algorithm =
          algorithm == AlgorithmChoice::hierarchical ? AlgorithmChoice::automatic : algorithm;
      base.order = {group.index, stream, 0};
      base.collectives = {op.collective->kind};
      return add(base);
    }
    add_hierarchy(base, group, nodes);
  }

  void add_hierarchy(const Communicator& base, const BoundGroup& group,
                     const std::map<int, std::vector<int>>& nodes) {
    const auto own_node = static_cast<std::uint64_t>(node_of(program_.rank, algorithms_));
    const std::vector<int>& own = nodes.at(static_cast<int>(own_node));
    const int rail = position_in(own, program_.rank);
    const auto stream = static_cast<std::uint64_t>(base.stream);
    Communicator node = base;
    node.kind = CommunicatorKind::node;
    node.members = own;
    node.collectives = {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter,
                        CollectiveKind::all_gather};
    node.order = {group.index, stream, 1 + 2 * own_node};
    add(node);
    Communicator across = base;
    across.kind = CommunicatorKind::rail;
    across.collectives = {CollectiveKind::all_reduce};
    for (const auto& [id, members] : nodes) {
      across.members.push_back(members[static_cast<std::size_t>(rail)]);
    }
    across.order = {group.index, stream, 2 + 2 * static_cast<std::uint64_t>(rail)};
    add(across);
  }

  void add_message(const BoundOp& op) {
    const auto peer = static_cast<std::size_t>(op.transfer->peer);
    const RankId other = program_.plan->peer_of[program_.rank.value][peer];
    const bool sends = op.kind == OpKind::send;
    const bool forward = op.stream == Stream::forward_send || op.stream == Stream::forward_recv;
    const RankId from = sends ? program_.rank : other;
    const RankId to = sends ? other : program_.rank;
    add({.kind = CommunicatorKind::message,
         .stream = op.stream,
         .members = {static_cast<int>(from.value), static_cast<int>(to.value)},
         .order = {message_order + from.value, to.value, forward ? 0U : 1U}});
  }

  const BoundProgram& program_;
  const Algorithms& algorithms_;
  std::map<std::array<std::uint64_t, 3>, Communicator> all_;
};

}  // namespace

std::string Communicator::name() const {
  std::string ranks;
  for (const int rank : members)
    ranks += fmt::format(" {}", rank);
  const char* parts[] = {"", " (node)", " (rail)", ""};
  if (kind == CommunicatorKind::message) {
    return fmt::format("message on {}, ranks{}", sim::word(stream), ranks);
  }
  return fmt::format("{}{} on {}, ranks{}", sim::word(role), parts[static_cast<std::size_t>(kind)],
                     sim::word(stream), ranks);
}

std::vector<Communicator> communicators_of(const BoundProgram& program,
                                           const Algorithms& algorithms) {
  return Grouping{program, algorithms}.run();
}

std::vector<std::string> algorithm_problems(const sim::Plan& plan, const Algorithms& algorithms) {
  std::set<std::string> problems;
  for (const sim::Group& group : plan.groups) {
    const AlgorithmChoice choice = algorithms.of(group.role);
    const std::string role{sim::word(group.role)};
    if (choice == AlgorithmChoice::halving_doubling) {
      problems.insert(fmt::format(
          "{} collectives: NCCL has no halving-doubling algorithm; allowed: ring, tree, "
          "hierarchical, auto",
          role));
    }
    if (choice != AlgorithmChoice::hierarchical) continue;
    const auto nodes = nodes_of(group.ranks, algorithms);
    for (const auto& [id, members] : nodes) {
      if (members.size() == nodes.begin()->second.size()) continue;
      problems.insert(fmt::format(
          "{} collectives: hierarchical needs equally many ranks of the group on each node, but "
          "with {} ranks per node they are {} and {}",
          role, algorithms.ranks_per_node, nodes.begin()->second.size(), members.size()));
    }
  }
  return {problems.begin(), problems.end()};
}

const char* nccl_algorithm(AlgorithmChoice algorithm) {
  switch (algorithm) {
    case AlgorithmChoice::ring:
      return "allreduce:ring";
    case AlgorithmChoice::tree:
      return "allreduce:tree";
    default:
      return nullptr;
  }
}

}  // namespace real
