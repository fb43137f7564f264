#include "sim/chakra/et_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "sim/base/check.hpp"
#include "sim/chakra/et_groups.hpp"
#include "sim/chakra/et_order.hpp"
#include "sim/chakra/messages.hpp"
#include "sim/program/program_builder.hpp"

namespace sim {
namespace {

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

class RankProgram {
 public:
  RankProgram(const EtRun& run, std::uint32_t rank, EtGroups& groups, const EtMessages& messages,
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
        break;  // build() has passed them over
    }
    SIM_CHECK(false, node.id);
    return {};
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
    return {OpKind::collective, stream_of_group(*role), work};
  }

  const EtRun& run_;
  std::uint32_t rank_;
  EtGroups& groups_;
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
  EtGroups groups{run, plan};
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
