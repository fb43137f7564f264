// Collectives and messages. What is in place, or in the own slice of a whole buffer, is found by
// the size of the operands.
#include <algorithm>

#include "real/cuda/device.hpp"
#include "real/cuda/prepare.hpp"
#include "real/engine/keys_exchange.hpp"
#include "real/engine/operator_facts.hpp"
#include "sim/base/check.hpp"

namespace real {

using sim::Action;
using sim::CollectiveKind;
using sim::Role;

namespace {

const BoundGroup& group_of(const BoundProgram& program, const BoundOp& op) {
  return program.groups[static_cast<std::size_t>(op.collective->group)];
}

}  // namespace

Launch Preparation::communication(const BoundOp& op) {
  if (op.transfer != nullptr) return message(op);
  if (exchanges_keys(op.action)) return exchange_of_keys(op);
  const NcclWorld::Call call = call_of(op);
  Launch launch = collective(op, call);
  if (op.action != Action::sum_tensor_gradients) return launch;
  return tensor_gradients(op, std::move(launch), static_cast<std::byte*>(call.output));
}

Launch Preparation::message(const BoundOp& op) {
  const BoundProgram& program = parts_.program;
  const auto peer = static_cast<std::size_t>(op.transfer->peer);
  const auto other = static_cast<int>(program.plan->peer_of[program.rank.value][peer].value);
  const auto own = static_cast<int>(program.rank.value);
  const bool sends = op.action == Action::send;
  const std::size_t index =
      parts_.nccl.find_message(sends ? own : other, sends ? other : own, op.stream);
  SIM_CHECK(index != NcclWorld::npos, own, other);
  const std::int64_t bytes = op.transfer->bytes.count();
  const Operand& operand = op.operand(sends ? Role::input : Role::output);
  SIM_CHECK(operand.bytes % bytes == 0, operand.bytes, bytes);
  NcclWorld::Call call{.count = bytes / sim::bytes_of(op.transfer->dtype),
                       .dtype = op.transfer->dtype};
  NcclWorld* nccl = &parts_.nccl;
  if (sends) {
    // Without sequence parallelism every tensor rank holds the whole and sends its part.
    call.input = at(operand) + (operand.bytes > bytes ? program.at.tensor * bytes : 0);
    return [=](cudaStream_t stream) { nccl->send(index, call, stream); };
  }
  SIM_CHECK(operand.bytes == bytes, operand.bytes, bytes);
  call.output = at(operand);
  return [=](cudaStream_t stream) { nccl->receive(index, call, stream); };
}

NcclWorld::Call Preparation::call_of(const BoundOp& op) {
  const sim::Collective& collective = *op.collective;
  const std::int64_t whole = collective.bytes.count();
  NcclWorld::Call call{.count = whole / sim::bytes_of(collective.dtype),
                       .dtype = collective.dtype,
                       .reduction = reduction_of(parts_.program, op)};
  if (op.action == Action::sum_gradient_norm) {
    SIM_CHECK(whole == sizeof(float), whole);
    call.input = parts_.memory.square_sum;
    call.output = parts_.memory.square_sum;
    return call;
  }
  const BoundGroup& group = group_of(parts_.program, op);
  const std::int64_t part = whole / std::max<std::int64_t>(1, std::ssize(group.ranks));
  const Operand& to = op.operand(Role::output);
  const Operand& from = op.operand(op.operand(Role::input).exists() ? Role::input : Role::output);
  const bool gathers = collective.kind == CollectiveKind::all_gather;
  const bool scatters = collective.kind == CollectiveKind::reduce_scatter;
  std::byte* output = at(to);
  std::byte* input = at(from);
  if (scatters && to.bytes != part) output += group.position * part;
  if (gathers && from.bytes != part) input += group.position * part;
  if (op.action == Action::replicate && to.bytes > whole) {
    const BoundBucket& bucket = parts_.program.buckets.at(op.subject);
    output += bucket.owned_first * sim::bytes_of(collective.dtype);
    input = output;
  }
  SIM_CHECK(from.bytes >= (gathers ? part : whole) && to.bytes >= (scatters ? part : whole),
            from.bytes, to.bytes, whole, part);
  call.input = input;
  call.output = output;
  return call;
}

std::size_t Preparation::communicator_of(const BoundOp& op) const {
  const sim::GroupRole role = op.collective->group;
  const std::size_t index = parts_.nccl.find(CommunicatorKind::group, role, op.stream);
  SIM_CHECK(index != NcclWorld::npos, sim::word(role), sim::word(op.stream));
  return index;
}

Launch Preparation::collective(const BoundOp& op, const NcclWorld::Call& call) {
  NcclWorld* nccl = &parts_.nccl;
  const sim::GroupRole role = op.collective->group;
  const std::size_t node = nccl->find(CommunicatorKind::node, role, op.stream);
  if (op.collective->kind == CollectiveKind::all_reduce && node != NcclWorld::npos) {
    const std::size_t rail = nccl->find(CommunicatorKind::rail, role, op.stream);
    SIM_CHECK(rail != NcclWorld::npos, nccl->at(node).name());
    return [=](cudaStream_t stream) { nccl->hierarchical_all_reduce(node, rail, call, stream); };
  }
  const std::size_t index = communicator_of(op);
  switch (op.collective->kind) {
    case CollectiveKind::all_reduce:
      return [=](cudaStream_t stream) { nccl->all_reduce(index, call, stream); };
    case CollectiveKind::reduce_scatter:
      return [=](cudaStream_t stream) { nccl->reduce_scatter(index, call, stream); };
    case CollectiveKind::all_gather:
      return [=](cudaStream_t stream) { nccl->all_gather(index, call, stream); };
    case CollectiveKind::all_to_all:
      return [=](cudaStream_t stream) { nccl->all_to_all(index, call, stream); };
    default:
      SIM_CHECK(false, sim::word(op.collective->kind));
  }
}

// Pieces of gradients, packed into one message and put back. The message is as long as that of the
// shard with the most of them.
Launch Preparation::tensor_gradients(const BoundOp& op, Launch all_reduce, std::byte* packed) {
  const std::int64_t size = sim::bytes_of(op.collective->dtype);
  const std::vector<Operand> pieces = summed_pieces(parts_.program, size);
  std::int64_t rest = op.collective->bytes.count();
  for (const Operand& piece : pieces)
    rest -= piece.bytes;
  SIM_CHECK(rest >= 0, rest, pieces.size());
  return [=, arena = parts_.arena, zero = cuda_kernels().zero,
          all_reduce = std::move(all_reduce)](cudaStream_t stream) {
    std::byte* to = packed;
    for (const Operand& piece : pieces) {
      copy_on_device(to, arena + piece.offset, piece.bytes, stream);
      to += piece.bytes;
    }
    if (rest > 0) zero(to, rest, stream);
    all_reduce(stream);
    const std::byte* from = packed;
    for (const Operand& piece : pieces) {
      copy_on_device(arena + piece.offset, from, piece.bytes, stream);
      from += piece.bytes;
    }
  };
}

}  // namespace real
