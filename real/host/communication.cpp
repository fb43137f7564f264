#include "real/host/communication.hpp"

#include <algorithm>

#include "real/engine/keys_exchange.hpp"
#include "real/engine/launch/kernel_launches.hpp"
#include "real/engine/operator_facts.hpp"
#include "real/host/context_exchange.hpp"
#include "real/host/partial_average.hpp"
#include "real/host/token_exchange.hpp"
#include "sim/base/check.hpp"

namespace real {

using sim::Action;
using sim::CollectiveKind;
using sim::Role;
using sim::Stream;

namespace {

// A send or a receive.
class Message : public HostExchange {
 public:
  Message(Transport& transport, Ticket ticket) : pending_{transport, ticket} {}
  bool progress() override { return pending_.done(); }

 private:
  Pending pending_;
};

class Collective : public HostExchange {
 public:
  Collective(Transport& transport, const CollectiveCall& call)
      : run_{start_collective(transport, call)} {}
  bool progress() override { return run_->progress(); }

 private:
  std::unique_ptr<CollectiveRun> run_;
};

// Pieces of gradients, packed into one message and put back.
class SummedPieces : public HostExchange {
 public:
  SummedPieces(Transport& transport, const CollectiveCall& call, std::span<const Operand> pieces,
               Arena& arena)
      : pieces_{pieces},
        arena_{arena},
        message_{call.output},
        run_{(pack(), start_collective(transport, call))} {}
  bool progress() override {
    if (!run_->progress()) return false;
    std::span<const std::byte> from = message_;
    for (const Operand& piece : pieces_) {
      const std::span<std::byte> to = arena_.bytes(piece);
      std::copy_n(from.begin(), to.size(), to.begin());
      from = from.subspan(to.size());
    }
    return true;
  }

 private:
  void pack() {
    std::span<std::byte> to = message_;
    for (const Operand& piece : pieces_) {
      const std::span<const std::byte> from = arena_.bytes(piece);
      SIM_CHECK(from.size() <= to.size(), from.size(), to.size());
      std::copy(from.begin(), from.end(), to.begin());
      to = to.subspan(from.size());
    }
    std::fill(to.begin(), to.end(), std::byte{0});
  }

