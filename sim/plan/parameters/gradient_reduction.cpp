// With gradient accumulation only the last micro-batch of a chunk synchronises (DDP's no_sync,
// Megatron-LM's no_sync_func). Under ZeRO-2 and 3 full gradients do not outlive a micro-batch: each
// one is reduced and added to the shard (FSDP without no_sync), unless units are held
// (gradient_sums.cpp). The average over ranks is taken by the collective (ncclAvg) and costs
// nothing, but under Execution::scales_gradients.
#include "sim/plan/parameters/gradient_reduction.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace sim::lowering {

void GradientReduction::gradient_ready(const Frame& frame, std::size_t i) {
  if (!synchronises() || !frame.is_last_piece()) return;
  const Parameters& parameters = store_.parameters[site(frame, i)];
  if (parameters.table.elements > 0) gradient_written(parameters.table.bucket);
  if (parameters.own.elements > 0) gradient_written(parameters.own.bucket);
}

void GradientReduction::gradient_written(std::uint32_t index) {
  Bucket& bucket = store_.buckets[index];
  if (!bucket.travels() && !sharing_.host_gradients) return;
  if (bucket.pending == 0) bucket.pending = bucket.writers;
  if (--bucket.pending > 0) return;
  if (sharing_.reduces_each_microbatch()) {
    if (!reduce_unit(index)) return;
    if (!layout_.overlap_gradients) builder_.wait_for_stream(Stream::compute, Stream::data_comm);
    return;
  }
  bucket.ready = true;
  if (reduces_when_ready() && !aligns_reductions()) reduce_ready(0);
}

// Both units of a block when all its gradients are there: FSDP reduces behind the backward pass of
// a module (torch/distributed/fsdp/_fully_shard/_fsdp_state.py, _root_post_backward_final_callback
// and _fsdp_param_group.py, post_backward). False: its partner's are not.
bool GradientReduction::reduce_unit(std::uint32_t index) {
  Bucket& bucket = store_.buckets[index];
  if (bucket.partner == none) {
    reduce_bucket(index);
    return true;
  }
  Bucket& partner = store_.buckets[bucket.partner];
  bucket.ready = true;
  if (!partner.ready) return false;
  bucket.ready = partner.ready = false;
  reduce_bucket(std::min(index, bucket.partner));
  reduce_bucket(std::max(index, bucket.partner));
  return true;
}

// Megatron-LM, core/distributed/param_and_grad_buffer.py, start_grad_sync: the norm of the bucket,
// to see whether it is finite (check_grads), then a multiplication by 1 / replicas, where the
// collective does not average. Experts that no other rank has go the same way.
void GradientReduction::prepare_bucket(std::uint32_t index) {
  const bool scales = runs_.scales_gradients && layout_.synchronous_replicas() > 1;
  const int passes = (runs_.checks_gradients ? 1 : 0) + (scales ? 2 : 0);
  const int copies =
      has_bucket_copies(context_) ? 4 : 0;  // there and back, a read and a write each
  if (passes + copies == 0) return;
  const Bucket& bucket = store_.buckets[index];
  const std::int64_t bytes = bucket.padded * (passes * bytes_of(sharing_.gradient_dtype) +
                                              copies * bytes_of(layout_.activation_dtype));
  builder_.add_kernel(context_.memory_pass(bytes, OpKind::elementwise, sharing_.gradient_dtype,
                                           passes + copies / 2),
                      Stream::compute, Pass::gradient_sync,
                      reduction_label(index, "gradients.prepare"),
                      {Action::prepare_gradients, index});
  builder_.writes(bucket.gradient, Role::output);
}

OpLabel GradientReduction::reduction_label(std::uint32_t index, const char* name) {
  const Bucket& bucket = store_.buckets[index];
  OpLabel made = context_.label(name);
  made.chunk = context_.chunks[static_cast<std::size_t>(bucket.chunk)].global;
  made.layer = context_.blocks[bucket.first_block].layer;
  return made;
}

