// Operators that run in pieces of the tokens (Replay::pieces).
//
// An MLP, as DeepSpeed's TiledMLP (sharding/kept_modules.cpp has its sources). Forward, every piece
// keeps nothing, and their outputs are put together. Backward, a piece runs again and then back, so
// that its tensors alone are there; its input gradient is added to a slice of a tensor that was
// zeroed before.
//
// The head and the loss (Layout::loss_chunks): loss_chunks.cpp.
#include "sim/plan/block/block_backward.hpp"

namespace sim::lowering {

Frame BlockPart::piece_of(const Frame& frame, const Replay& replay, int piece) const {
  Frame part = frame;
  const std::uint32_t further = model_.blocks_before_piece(replay.pieces);
  part.shape = frame.shape + further;
  part.work = frame.work + further;
  part.replay = &replay;
  part.piece = piece;
  part.pieces = replay.pieces;
  return part;
}

Value BlockForward::forward_pieces(Frame& frame, const Replay& replay, const Value& x) {
  const auto [first, end] = range_of(replay);
  if (replay.order == PieceOrder::at_once) {
    frame.saved[first].replay_input = x;
    return {};
  }
  if (replay.order == PieceOrder::behind) return forward_kept_pieces(frame, replay, x);
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
    kept_.free_loss(scratch[end - 1]);
  }
  const ShardedOp& last = frame.shape->ops[end - 1];
  if (last.op->kind == ModelOpKind::cross_entropy) return {};
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

// Each piece keeps what its operators keep.
Value BlockForward::forward_kept_pieces(const Frame& frame, const Replay& replay, const Value& x) {
  const auto [first, end] = range_of(replay);
  for (int piece = 0; piece < replay.pieces; ++piece) {
    Frame part = piece_of(frame, replay, piece);
    part.saved = kept_of_piece(frame, piece);
    if (!part.is_last_piece()) tensors_.retain(x.buffer);
    part.saved[first].replay_input = slice(x, replay.pieces);
    forward_ops(part, {}, {first, end});
  }
  return {};
}

// Autograd adds to the zeroed slice: zeros are written, two tensors read and one written.
Value BlockBackward::backward_pieces(Frame& frame, const Replay& replay, const Value& gradient) {
  const auto [first, end] = range_of(replay);
  const ShardedOp& op = frame.shape->ops[first];
  if (frame.shape->ops[end - 1].op->kind == ModelOpKind::cross_entropy)
    return backward_chunks(frame, replay);
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
