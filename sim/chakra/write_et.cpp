#include "sim/chakra/write_et.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/base/complete_file.hpp"
#include "sim/chakra/nodes.hpp"
#include "sim/engine/cost_table.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

void write_file(const fs::path& path, const std::string& bytes) {
  CompleteFile file{path.string()};
  file.write(bytes);
  file.commit();
}

EtCollective et_kind(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return EtCollective::all_reduce;
    case CollectiveKind::reduce_scatter:
      return EtCollective::reduce_scatter;
    case CollectiveKind::all_gather:
      return EtCollective::all_gather;
    case CollectiveKind::broadcast:
      return EtCollective::broadcast;
    case CollectiveKind::reduce:
      return EtCollective::reduce;
    case CollectiveKind::all_to_all:
      return EtCollective::all_to_all;
    case CollectiveKind::ring_shift:
    case CollectiveKind::barrier:
      break;
  }
  return EtCollective::barrier;
}

std::uint64_t count_of(Bytes bytes) {
  return static_cast<std::uint64_t>(bytes.count());
}

// Group 0 is that of all ranks in ASTRA-sim, whatever it holds: ours are numbered from 1.
std::string group_name(std::uint32_t group) {
  return fmt::format("{}", group + 1);
}

nlohmann::json ranks_of(const Group& group) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankId rank : group.ranks)
    ranks.push_back(rank.value);
  return ranks;
}

std::string groups_file(const Plan& plan) {
  nlohmann::ordered_json file = nlohmann::ordered_json::object();
  for (std::uint32_t g = 0; g < plan.groups.size(); ++g)
    file[group_name(g)] = ranks_of(plan.groups[g]);
  return file.dump() + "\n";
}

// As PyTorch records its process groups: a list within [" and "].
std::string groups_text(const Plan& plan, RankId rank) {
  nlohmann::json list = nlohmann::json::array();
  for (const std::uint32_t g : plan.group_of[rank.value])
    if (g != Plan::no_group)
      list.push_back({{"pg_name", group_name(g)}, {"ranks", ranks_of(plan.groups[g])}});
  return "[\"" + list.dump() + "\"]";
}

class RankNodes {
 public:
  RankNodes(const Plan& plan, RankId rank, const std::vector<KernelCost>& costs)
      : plan_{plan}, program_{plan.program(rank)}, rank_{rank}, costs_{costs} {
    last_of_op_.resize(program_.size());
  }

  std::vector<EtNode> nodes() {
    EtNode groups{.id = next_id_++, .name = "process_groups", .type = EtType::metadata};
    groups.values = groups_text(plan_, rank_);
    nodes_.push_back(std::move(groups));
    for (std::uint32_t op = 0; op < program_.size(); ++op)
      add(OpId{op});
    return std::move(nodes_);
  }

 private:
  void add(OpId op) {
    const OpKind kind = program_.kind[op.value];
    if (kind == OpKind::collective)
      collective(op);
    else if (kind == OpKind::send || kind == OpKind::recv)
      message(op);
    else
      kernel(op);
  }

  EtNode begun(OpId op, EtType type) {
    EtNode node{.id = next_id_++, .name = program_.name(op), .type = type};
    const auto stream = static_cast<std::size_t>(program_.stream[op.value]);
    if (last_of_stream_[stream]) node.dependencies.push_back(*last_of_stream_[stream]);
    for (const OpId on : program_.dependencies(op))
      node.dependencies.push_back(last_of_op_[on.value]);
    return node;
  }

  void finish(OpId op, EtNode node) {
    last_of_op_[op.value] = node.id;
    last_of_stream_[static_cast<std::size_t>(program_.stream[op.value])] = node.id;
    nodes_.push_back(std::move(node));
  }

  // Whole microseconds whose sum over a stream is that of the picoseconds, rounded.
  std::uint64_t micros(OpId op) {
    std::int64_t& passed = passed_[static_cast<std::size_t>(program_.stream[op.value])];
    const std::int64_t before = passed;
    if (program_.kind[op.value] != OpKind::barrier)
      passed += costs_[program_.work[op.value]].time.count();
    constexpr std::int64_t micro = 1'000'000;
    return static_cast<std::uint64_t>((passed + micro / 2) / micro - (before + micro / 2) / micro);
  }

  void kernel(OpId op) {
    EtNode node = begun(op, EtType::compute);
    node.duration_micros = micros(op);
    if (program_.kind[op.value] != OpKind::barrier) {
      const Kernel& of = program_.kernels[program_.work[op.value]];
      node.operations = of.flops.count();
      node.tensor_bytes = count_of(of.bytes);
    }
    node.on_host = program_.stream[op.value] == Stream::host_compute;
    finish(op, std::move(node));
  }

