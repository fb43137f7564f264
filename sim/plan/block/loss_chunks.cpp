// The head and the loss in chunks of the tokens, backward (Layout::loss_chunks). Sources:
// rules/loss-chunks.md.
#include <utility>

#include "sim/plan/block/block_backward.hpp"

namespace sim::lowering {

// How the gradient of the head's input comes together from those of chunks.
class ChunkGradients : BlockPart {
 public:
  ChunkGradients(BlockTools& tools, const Frame& frame, const Replay& replay)
      : BlockPart{tools},
        frame_{frame},
        op_{replay.ops.front()},
        pieces_{replay.pieces},
        whole_{frame.shape->ops[op_].input},
        name_{builder_.name(frame.shape->ops[op_].op->name + ".join_gradient")} {
    const int element = bytes_of(layout_.activation_dtype);
    in_fp32_ = runs_.loss_chunks == LossChunks::at_once_fp32 && element < 4;
    copies_ = replay.order == PieceOrder::at_once;
    // All tokens, before they are summed over tensor ranks (torchtitan: "Partial(sum)").
    fp32_ = Bytes{frame.shape->ops[op_].whole_input.count() / element * bytes_of(DType::fp32)};
  }

  void add(const Value& made) { copies_ ? copy(made) : add_padded(made); }

  Value finish() {
    if (!in_fp32_) return sum_;
    Value out = tensors_.allocate(whole_);
    out.ready = pass(fp32_.count() + whole_.count());
    tensors_.drop(sum_, Role::input);
    builder_.writes(out.buffer, Role::input_gradient);
    return out;
  }

 private:
  OpId pass(std::int64_t bytes, int launches = 1) {
    return emit_.compute(
        frame_, op_,
        context_.memory_pass(bytes, OpKind::elementwise, layout_.activation_dtype, launches), name_,
        Action::add_product_gradient);
  }

  void write_sum(OpId done) {
    sum_.ready = done;
    builder_.writes(sum_.buffer, Role::input_gradient);
  }

  // Into its slice, which in fp32 is one of zeros.
  void copy(const Value& made) {
    const Bytes joined = in_fp32_ ? fp32_ : whole_;
    const std::int64_t zeros = in_fp32_ && !sum_.exists() ? joined.count() : 0;
    if (!sum_.exists()) sum_ = tensors_.allocate(joined);
    tensors_.wait_for(made);
    const OpId done = pass(zeros + (whole_ + joined).count() / pieces_);
    tensors_.drop(made, Role::input);
    write_sum(done);
  }

  // A slice's gradient is one of the whole tensor, zeros with it in between; that is added to what
  // there is.
  void add_padded(const Value& made) {
    tensors_.wait_for(made);
    Value padded = tensors_.allocate(whole_);
    padded.ready = pass(whole_.count() + 2 * whole_.count() / pieces_, 2);
    tensors_.drop(made, Role::input);
    builder_.writes(padded.buffer, Role::input_gradient);
    if (!sum_.exists()) {
      sum_ = padded;
      return;
    }
    const OpId done = pass(3 * whole_.count());
    tensors_.drop(padded, Role::input);
    write_sum(done);
  }

  const Frame& frame_;
  std::size_t op_;
  int pieces_;
  Bytes whole_, fp32_{};
  bool in_fp32_ = false, copies_ = false;
  std::uint32_t name_;
  Value sum_;
};

Value BlockBackward::backward_chunks(Frame& frame, const Replay& replay) {
  const OpRange range = range_of(replay);
  const bool kept = replay.order == PieceOrder::behind;
  const Value x = kept ? Value{} : std::exchange(frame.saved[range.begin].replay_input, {});
  std::vector<Saved> scratch(frame.shape->ops.size());
  ChunkGradients gradients{tools_, frame, replay};
  for (int piece = 0; piece < replay.pieces; ++piece) {
    Frame part = piece_of(frame, replay, piece);
    part.saved = kept ? kept_of_piece(frame, replay.pieces - 1 - piece) : scratch.data();
    if (!kept) {
      if (!part.is_last_piece()) tensors_.retain(x.buffer);
      scratch[range.begin].replay_input = slice(x, replay.pieces);
      part.pass = replay.runs_again() ? Pass::recompute : Pass::forward;
      forward_.forward_ops(part, {}, range);
      part.pass = Pass::backward;
    }
    gradients.add(backward_ops(part, {}, range));
  }
  return gradients.finish();
}

}  // namespace sim::lowering