// On the communication stream, so that compute does not wait: cast to the format on the wire,
// reduce, average over the copies of a hybrid sharding, cast back or add to the shard. By case:
//   stage 0      in place; with casts, in place in the message
//   stage 1      into the own slice of the gradients; with casts, from message to shard to slice
//   stage 2, 3   into the persistent shard; with several micro-batches, or casts, into a shard of
//                its own, which is then added or cast to it
void GradientReduction::reduce_bucket(std::uint32_t index) {
  if (sharing_.zero < 2) prepare_bucket(index);
  Bucket& bucket = store_.buckets[index];
  const OpLabel made = reduction_label(index, "gradients.reduce");
  if (bucket.reduce == none && sharing_.host_gradients) return to_host(index, made);
  builder_.wait_for_stream(Stream::data_comm, Stream::compute);
  if (bucket.stays) return take_own(index, made);
  if (bucket.compression.exists()) return reduce_compressed(index, made);
  const bool copies = bucket.cast_out != none, casts = bucket.cast_in != none;
  // On the host the first gradients of a step are written, not added.
  const bool host = sharing_.host_gradients;
  const bool adds = bucket.accumulate != none && (!host || bucket.sums_on_host);
  BufferId message = copies ? cast_for_wire(index, made) : bucket.gradient;
  if (bucket.reduce == none) return exchange_with_servers(index, message, made);
  builder_.add_collective(bucket.reduce, Stream::data_comm, Pass::gradient_sync, made,
                          {Action::reduce, index});
  if (sharing_.holds) weights_.free_unit(bucket);
  if (scatters_gradients(context_, bucket) && (sharing_.zero >= 2 || copies)) {
    builder_.frees(message, Role::input);
    const bool final = !casts && !adds;
    message = final ? bucket.gradient_shard : message_buffer(bucket.padded / bucket.shards);
  }
  builder_.writes(message, Role::output);
  if (adds) {
    if (host) host_.bring_gradients(index);
    add_up_shard(index, message, made);
    if (host) host_.take_gradients(index);
    return;
  }
  if (bucket.exchange != none) return exchange_with_servers(index, message, made);
  if (bucket.accumulate == none) average_over_replicas(index, message, made);
  if (casts) {
    builder_.add_kernel(bucket.cast_in, Stream::data_comm, Pass::gradient_sync, made,
                        {Action::cast_in, index});
    builder_.frees(message, Role::input);
    builder_.writes(sharing_.zero >= 2 ? bucket.gradient_shard : bucket.gradient, Role::output);
  }
  if (host) host_.take_gradients(index);
}

// To the shard, which is all of them.
void GradientReduction::take_own(std::uint32_t index, const OpLabel& made) {
  Bucket& bucket = store_.buckets[index];
  if (bucket.accumulate != none) {
    add_up_shard(index, bucket.gradient, made);
  } else {
    builder_.add_kernel(bucket.cast_in, Stream::data_comm, Pass::gradient_sync, made,
                        {Action::cast_in, index});
    builder_.frees(bucket.gradient, Role::input);
    builder_.writes(bucket.gradient_shard, Role::output);
    average_over_replicas(index, bucket.gradient_shard, made);
  }
  if (sharing_.holds) weights_.free_unit(bucket);
}

// With nobody to share them: as they are, or added to those of earlier micro-batches.
void GradientReduction::to_host(std::uint32_t index, const OpLabel& made) {
  const Bucket& bucket = store_.buckets[index];
  if (bucket.sums_on_host) {
    host_.bring_gradients(index);
    builder_.wait_for_stream(Stream::data_comm, Stream::compute);
    add_up_shard(index, bucket.gradient, made);
  }
  host_.take_gradients(index);
}

// Buckets are launched in their fixed order, so that all ranks agree on it; chunks come last first.
void GradientReduction::reduce_ready(int first_chunk) {
  for (; next_reduction_ < store_.buckets.size(); ++next_reduction_) {
    const Bucket& bucket = store_.buckets[next_reduction_];
    const bool alone = !bucket.travels();  // experts that no other rank has
    if (!(bucket.ready || alone) || bucket.chunk < first_chunk) return;
    if (!alone) reduce_bucket(next_reduction_);
  }
}

// The optimizer that sends the signs of its momentum reduces no gradient before its step.
bool GradientReduction::reduces_when_ready() const {
  return layout_.overlap_gradients && !sharing_.holds && !sends_signs(layout_.compression);
}

// Communication beside products slows them down, on one stage and then on those that wait for it.
// So under the interleaved schedule all stages launch the reduction of a chunk after as many passes
// (Megatron-LM, core/pipeline_parallel/schedules.py, backward_step_helper: grad_sync_func,
// `grad_sync_microbatch_id`; what is left follows the last pass).
bool GradientReduction::aligns_reductions() const {
  return reduces_when_ready() && layout_.schedule == Schedule::interleaved && sharing_.zero < 2;
}

// Stage s launches s passes late what the first stage launches at once.
void GradientReduction::reduce_aligned() {
  if (!aligns_reductions()) return;
  std::size_t slot = context_.slot;
  for (int passes = context_.stage; passes > 0;) {
    if (slot == 0) return;
    if (context_.slots[--slot].kind == SlotKind::backward) --passes;
  }
  const int chunk = context_.slots[slot].chunk;
  if (context_.chunks[static_cast<std::size_t>(chunk)].last_backward == static_cast<int>(slot))
    reduce_ready(chunk);
}

