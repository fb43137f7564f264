// Reduction of gradients over the data-parallel ranks, bucket by bucket.
//
// With gradient accumulation only the last micro-batch of a chunk synchronises (DDP's no_sync,
// Megatron-LM's no_sync_func). Under ZeRO-2 and 3 full gradients do not outlive a micro-batch: each
// one is reduced and added to the shard (FSDP without no_sync), unless units are held
// (held_units.cpp). The average over ranks is taken by the collective (ncclAvg) and costs
// nothing, but under Execution::scales_gradients.
#include <set>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/plan/lowering/stage_lowering.hpp"

namespace sim::lowering {

// Under a split backward pass norms are ready in the backward slot and matrices later.
bool StageLowering::synchronises() const {
  return reduces_each_microbatch() || is_last_microbatch();
}

bool StageLowering::is_last_microbatch() const {
  const Slot& slot = slots_[current_slot_];
  const int last = chunk_of(slot).last_backward;
  return slots_[static_cast<std::size_t>(last)].microbatch == slot.microbatch;
}

// PyTorch's AccumulateGrad (torch/csrc/autograd/functions/accumulate_grad.h) keeps the first
// gradient of a parameter and adds the later ones with a kernel of its own. Where they are
// converted the first one is added too.
bool StageLowering::adds_gradients(const Frame& frame) const {
  if (holds_) return !is_first_microbatch(frame) || gradient_dtype_ != layout_.activation_dtype;
  if (!model_.model->execution.adds_gradients || zero_ >= 2) return false;
  return frame.label.microbatch > 0 || converts_;
}

// The kernel added last adds to the gradients of these parameters, or writes them into a buffer,
// which is `own` if there is one already.
BufferId StageLowering::write_gradient(const Frame& frame, const Place& place, BufferId own) {
  if (place.bucket == none) return own;
  if (!adds_gradients(frame)) {
    builder_.writes(buckets_[place.bucket].gradient, Role::weight_gradient);
    return own;
  }
  if (own.value == none) {
    const DType written = written_gradient_dtype(*model_.model, layout_);
    own = builder_.buffer(Bytes{place.elements * bytes_of(written)}, BufferCategory::gradients);
  }
  builder_.writes(own, Role::weight_gradient);
  return own;
}

// Of the operator added last (Placeholders): Megatron-LM, core/tensor_parallel/layers.py,
// LinearWithGradAccumulationAndAsyncCommunication.backward, since November 2023; Transformer Engine
// the same until pull request 1651.
void StageLowering::take_temporary_placeholder(const Place& place) {
  if (model_.model->execution.gradient_placeholders == Placeholders::none) return;
  const BufferId empty = builder_.buffer(Bytes{place.elements * bytes_of(layout_.activation_dtype)},
                                         BufferCategory::gradients);
  builder_.writes(empty, Role::workspace);
  builder_.frees(empty, Role::workspace);
}

// Linears of layers are Transformer Engine's.
bool StageLowering::has_kept_placeholder(const ModelOp& op) const {
  return model_.model->execution.gradient_placeholders == Placeholders::kept &&
         is_linear_of_layer(op);
}

// One for each shape of a weight (Transformer Engine 2.3, pytorch/module/base.py, get_dummy_wgrad).
void StageLowering::allocate_kept_placeholders() {
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  for (const StageBlock& block : blocks_) {
    for (const ShardedOp& op : model_.blocks[block.shape].ops) {
      if (!has_kept_placeholder(*op.op)) continue;
      const int tensor = op.op->experts > 0 ? layout_.expert_tensor() : layout_.tensor_parallel;
      const bool column = op.op->split == TensorSplit::column;
      const std::pair shape{op.op->out_features / (column ? tensor : 1) / op.products,
                            op.op->in_features / (column ? 1 : tensor)};
      if (!shapes.insert(shape).second) continue;
      builder_.buffer(Bytes{shape.first * shape.second * bytes_of(layout_.activation_dtype)},
                      BufferCategory::gradients, true);
    }
  }
}

void StageLowering::add_gradient(const Frame& frame, std::size_t i, const Place& place,
                                 BufferId own) {
  if (own.value == none) return;
  const ApartGradient apart{i, place, own};
  if (holds_) {
    held_gradients_.push_back(apart);
  } else {
    add_to_sum(frame, apart);
  }
}

// Converted: what autograd holds is zeroed, added to, read, written in the other format and added
// to the sum (DeepSpeed, bf16_optimizer.py: clear_lp_grads, _update_hp_grad). The first that is
// held is cast, and is the sum.
void StageLowering::add_to_sum(const Frame& frame, const ApartGradient& apart) {
  const int sum = bytes_of(gradient_dtype_), written = bytes_of(layout_.activation_dtype);
  const bool begins = holds_ && is_first_microbatch(frame);
  const int each = converts_ ? 5 * written + 4 * sum : written + (begins ? 1 : 2) * sum;
  const ShardedOp& op = frame.shape->ops[apart.op];
  compute(
      frame, apart.op,
      memory_pass(apart.place.elements * each, OpKind::elementwise, gradient_dtype_, op.products),
      builder_.name(op.op->name + ".add_gradient"), Action::add_weight_gradient);
  builder_.frees(apart.own, Role::input);
  builder_.writes(buckets_[apart.place.bucket].gradient, Role::weight_gradient);
}

void StageLowering::gradient_ready(const Frame& frame, std::size_t i) {
  if (!synchronises()) return;
  const Parameters& parameters = parameters_[site(frame, i)];
  if (parameters.table.elements > 0) gradient_written(parameters.table.bucket);
  if (parameters.own.elements > 0) gradient_written(parameters.own.bucket);
}

void StageLowering::gradient_written(std::uint32_t index) {
  Bucket& bucket = buckets_[index];
  if (bucket.reduce == none) return;
  if (bucket.pending == 0) bucket.pending = bucket.writers;
  if (--bucket.pending > 0) return;
  if (reduces_each_microbatch()) {
    reduce_bucket(index);
    if (!layout_.overlap_gradients) builder_.wait_for_stream(Stream::compute, Stream::data_comm);
    return;
  }
  bucket.ready = true;
  if (layout_.overlap_gradients && !aligns_reductions() && !holds_) reduce_ready(0);
}

// Buckets are launched in their fixed order, so that all ranks agree on it; chunks come last first.
void StageLowering::reduce_ready(int first_chunk) {
  for (; next_reduction_ < buckets_.size(); ++next_reduction_) {
    const Bucket& bucket = buckets_[next_reduction_];
    const bool alone = bucket.reduce == none;  // experts that no other rank has
    if (!(bucket.ready || alone) || bucket.chunk < first_chunk) return;
    if (!alone) reduce_bucket(next_reduction_);
  }
}

// What runs beside products slows them down, on one stage and then on those that wait for it. So
// under the interleaved schedule all stages launch the reduction of a chunk after as many passes
// (Megatron-LM, core/pipeline_parallel/schedules.py, backward_step_helper: grad_sync_func,
// `grad_sync_microbatch_id`; what is left follows the last pass).
bool StageLowering::aligns_reductions() const {
  return layout_.overlap_gradients && layout_.schedule == Schedule::interleaved && zero_ < 2;
}

// Stage s launches s passes late what the first stage launches at once.
void StageLowering::reduce_aligned() {
  if (!aligns_reductions()) return;
  std::size_t slot = current_slot_;
  for (int passes = stage_; passes > 0;) {
    if (slot == 0) return;
    if (slots_[--slot].kind == SlotKind::backward) --passes;
  }
  const int chunk = slots_[slot].chunk;
  if (chunks_[static_cast<std::size_t>(chunk)].last_backward == static_cast<int>(slot))
    reduce_ready(chunk);
}

void StageLowering::reduce_remaining() {
  if (reduces_each_microbatch()) return;
  for (std::uint32_t i = 0; i < buckets_.size(); ++i)
    if (buckets_[i].reduce == none) prepare_bucket(i);
  for (; next_reduction_ < buckets_.size(); ++next_reduction_) {
    if (buckets_[next_reduction_].reduce == none) continue;
    SIM_CHECK(buckets_[next_reduction_].ready, next_reduction_);
    reduce_bucket(next_reduction_);
  }
}

// ZeRO-1 and 2 may reduce all gradients on every rank, which then keeps its slice: Scaling
// (core/optimizer/allreduce.py), DeepSpeed (runtime/bf16_optimizer.py; runtime/zero/
// stage_1_and_2.py, average_tensor with use_multi_rank_bucket_allreduce).
bool StageLowering::scatters_gradients(const Bucket& bucket) const {
  return bucket.shards > 1 && !(zero_ < 3 && model_.model->execution.all_reduces_gradients);
}

BufferId StageLowering::message_buffer(std::int64_t elements) {
  return builder_.buffer(Bytes{elements * bytes_of(layout_.reduce_dtype)},
                         BufferCategory::communication);
}

OpLabel StageLowering::reduction_label(std::uint32_t index, const char* name) {
  const Bucket& bucket = buckets_[index];
  OpLabel made = label(name);
  made.chunk = chunks_[static_cast<std::size_t>(bucket.chunk)].global;
  made.layer = blocks_[bucket.first_block].layer;
  return made;
}

// Megatron-LM, core/distributed/param_and_grad_buffer.py, start_grad_sync: the norm of the bucket,
// to see whether it is finite (check_grads), then a multiplication by 1 / replicas, where the
// collective does not average. Experts that no other rank has go the same way.
void StageLowering::prepare_bucket(std::uint32_t index) {
  const Execution& runs = model_.model->execution;
  const bool scales = runs.scales_gradients && layout_.replicas() > 1;
  const int passes = (runs.checks_gradients ? 1 : 0) + (scales ? 2 : 0);
  if (passes == 0) return;
  const Bucket& bucket = buckets_[index];
  const std::int64_t bytes = bucket.padded * bytes_of(gradient_dtype_);
  builder_.add_kernel(memory_pass(bytes * passes, OpKind::elementwise, gradient_dtype_, passes),
                      Stream::compute, Pass::gradient_sync,
                      reduction_label(index, "gradients.prepare"),
                      {Action::prepare_gradients, index});
  builder_.writes(bucket.gradient, Role::output);
}

// On the communication stream, so that compute does not wait: cast to the format on the wire,
// reduce, average over the copies of a hybrid sharding, cast back or add to the shard. By case:
//   stage 0      in place; with casts, in place in the message
//   stage 1      into the own slice of the gradients; with casts, from message to shard to slice
//   stage 2, 3   into the persistent shard; with several micro-batches, or casts, into a shard of
//                its own, which is then added or cast to it
void StageLowering::reduce_bucket(std::uint32_t index) {
  if (zero_ < 2) prepare_bucket(index);
  Bucket& bucket = buckets_[index];
  const OpLabel made = reduction_label(index, "gradients.reduce");
  builder_.wait_for_stream(Stream::data_comm, Stream::compute);
  const bool copies = bucket.cast_out != none, casts = bucket.cast_in != none;
  BufferId message = copies ? cast_for_wire(index, made) : bucket.gradient;
  builder_.add_collective(bucket.reduce, Stream::data_comm, Pass::gradient_sync, made,
                          {Action::reduce, index});
  if (holds_) free_unit(bucket);
  if (scatters_gradients(bucket) && (zero_ >= 2 || copies)) {
    builder_.frees(message, Role::input);
    const bool final = !casts && bucket.accumulate == none;
    message = final ? bucket.gradient_shard : message_buffer(bucket.padded / bucket.shards);
  }
  builder_.writes(message, Role::output);
  if (bucket.accumulate != none) return add_up_shard(index, message, made);
  average_over_replicas(index, message, made);
  if (!casts) return;
  builder_.add_kernel(bucket.cast_in, Stream::data_comm, Pass::gradient_sync, made,
                      {Action::cast_in, index});
  builder_.frees(message, Role::input);
  builder_.writes(zero_ >= 2 ? bucket.gradient_shard : bucket.gradient, Role::output);
}

BufferId StageLowering::cast_for_wire(std::uint32_t index, const OpLabel& made) {
  const Bucket& bucket = buckets_[index];
  const BufferId message = message_buffer(bucket.padded);
  builder_.add_kernel(bucket.cast_out, Stream::data_comm, Pass::gradient_sync, made,
                      {Action::cast_out, index});
  if (zero_ >= 2) {
    builder_.frees(bucket.gradient, Role::input);
  } else {
    builder_.reads(bucket.gradient, Role::input);
  }
  builder_.writes(message, Role::output);
  return message;
}

// Stages 2 and 3 with several micro-batches: each is added to the shard, and the sum of all is
// averaged over the copies (FSDP2 all-reduces when the last micro-batch has been added,
// torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, partial_reduce_output).
void StageLowering::add_up_shard(std::uint32_t index, BufferId message, const OpLabel& made) {
  const Bucket& bucket = buckets_[index];
  builder_.add_kernel(bucket.accumulate, Stream::data_comm, Pass::gradient_sync, made,
                      {Action::accumulate, index});
  builder_.frees(message, Role::input);
  builder_.writes(bucket.gradient_shard, Role::output);
  if (bucket.replicate == none || !is_last_microbatch()) return;
  if (bucket.cast_shard == none) return average_over_replicas(index, bucket.gradient_shard, made);
  const BufferId wire = message_buffer(bucket.padded / bucket.shards);
  builder_.add_kernel(bucket.cast_shard, Stream::data_comm, Pass::gradient_sync, made,
                      {Action::cast_out, index});
  builder_.reads(bucket.gradient_shard, Role::input);
  builder_.writes(wire, Role::output);
  average_over_replicas(index, wire, made);
  builder_.add_kernel(bucket.cast_in, Stream::data_comm, Pass::gradient_sync, made,
                      {Action::cast_in, index});
  builder_.frees(wire, Role::input);
  builder_.writes(bucket.gradient_shard, Role::output);
}

// Hybrid sharding: the shard is averaged over the copies, once per step.
void StageLowering::average_over_replicas(std::uint32_t index, BufferId message,
                                          const OpLabel& made) {
  const Bucket& bucket = buckets_[index];
  if (bucket.replicate == none) return;
  builder_.add_collective(bucket.replicate, Stream::data_comm, Pass::gradient_sync, made,
                          {Action::replicate, index});
  builder_.writes(message, Role::output);
}

}  // namespace sim::lowering
