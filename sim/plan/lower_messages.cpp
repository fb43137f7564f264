// Messages between pipeline stages.
#include "sim/base/check.hpp"
#include "sim/plan/stage_lowering.hpp"

namespace sim {

// The tensor between chunk - 1 and `chunk`: what the block before the boundary puts out.
StageLowering::Boundary StageLowering::boundary(int chunk) const {
  const int layers = model_.first_layer[static_cast<std::size_t>(chunk)];
  SIM_CHECK(layers > 0 || model_.input.has_value(), chunk);
  const std::uint32_t shape =
      layers > 0 ? model_.of_layer[static_cast<std::size_t>(layers - 1)] : *model_.input;
  const ShardedBlock& block = model_.blocks[shape];
  // Without sequence parallelism all tensor ranks hold the same tensor: each sends 1/t of it, and
  // the receivers gather it over the faster links of their tensor group (Narayanan et al. 2021,
  // section 4.1, scatter/gather optimisation).
  const bool gathers = layout_.tensor_parallel > 1 && !layout_.sequence_parallel &&
                       !model_.model->execution.sends_whole;
  return {gathers ? Bytes{(block.output.count() + layout_.tensor_parallel - 1) /
                          layout_.tensor_parallel}
                  : block.output,
          block.output, gathers};
}

// Without overlap, the interleaved schedule exchanges messages once per pair of a forward and a
// backward pass, in both directions at once (Megatron-LM, core/pipeline_parallel/schedules.py,
// send_forward_backward_recv_forward_backward). Waiting for each send before the backward pass
// would deadlock: the next rank asks for it only when its own pair is done.
bool StageLowering::leads_pair(std::size_t index) const {
  return !layout_.overlap_pipeline && layout_.schedule == Schedule::interleaved &&
         slots_[index].kind == SlotKind::forward &&
         static_cast<int>(index) >= interleaved_warmup(layout_, stage_);
}

// Between warm-up and flush alone Megatron-LM overlaps the messages of the interleaved schedule:
// where forward or backward passes follow each other, every call waits for what it sends and
// receives (schedules.py: forward_backward_pipelining_with_interleaving;
// overlap_p2p_comm_warmup_flush, off by default, came in 2024).
StageLowering::Messages StageLowering::messages_of(std::size_t slot) const {
  if (!layout_.overlap_pipeline) return {};
  if (layout_.schedule != Schedule::interleaved)
    return {.sent_beside = true, .received_ahead = true};
  const auto warmup = static_cast<std::size_t>(interleaved_warmup(layout_, stage_));
  const bool before_flush = slot + warmup < slots_.size();
  return {.sent_beside = slot >= warmup && before_flush,
          .received_ahead = slot > warmup && before_flush};
}

// A receive is posted one slot ahead, as Megatron-LM does where it overlaps point-to-point
// communication, or when the rank has finished its slot, or pair of slots, before, where it does
// not.
StageLowering::Value StageLowering::receive(const Slot& slot, Stream stream, Peer peer,
                                            const Boundary& boundary) {
  const Chunk& chunk = chunk_of(slot);
  const bool forward = stream == Stream::forward_recv;
  const Pass pass = forward ? Pass::forward : Pass::backward;
  const bool ends_pair = current_slot_ > 0 && leads_pair(current_slot_ - 1);
  const bool ahead = messages_of(current_slot_).received_ahead || ends_pair;
  const OpId posted = ahead ? before_last_slot_ : before_this_slot_;
  if (posted.value != none) builder_.wait(stream, posted);
  wait_for_old_sends(stream);
  Value part = fresh(boundary.message);
  part.ready = builder_.add(
      OpKind::recv, stream, pass,
      builder_.transfer({peer, layout_.activation_dtype, boundary.message}),
      boundary_label(forward ? "recv_forward" : "recv_backward", chunk, slot.microbatch),
      {Action::receive});
  builder_.writes(part.buffer, Role::output);
  if (!boundary.gathers) return part;
  builder_.wait(Stream::tensor_comm, part.ready);
  Value whole = fresh(boundary.tensor);
  whole.ready = builder_.add_collective(
      builder_.collective({CollectiveKind::all_gather, GroupRole::tensor, layout_.activation_dtype,
                           boundary.tensor}),
      Stream::tensor_comm, pass,
      boundary_label(forward ? "recv_forward.all_gather" : "recv_backward.all_gather", chunk,
                     slot.microbatch),
      {Action::gather_received});
  drop(part, Role::input);
  builder_.writes(whole.buffer, Role::output);
  return whole;
}

// Somebody must wait for a send, or the memory of what was sent could never be used again. A
// receive of a later slot does, which needs as much memory as the send gave back.
void StageLowering::wait_for_old_sends(Stream stream) {
  constexpr std::size_t slots_between = 4;  // two passes of each direction stay under way
  if (current_slot_ < slots_between) return;
  for (const OpId sent : sent_before_slot_[current_slot_ - slots_between])
    if (sent.value != none) builder_.wait(stream, sent);
}

void StageLowering::send(const Slot& slot, Stream stream, Peer peer, const Value& value,
                         const Boundary& boundary) {
  const bool forward = stream == Stream::forward_send;
  if (value.ready.value != none) builder_.wait(stream, value.ready);
  const OpId sent = builder_.add(
      OpKind::send, stream, forward ? Pass::forward : Pass::backward,
      builder_.transfer({peer, layout_.activation_dtype, boundary.message}),
      boundary_label(forward ? "send_forward" : "send_backward", chunk_of(slot), slot.microbatch),
      {Action::send});
  drop(value, Role::input);
  if (!messages_of(current_slot_).sent_beside) builder_.wait(Stream::compute, sent);
}

void StageLowering::send_waiting_forward() {
  if (!waiting_output_.exists()) return;
  builder_.wait(Stream::forward_send, builder_.last(Stream::compute));
  const Slot& slot = slots_[waiting_slot_];
  send(slot, Stream::forward_send, Peer::next_stage, waiting_output_,
       boundary(chunk_of(slot).global + 1));
  waiting_output_ = Value{};
}

}  // namespace sim