void GradientReduction::reduce_remaining() {
  if (sharing_.reduces_each_microbatch()) return;
  for (std::uint32_t i = 0; i < store_.buckets.size(); ++i)
    if (!store_.buckets[i].travels() && store_.buckets[i].elements > 0) prepare_bucket(i);
  for (; next_reduction_ < store_.buckets.size(); ++next_reduction_) {
    if (!store_.buckets[next_reduction_].travels()) continue;
    SIM_CHECK(store_.buckets[next_reduction_].ready, next_reduction_);
    reduce_bucket(next_reduction_);
  }
  if (!sharing_.keeps) return;
  // Frees the units of frozen weights, and of a tied head, which is gathered again behind its
  // reduction.
  for (Bucket& bucket : store_.buckets)
    weights_.free_unit(bucket);
}

// PyTorch, torch/distributed/pipelining/stage.py, perform_reduce_grad: every run of a schedule ends
// with it, and the kernels behind wait for the reductions (_root_post_backward_final_callback).
void GradientReduction::end_run() {
  if (!sharing_.each_run) return;
  reduce_remaining();
  next_reduction_ = 0;
  for (Bucket& bucket : store_.buckets)
    bucket.ready = false;
  builder_.wait_for_stream(Stream::compute, Stream::data_comm);
}

// Without a pipeline the last backward pass reduces as any other: a unit, when its gradients have
// been added to those of the micro-batches before.
void GradientReduction::reduce_held() {
  const bool beside = sharing_.holds && layout_.pipeline_parallel == 1;
  if (beside && layout_.overlap_gradients && synchronises()) reduce_ready(0);
}

// Each GPU of a worker sends the part that the reduction among the worker's GPUs has left it. The
// sum of all workers' gradients comes back in the place of a worker's own. New parameters take the
// place of the old ones, which the backward pass has read by then: its stream waits for no
// exchange, so the exchange waits for it.
void GradientReduction::exchange_with_servers(std::uint32_t index, BufferId message,
                                              const OpLabel& made) {
  const Bucket& bucket = store_.buckets[index];
  const bool casts = message != bucket.gradient;
  builder_.add_kernel(bucket.exchange, Stream::data_comm, Pass::gradient_sync, made,
                      {Action::exchange_with_servers, index});
  if (!layout_.updates_on_servers()) {
    builder_.writes(message, Role::output);
    if (!casts) return;
    builder_.add_kernel(bucket.cast_in, Stream::data_comm, Pass::gradient_sync, made,
                        {Action::cast_in, index});
    builder_.frees(message, Role::input);
    builder_.writes(bucket.gradient, Role::output);
    return;
  }
  if (casts) {
    builder_.frees(message, Role::input);
  } else {
    builder_.reads(message, Role::input);
  }
  builder_.writes(bucket.weight, Role::output);
}

void GradientReduction::reduce_compressed(std::uint32_t index, const OpLabel& made) {
  const Bucket& bucket = store_.buckets[index];
  if (sharing_.zero < 2) return compressor_.reduce(index, bucket.gradient, made);
  const bool adds = bucket.accumulate != none;
  const BufferId result =
      adds ? message_buffer(bucket.padded / bucket.shards) : bucket.gradient_shard;
  compressor_.reduce(index, result, made);
  if (adds) add_up_shard(index, result, made);
}

BufferId GradientReduction::cast_for_wire(std::uint32_t index, const OpLabel& made) {
  const Bucket& bucket = store_.buckets[index];
  const BufferId message = message_buffer(bucket.padded);
  builder_.add_kernel(bucket.cast_out, Stream::data_comm, Pass::gradient_sync, made,
                      {Action::cast_out, index});
  if (sharing_.zero >= 2) {
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
void GradientReduction::add_up_shard(std::uint32_t index, BufferId message, const OpLabel& made) {
  const Bucket& bucket = store_.buckets[index];
  builder_.add_kernel(bucket.accumulate, Stream::data_comm, Pass::gradient_sync, made,
                      {Action::accumulate, index});
  builder_.frees(message, Role::input);
  builder_.writes(bucket.gradient_shard, Role::output);
  if (bucket.replicate == none || !context_.completes_gradients()) return;
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
void GradientReduction::average_over_replicas(std::uint32_t index, BufferId message,
                                              const OpLabel& made) {
  const Bucket& bucket = store_.buckets[index];
  if (bucket.replicate == none) return;
  builder_.add_collective(bucket.replicate, Stream::data_comm, Pass::gradient_sync, made,
                          {Action::replicate, index});
  builder_.writes(message, Role::output);
}

BufferId GradientReduction::message_buffer(std::int64_t elements) {
  return builder_.buffer(Bytes{elements * bytes_of(layout_.reduce_dtype)},
                         BufferCategory::communication);
}

// Under a split backward pass norms are ready in the backward slot and matrices later.
bool GradientReduction::synchronises() const {
  return sharing_.reduces_each_microbatch() || context_.completes_gradients();
}

}  // namespace sim::lowering
