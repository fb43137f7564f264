// Operators that run in pieces of the tokens (Replay::pieces), as DeepSpeed's TiledMLP does
// (sharding/kept_set.cpp has its sources). Forward, every piece keeps nothing, and their outputs
// are put together. Backward, a piece runs again and then back, so that its tensors alone are
// there; its input gradient is added to a slice of a tensor that was zeroed before.
#include "sim/plan/block/block_backward.hpp"

namespace sim::lowering {
namespace {

OpRange range_of(const Replay& replay) {
  return {replay.ops.front(), replay.ops.back() + std::size_t{1}};
}

// One of the pieces of a tensor, which has its holder in common with it.
Value slice(const Value& whole, int pieces) {
  return {whole.buffer, Bytes{whole.bytes.count() / pieces}, whole.ready};
}

}  // namespace

Frame BlockPart::piece_of(const Frame& frame, const Replay& replay, int piece) const {
  Frame part = frame;
  part.shape = &model_.blocks[frame.block->shape + model_.blocks_of_kind];
  part.work = frame.work + model_.blocks_of_kind;
  part.replay = &replay;
  part.piece = piece;
  part.pieces = replay.pieces;
  return part;
}

Value BlockForward::forward_pieces(Frame& frame, const Replay& replay, const Value& x) {
  const auto [first, end] = range_of(replay);
  if (frame.keep) {
    tensors_.retain(x.buffer);
    frame.saved[first].replay_input = {x.buffer, x.bytes};
  }
  std::vector<Saved> scratch(frame.shape->ops.size());
  std::vector<Value> made;
  for (int piece = 0; piece < replay.pieces; ++piece) {
    Frame part = piece_of(frame, replay, piece);
    part.keep = false;
    part.saved = scratch.data();
    if (!part.is_last_piece()) tensors_.retain(x.buffer);
    scratch[first].replay_input = slice(x, replay.pieces);
    made.push_back(forward_ops(part, {}, {first, end}));
  }
  const ShardedOp& last = frame.shape->ops[end - 1];
  Value out = tensors_.allocate(last.output);
  const std::uint32_t copy = context_.memory_pass(2 * last.output.count() / replay.pieces,
                                                  OpKind::elementwise, layout_.activation_dtype);
  const std::uint32_t name = builder_.name(last.op->name + ".join");
  for (const Value& piece : made) {
    tensors_.wait_for(piece);
    out.ready = emit_.compute(frame, end - 1, copy, name, Action::join_output);
    tensors_.drop(piece, Role::input);
    builder_.writes(out.buffer, Role::output);
  }
  return out;
}

// Autograd adds to the zeroed slice: zeros are written, two tensors read and one written.
Value BlockBackward::backward_pieces(Frame& frame, const Replay& replay, const Value& gradient) {
  const auto [first, end] = range_of(replay);
  const ShardedOp& op = frame.shape->ops[first];
  const Value x = std::exchange(frame.saved[first].replay_input, {});
  const Value past = std::exchange(branches_.gradient_past[first], {});
  const Value lent = std::exchange(branches_.lent_gradient[first], {});
  const std::uint32_t add = context_.memory_pass(4 * op.input.count() / replay.pieces,
                                                 OpKind::elementwise, layout_.activation_dtype, 2);
  const std::uint32_t name = builder_.name(op.op->name + ".add_gradient");
  Value whole = tensors_.allocate(op.input);
  std::vector<Saved> scratch(frame.shape->ops.size());
  for (int piece = 0; piece < replay.pieces; ++piece) {
    Frame part = piece_of(frame, replay, piece);
    part.saved = scratch.data();
    if (!part.is_last_piece()) {
      tensors_.retain(x.buffer);
      tensors_.retain(gradient.buffer);
    }
    scratch[first].replay_input = slice(x, replay.pieces);
    part.pass = Pass::recompute;
    tensors_.drop(forward_.forward_ops(part, {}, {first, end}), Role::output);
    part.pass = Pass::backward;
    const Value made = backward_ops(part, slice(gradient, replay.pieces), {first, end});
    tensors_.wait_for(made);
    whole.ready = emit_.compute(frame, first, add, name, Action::add_product_gradient);
    tensors_.drop(made, Role::input);
    builder_.writes(whole.buffer, Role::input_gradient);
  }
  branches_.gradient_past[first] = past;
  branches_.lent_gradient[first] = lent;
  return linears_.add_residual_gradient(frame, first, whole);
}

}  // namespace sim::lowering