  std::span<const Operand> pieces_;
  Arena& arena_;
  std::span<std::byte> message_;
  std::unique_ptr<CollectiveRun> run_;
};

// Members on each node if all nodes have as many; else 0. Members stand in the order of ranks.
int equal_nodes(std::span<const int> members, int ranks_per_node) {
  const auto size = static_cast<int>(members.size());
  if (ranks_per_node <= 0) return size;
  const auto node = [&](int position) {
    return members[static_cast<std::size_t>(position)] / ranks_per_node;
  };
  int per_node = 1;
  while (per_node < size && node(per_node) == node(0))
    ++per_node;
  if (size % per_node != 0) return 0;
  for (int at = 0; at < size; ++at) {
    if (node(at) != node(at / per_node * per_node)) return 0;
  }
  return per_node;
}

}  // namespace

std::uint32_t collective_channel(std::uint32_t group, Stream stream) {
  return group * static_cast<std::uint32_t>(sim::stream_count) + static_cast<std::uint32_t>(stream);
}

std::uint32_t stage_channel(bool forward) {
  return first_stage_channel + (forward ? 0 : 1);
}

RunAlgorithm algorithm_for(CollectiveKind kind, AlgorithmChoice choice,
                           std::span<const int> members, int ranks_per_node) {
  const int per_node = equal_nodes(members, ranks_per_node);
  const auto tree = [&] { return RunAlgorithm{CollectiveAlgorithm::tree, per_node}; };
  switch (kind) {
    case CollectiveKind::all_reduce:
      break;
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce:
      if (choice == AlgorithmChoice::tree) return tree();
      return {};
    case CollectiveKind::barrier:
      return tree();
    default:
      return {};
  }
  switch (choice) {
    case AlgorithmChoice::automatic:
    case AlgorithmChoice::ring:
      return {};
    case AlgorithmChoice::tree:
      return tree();
    case AlgorithmChoice::halving_doubling:
      return {CollectiveAlgorithm::halving_doubling, 0};
    case AlgorithmChoice::hierarchical:
      if (per_node == 0) return {};
      return {CollectiveAlgorithm::hierarchical, per_node};
  }
  return {};
}

Communication::Communication(const Parts& parts)
    : parts_{parts}, summed_{summed_pieces(parts.program, sizeof(float))} {
  for (std::size_t role = 0; role < members_.size(); ++role) {
    for (const sim::RankId rank : parts.program.groups[role].ranks)
      members_[role].push_back(static_cast<int>(rank.value));
  }
}

std::unique_ptr<HostExchange> Communication::start(const BoundOp& op) {
  if (op.transfer != nullptr) return start_message(op);
  SIM_CHECK(op.collective != nullptr, static_cast<int>(op.action));
  if (parts_.routing != nullptr && op.action == Action::exchange_tokens) return start_tokens(op);
  const CollectiveCall call = call_of(op);
  if (exchanges_keys(op.action))
    return start_context_exchange(parts_.program, op, parts_.transport, parts_.arena, call);
  if (op.action == Action::sum_tensor_gradients) {
    return std::make_unique<SummedPieces>(parts_.transport, call, summed_, parts_.arena);
  }
  if (parts_.lost != nullptr && is_average(op))
    return start_partial_average(parts_.transport, call, *parts_.lost, step_, op.subject);
  return std::make_unique<Collective>(parts_.transport, call);
}

std::unique_ptr<HostExchange> Communication::start_tokens(const BoundOp& op) {
  const sim::Collective& collective = *op.collective;
  const BoundGroup& group = parts_.program.groups[static_cast<std::size_t>(collective.group)];
  return start_token_exchange({.kind = collective.kind,
                               .to_experts = is_to_experts(op),
                               .table = parts_.routing->of(op),
                               .transport = parts_.transport,
                               .members = members(collective.group),
                               .position = group.position,
                               .channel = collective_channel(group.index, op.stream),
                               .row = parts_.routing->row_bytes(op),
                               .input = parts_.arena.bytes(op.operand(Role::input)),
                               .output = parts_.arena.bytes(op.operand(Role::output))});
}

std::unique_ptr<HostExchange> Communication::start_message(const BoundOp& op) {
  const auto peer = static_cast<std::size_t>(op.transfer->peer);
  const sim::RankId rank = parts_.program.plan->peer_of[parts_.program.rank.value][peer];
  const auto partner = static_cast<int>(rank.value);
  const bool forward = op.stream == Stream::forward_send || op.stream == Stream::forward_recv;
  const auto count = static_cast<std::size_t>(op.transfer->bytes.count());
  Ticket ticket = 0;
  if (op.action == Action::send) {
    std::span<const std::byte> data = parts_.arena.bytes(op.operand(Role::input));
    // Without sequence parallelism every tensor rank holds the whole and sends its part.
    if (data.size() > count) {
      SIM_CHECK(data.size() % count == 0, data.size(), count);
      data = data.subspan(static_cast<std::size_t>(parts_.program.at.tensor) * count);
    }
    ticket = parts_.transport.start_send(partner, stage_channel(forward), data.first(count));
  } else {
    const std::span<std::byte> data = parts_.arena.bytes(op.operand(Role::output));
    SIM_CHECK(op.action == Action::receive && data.size() == count, data.size(), count);
    ticket = parts_.transport.start_receive(partner, stage_channel(forward), data);
  }
  return std::make_unique<Message>(parts_.transport, ticket);
}

CollectiveCall Communication::call_of(const BoundOp& op) {
  const sim::Collective& collective = *op.collective;
  const BoundGroup& group = parts_.program.groups[static_cast<std::size_t>(collective.group)];
  SIM_CHECK(group.index != sim::Plan::no_group, static_cast<int>(collective.group));
  const RunAlgorithm how =
      algorithm_for(collective.kind, parts_.algorithms.of(collective.group),
                    members(collective.group), parts_.algorithms.ranks_per_node);
  CollectiveCall call{.kind = collective.kind,
                      .algorithm = how.algorithm,
                      .reduction = reduction_of(parts_.program, op),
                      .dtype = sim::DType::fp32,
                      .members = members(collective.group),
                      .members_per_node = how.members_per_node,
                      .channel = collective_channel(group.index, op.stream),
                      .input = {},
                      .output = {}};
  if (!exchanges_keys(op.action)) place_buffers(op, call);
  return call;
}

// Operands as the lowering names them; what is in place, or in the own slice of a whole buffer, is
// found by its size.
void Communication::place_buffers(const BoundOp& op, CollectiveCall& call) {
  const auto whole = static_cast<std::size_t>(op.collective->bytes.count());
  if (op.action == Action::sum_gradient_norm) {
    call.output = std::as_writable_bytes(std::span{parts_.memory.square_sum, 1});
    call.input = call.output;
    SIM_CHECK(whole == call.output.size(), whole);
    return;
  }
  const BoundGroup& group = parts_.program.groups[static_cast<std::size_t>(op.collective->group)];
  const std::size_t part = whole / group.ranks.size();
  const auto own_part = [&](std::span<std::byte> all) {
    return all.subspan(static_cast<std::size_t>(group.position) * part, part);
  };
  std::span<std::byte> output = parts_.arena.bytes(op.operand(Role::output));
  std::span<std::byte> input =
      op.operand(Role::input).exists() ? parts_.arena.bytes(op.operand(Role::input)) : output;
  if (call.kind == CollectiveKind::reduce_scatter && output.size() != part) {
    SIM_CHECK(output.size() >= whole, output.size(), whole);
    output = own_part(output);
  }
  if (call.kind == CollectiveKind::all_gather && input.size() != part) {
    SIM_CHECK(input.size() >= whole, input.size(), whole);
    input = own_part(input);
  }
  if (op.action == Action::replicate && output.size() > whole) {
    const BoundBucket& bucket = parts_.program.buckets.at(op.subject);
    output = output.subspan(static_cast<std::size_t>(bucket.owned_first) * sizeof(float), whole);
    input = output;
  }
  const std::size_t in_size = call.kind == CollectiveKind::all_gather ? part : whole;
  const std::size_t out_size = call.kind == CollectiveKind::reduce_scatter ? part : whole;
  SIM_CHECK(input.size() >= in_size && output.size() >= out_size, input.size(), output.size(),
            whole, part);
  call.input = input.first(in_size);
  call.output = output.first(out_size);
}

}  // namespace real
