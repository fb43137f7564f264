#include "sim/plan/lowering/pipeline_messages.hpp"

#include <utility>

#include "sim/base/check.hpp"

namespace sim::lowering {
namespace {

// A stream per neighbour and direction, whatever passes over it (rank_messages.hpp).
Stream send_stream(Peer to) {
  return to == Peer::next_stage ? Stream::forward_send : Stream::backward_send;
}
Stream receive_stream(Peer from) {
  return from == Peer::previous_stage ? Stream::forward_recv : Stream::backward_recv;
}
std::size_t index_of(Peer peer) {
  return static_cast<std::size_t>(peer);
}

}  // namespace

PipelineMessages::PipelineMessages(LoweringContext& context, const PipelineOrder& order)
    : StagePart{context},
      messages_{context.layout, order, context.stage},
      posted_(context.slots.size()) {}

void PipelineMessages::begin_slot() {
  const auto sent = [&](Stream stream) {
    return builder_.has_op(stream) ? builder_.last(stream) : OpId{none};
  };
  sent_before_slot_.push_back({sent(Stream::forward_send), sent(Stream::backward_send)});
  post_receives();
  wait_for_sends();
}

void PipelineMessages::wait_for_sends() {
  for (const OpId sent : awaited_sends_)
    builder_.wait(Stream::compute, sent);
  awaited_sends_.clear();
}

// The tensor between chunk - 1 and `chunk`: what the block before the boundary puts out.
Boundary PipelineMessages::boundary(int chunk, int microbatch) const {
  const int layers = model_.first_layer[static_cast<std::size_t>(chunk)];
  SIM_CHECK(layers > 0 || model_.input.has_value(), chunk);
  const std::uint32_t shape =
      layers > 0 ? model_.of_layer[static_cast<std::size_t>(layers - 1)] : *model_.input;
  const ShardedBlock& block = model_.blocks[model_.block_for(shape, microbatch)];
  // Without sequence parallelism all tensor ranks hold the same tensor: each sends 1/t of it, and
  // the receivers gather it over the faster links of their tensor group (Narayanan et al. 2021,
  // section 4.1, scatter/gather optimisation).
  const bool gathers =
      layout_.tensor_parallel > 1 && !layout_.sequence_parallel && !runs_.sends_whole;
  return {gathers ? Bytes{(block.output.count() + layout_.tensor_parallel - 1) /
                          layout_.tensor_parallel}
                  : block.output,
          block.output, gathers};
}

// Without overlap, the interleaved schedule exchanges messages once per pair of a forward and a
// backward pass, in both directions at once (Megatron-LM, core/pipeline_parallel/schedules.py,
// send_forward_backward_recv_forward_backward). Waiting for each send before the backward pass
// would deadlock: the next rank asks for it only when its own pair is done.
bool PipelineMessages::leads_pair(std::size_t index) const {
  return !layout_.overlap_pipeline && layout_.schedule == Schedule::interleaved &&
         context_.slots[index].kind == SlotKind::forward &&
         static_cast<int>(context_.slot_of_run(index)) >=
             interleaved_warmup(layout_, context_.stage);
}

// Between warm-up and flush alone Megatron-LM overlaps the messages of the interleaved schedule:
// where forward or backward passes follow each other, every call waits for what it sends and
// receives (schedules.py: forward_backward_pipelining_with_interleaving;
// overlap_p2p_comm_warmup_flush, off by default, came in 2024).
PipelineMessages::Messages PipelineMessages::messages_of(std::size_t slot) const {
  if (!layout_.overlap_pipeline) return {};
  if (layout_.schedule != Schedule::interleaved)
    return {.sent_beside = true, .received_ahead = true};
  const auto warmup = static_cast<std::size_t>(interleaved_warmup(layout_, context_.stage));
  const std::size_t at = context_.slot_of_run(slot);
  const bool before_flush = at + warmup < context_.run_slots();
  return {.sent_beside = at >= warmup && before_flush,
          .received_ahead = at > warmup && before_flush};
}

// A receive is posted one slot ahead, as Megatron-LM does where it overlaps point-to-point
// communication, or when the rank has finished its slot, or pair of slots, before, where it does
// not.
bool PipelineMessages::received_ahead(std::size_t slot) const {
  if (context_.begins_batch(slot)) return false;  // of a run of the schedule
  return messages_of(slot).received_ahead || (slot > 0 && leads_pair(slot - 1));
}

// The output or gradient between two chunks of this rank, which no message carries.
Value& PipelineMessages::turning(const Slot& slot) {
  std::vector<Value>& all = turning_[is_forward(slot) ? 0 : 1];
  if (all.empty()) all.resize(static_cast<std::size_t>(layout_.micro_batches()));
  return all[static_cast<std::size_t>(slot.microbatch)];
}

void PipelineMessages::pass_on(const Slot& slot, const Value& value) {
  if (const auto message = messages_.out_of(slot))
    send(slot, *message, value);
  else
    turning(slot) = value;
}

void PipelineMessages::post_receives() {
  if (context_.slot == 0 || !received_ahead(context_.slot)) post_receive(context_.slot);
  const std::size_t next = context_.slot + 1;
  if (next < context_.slots.size() && received_ahead(next)) post_receive(next);
}

// Asks for the message of a slot, and before it for those that its sender sends earlier.
void PipelineMessages::post_receive(std::size_t index) {
  const auto message = messages_.into(context_.slots[index]);
  if (!message) return;
  const auto received = messages_.received_from(message->peer);
  std::size_t& asked = asked_for_[index_of(message->peer)];
  while (!posted_[index].exists()) {
    const std::uint32_t next = received[asked++];
    post_in_order(next, *messages_.into(context_.slots[next]));
  }
}

void PipelineMessages::post_in_order(std::size_t index, const SlotMessage& from) {
  const Slot& slot = context_.slots[index];
  const Bytes message = boundary(from.boundary, slot.microbatch).message;
  const Stream stream = receive_stream(from.peer);
  const bool forward = is_forward(slot);
  has_messages_ = true;
  builder_.wait_for_stream(stream, Stream::compute);
  if (messages_.wait_long())
    wait_for_taken_sends(stream);
  else
    wait_for_old_sends(stream, index);
  Value part = tensors_.allocate(message);
  part.ready = builder_.add(OpKind::recv, stream, forward ? Pass::forward : Pass::backward,
                            builder_.transfer({from.peer, layout_.activation_dtype, message}),
                            context_.boundary_label(forward ? "recv_forward" : "recv_backward",
                                                    context_.chunk_of(slot), slot.microbatch),
                            {Action::receive});
  builder_.writes(part.buffer, Role::output);
  posted_[index] = part;
}

// Nothing that a slot does starts before its message has come: autograd, which also recomputes,
// begins with the gradient.
Value PipelineMessages::received(const Slot& slot) {
  const auto from = messages_.into(slot);
  if (!from) {
    const int chunk = context_.chunk_of(slot).global;
    const bool begins = is_forward(slot) ? chunk == 0 : chunk + 1 == layout_.chunks();
    return begins ? Value{} : std::exchange(turning(slot), {});
  }
  const Boundary between = boundary(from->boundary, slot.microbatch);
  Value value = std::exchange(posted_[context_.slot], {});
  if (between.gathers) value = gather_received(slot, value, between.tensor);
  tensors_.wait_for(value);
  return value;
}

Value PipelineMessages::gather_received(const Slot& slot, const Value& part, Bytes tensor) {
  const bool forward = slot.kind == SlotKind::forward;
  builder_.wait(Stream::tensor_comm, part.ready);
  Value whole = tensors_.allocate(tensor);
  whole.ready = builder_.add_collective(
      builder_.collective(
          {CollectiveKind::all_gather, GroupRole::tensor, layout_.activation_dtype, tensor}),
      Stream::tensor_comm, forward ? Pass::forward : Pass::backward,
      context_.boundary_label(forward ? "recv_forward.all_gather" : "recv_backward.all_gather",
                              context_.chunk_of(slot), slot.microbatch),
      {Action::gather_received});
  tensors_.drop(part, Role::input);
  builder_.writes(whole.buffer, Role::output);
  return whole;
}

// Behind messages that go together, before a slot's kernels (Megatron-LM,
// core/pipeline_parallel/p2p_communication.py, _communicate: torch.cuda.synchronize() with
// batch_p2p_sync, on by default; messages beside compute, overlap_p2p_comm, are not batched).
void PipelineMessages::wait_for_messages() {
  const bool any = std::exchange(has_messages_, false);
  if (!any || layout_.overlap_pipeline || !runs_.waits_for_messages) return;
  const OpId came = posted_[context_.slot].ready;
  if (came.value != none) builder_.host_waits_for(came);
  builder_.host_waits_for_all();
}

// Somebody must wait for a send, or the memory of what was sent could never be used again. A
// receive of a later slot does, which needs as much memory as the send gave back.
void PipelineMessages::wait_for_old_sends(Stream stream, std::size_t slot) {
  constexpr std::size_t slots_between = 4;  // two passes of each direction stay under way
  if (slot < slots_between) return;
  for (const OpId sent : sent_before_slot_[slot - slots_between])
    if (sent.value != none) builder_.wait(stream, sent);
}

// The same where a message may wait long: for those sends that the neighbour has asked for by now,
// if all slots take equally long. So nobody waits for what comes later in that order.
void PipelineMessages::wait_for_taken_sends(Stream stream) {
  const int now = messages_.begin_of(context_.slot);
  for (const Peer to : {Peer::next_stage, Peer::previous_stage}) {
    const std::vector<OpId>& sent = sent_[index_of(to)];
    std::size_t& taken = taken_[index_of(to)];
    while (taken < sent.size() && messages_.asked_for(to, taken) <= now)
      ++taken;
    if (taken > 0) builder_.wait(stream, sent[taken - 1]);
  }
}

void PipelineMessages::send(const Slot& slot, const SlotMessage& message, const Value& value) {
  const bool forward = is_forward(slot);
  const Stream stream = send_stream(message.peer);
  has_messages_ = true;
  if (value.ready.value != none) builder_.wait(stream, value.ready);
  const OpId sent =
      builder_.add(OpKind::send, stream, forward ? Pass::forward : Pass::backward,
                   builder_.transfer({message.peer, layout_.activation_dtype,
                                      boundary(message.boundary, slot.microbatch).message}),
                   context_.boundary_label(forward ? "send_forward" : "send_backward",
                                           context_.chunk_of(slot), slot.microbatch),
                   {Action::send});
  if (messages_.wait_long()) sent_[index_of(message.peer)].push_back(sent);
  tensors_.drop(value, Role::input);
  if (!messages_of(context_.slot).sent_beside) awaited_sends_.push_back(sent);
}

void PipelineMessages::send_waiting_forward() {
  if (!waiting_output_.exists()) return;
  builder_.wait(Stream::forward_send, builder_.last(Stream::compute));
  pass_on(context_.slots[waiting_slot_], waiting_output_);
  waiting_output_ = Value{};
}

void PipelineMessages::send_behind_pair(const Value& output) {
  waiting_output_ = output;
  waiting_slot_ = context_.slot;
}

}  // namespace sim::lowering
