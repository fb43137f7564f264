// Exchanges of keys, values and their gradients between the ranks of a sequence. NCCL takes whole
// pieces of memory: columns of [q|k|v] are copied into the workspace of the stream, and from there.
#include "real/cuda/prepare.hpp"
#include "real/engine/keys_exchange.hpp"
#include "real/engine/operator_facts.hpp"
#include "sim/base/check.hpp"

namespace real {

namespace {

bool overlap(const std::byte* a, const std::byte* b, std::int64_t bytes) {
  return a < b + bytes && b < a + bytes;
}

}  // namespace

Launch Preparation::packing_of(Launch copy) {
  packing_.push_back(copy);
  return copy;
}

Launch Preparation::exchange_of_keys(const BoundOp& op) {
  const KeysExchange exchange = keys_exchange(parts_.program, op);
  const kernels::HeadExchange& columns = exchange.columns;
  const std::int64_t element = sim::bytes_of(columns.dtype), slice = columns.message() * element;
  const kernels::Workspace space = parts_.memory.workspaces[static_cast<std::size_t>(op.stream)];
  auto* const packed = static_cast<std::byte*>(space.memory);
  Launch before, after;  // of the message
  const auto input_of = [&](const KeysPiece& piece) {
    if (!piece.in_rows) return at(piece.place);
    SIM_CHECK(!before && !after && space.bytes >= slice, space.bytes, slice);
    before = packing_of(
        kernels::as_launch(cuda_context().order_by_rank, columns, at(piece.place), packed));
    return packed;
  };
  const auto output_of = [&](const KeysPiece& piece) {
    if (!piece.in_rows) return at(piece.place);
    SIM_CHECK(!before && !after && space.bytes >= slice, space.bytes, slice);
    after = packing_of(
        kernels::as_launch(cuda_context().order_by_token, columns, packed, at(piece.place)));
    return packed;
  };
  std::vector<NcclWorld::Call> calls;
  SIM_CHECK(exchange.from.size() == exchange.to.size(), exchange.from.size(), exchange.to.size());
  for (std::size_t i = 0; i < exchange.from.size(); ++i)
    calls.push_back({.input = input_of(exchange.from[i]),
                     .output = output_of(exchange.to[i]),
                     .count = slice / element,
                     .dtype = columns.dtype,
                     .reduction = reduction_of(parts_.program, op)});
  Launch moves;
  if (op.collective->kind == sim::CollectiveKind::ring_shift) {
    for (const NcclWorld::Call& from : calls)
      for (const NcclWorld::Call& to : calls)
        SIM_CHECK(!overlap(static_cast<const std::byte*>(from.input),
                           static_cast<const std::byte*>(to.output), slice),
                  op.model_op->name);
    moves = [nccl = &parts_.nccl, index = communicator_of(op), calls = std::move(calls),
             backward = exchange.backward](cudaStream_t stream) {
      nccl->ring_shift(index, calls, backward, stream);
    };
  } else {
    SIM_CHECK(calls.size() == 1, calls.size());
    calls.front().count = op.collective->bytes.count() / element;
    moves = collective(op, calls.front());
  }
  if (before) moves = kernels::in_turn(std::move(before), std::move(moves));
  if (after) moves = kernels::in_turn(std::move(moves), std::move(after));
  return moves;
}

}  // namespace real