  void collective(OpId op) {
    const Collective& of = program_.collectives[program_.work[op.value]];
    const std::uint32_t group = plan_.group_of[rank_.value][static_cast<std::size_t>(of.group)];
    if (group == Plan::no_group) return finish(op, begun(op, EtType::compute));
    const std::vector<RankId>& ranks = plan_.groups[group].ranks;
    if (of.kind == CollectiveKind::ring_shift) return shift(op, of, ranks);
    EtNode node = begun(op, EtType::collective);
    node.collective = et_kind(of.kind);
    node.group = group_name(group);
    node.comm_bytes = count_of(of.bytes);
    if (of.kind == CollectiveKind::all_gather) node.comm_bytes /= ranks.size();
    finish(op, std::move(node));
  }

  void shift(OpId op, const Collective& of, const std::vector<RankId>& ranks) {
    const auto at = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
    const auto size = static_cast<std::ptrdiff_t>(ranks.size());
    EtNode send = begun(op, EtType::send);
    send.source = rank_.value;
    send.destination = ranks[static_cast<std::size_t>((at + 1) % size)].value;
    send.comm_bytes = count_of(of.bytes);
    EtNode receive = begun(op, EtType::receive);
    receive.source = ranks[static_cast<std::size_t>((at + size - 1) % size)].value;
    receive.destination = rank_.value;
    receive.comm_bytes = count_of(of.bytes);
    EtNode both{.id = next_id_++, .name = program_.name(op), .type = EtType::metadata};
    both.dependencies = {send.id, receive.id};
    nodes_.push_back(std::move(send));
    nodes_.push_back(std::move(receive));
    finish(op, std::move(both));
  }

  void message(OpId op) {
    const Transfer& of = program_.transfers[program_.work[op.value]];
    const bool sends = program_.kind[op.value] == OpKind::send;
    const std::uint32_t other = plan_.peer_of[rank_.value][static_cast<std::size_t>(of.peer)].value;
    EtNode node = begun(op, sends ? EtType::send : EtType::receive);
    node.source = sends ? rank_.value : other;
    node.destination = sends ? other : rank_.value;
    // Messages of the two directions between the same ranks are told apart.
    node.tag = sends == (of.peer == Peer::next_stage) ? 0 : 1;
    node.comm_bytes = count_of(of.bytes);
    finish(op, std::move(node));
  }

  const Plan& plan_;
  const Program& program_;
  RankId rank_;
  const std::vector<KernelCost>& costs_;
  std::uint64_t next_id_ = 1;
  std::vector<EtNode> nodes_;
  std::vector<std::uint64_t> last_of_op_;
  std::array<std::optional<std::uint64_t>, stream_count> last_of_stream_{};
  std::array<std::int64_t, stream_count> passed_{};  // ps
};

std::vector<std::string> notes_on(const Plan& plan) {
  std::vector<std::string> notes{
      "times of kernels are those of the cluster, alone on a device: "
      "without the host, and without what communication takes of them"};
  bool reduces = false, barriers = false, waits = false;
  for (const Program& program : plan.programs) {
    waits = waits || !program.host_waits.empty();
    for (const Collective& of : program.collectives) {
      reduces = reduces || of.kind == CollectiveKind::reduce;
      barriers = barriers || of.kind == CollectiveKind::barrier;
    }
  }
  if (reduces || barriers)
    notes.emplace_back("reduces and barriers are written; ASTRA-sim does not run them");
  if (waits) notes.emplace_back("where the host waits for the device is left out");
  return notes;
}

}  // namespace

WrittenEt write_et(const std::string& folder, const std::string& name, const Plan& plan,
                   const Cluster& cluster, const SimulationOptions& options) {
  WrittenEt written{.files = 0, .nodes = 0, .notes = notes_on(plan)};
  fs::create_directories(folder);
  const KernelPricing pricing{cluster, options, plan.world_size()};
  std::vector<std::vector<KernelCost>> costs;
  costs.reserve(plan.programs.size());
  for (const Program& program : plan.programs)
    costs.push_back(pricing.costs_of(program));
  for (std::uint32_t r = 0; r < plan.program_of_rank.size(); ++r) {
    const EtFile file{.path = {},
                      .version = "0.0.4",
                      .nodes = RankNodes{plan, {r}, costs[plan.program_of_rank[r]]}.nodes()};
    written.nodes += file.nodes.size();
    ++written.files;
    write_file(fs::path{folder} / fmt::format("{}.{}.et", name, r), et_text(file));
  }
  write_file(fs::path{folder} / "comm_groups.json", groups_file(plan));
  return written;
}

}  // namespace sim
