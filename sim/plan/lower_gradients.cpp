// Reduction of gradients over the data-parallel ranks, bucket by bucket.
//
// With gradient accumulation only the last micro-batch of a chunk synchronises (DDP's no_sync,
// Megatron-LM's no_sync_func). Under ZeRO-2 and 3 full gradients do not outlive a micro-batch: each
// one is reduced and added to the shard (FSDP without no_sync). The average over ranks is taken by
// the collective (ncclAvg) and costs nothing.
#include "sim/base/check.hpp"
#include "sim/plan/stage_lowering.hpp"

namespace sim {

// Under a split backward pass norms are ready in the backward slot and matrices later.
bool StageLowering::synchronises() const {
  return zero_ >= 2 || is_last_microbatch();
}

bool StageLowering::is_last_microbatch() const {
  const Slot& slot = slots_[current_slot_];
  const int last = chunk_of(slot).last_backward;
  return slots_[static_cast<std::size_t>(last)].microbatch == slot.microbatch;
}

void StageLowering::write_gradient(const Frame& frame, std::size_t i) {
  const Parameters* parameters = &parameters_[frame.block->first_op + i];
  if (parameters->same_as != none) parameters = &parameters_[parameters->same_as];
  if (parameters->bucket == none) return;
  if (zero_ < 2) return builder_.writes(parameters->gradient);
  Bucket& bucket = buckets_[parameters->bucket];
  if (!bucket.gradient_alive) {
    bucket.gradient = builder_.buffer(Bytes{bucket.elements * bytes_of(layout_.gradient_dtype)},
                                      BufferCategory::gradients);
    bucket.gradient_alive = true;
  }
  builder_.writes(bucket.gradient);
}

void StageLowering::gradient_ready(const Frame& frame, std::size_t i) {
  const std::uint32_t index = parameters_[frame.block->first_op + i].bucket;
  if (index == none || buckets_[index].reduce == none || !synchronises()) return;
  Bucket& bucket = buckets_[index];
  if (bucket.pending == 0) bucket.pending = bucket.operators;
  if (--bucket.pending > 0) return;
  if (zero_ >= 2) return reduce_bucket(index);
  bucket.ready = true;
  // Buckets are launched in their fixed order, so that all ranks agree on it.
  while (layout_.overlap_gradients && next_reduction_ < buckets_.size() &&
         buckets_[next_reduction_].ready) {
    reduce_bucket(next_reduction_++);
  }
}

void StageLowering::reduce_remaining() {
  if (zero_ >= 2) return;
  for (; next_reduction_ < buckets_.size(); ++next_reduction_) {
    if (buckets_[next_reduction_].reduce == none) continue;
    SIM_CHECK(buckets_[next_reduction_].ready, next_reduction_);
    reduce_bucket(next_reduction_);
  }
}

// On the communication stream, so that compute does not wait: cast to the format on the wire,
// reduce, sum over the copies of a hybrid sharding, cast back or add to the shard.
void StageLowering::reduce_bucket(std::uint32_t index) {
  Bucket& bucket = buckets_[index];
  OpLabel made = label("gradients.reduce");
  made.chunk = chunks_[static_cast<std::size_t>(bucket.chunk)].global;
  made.layer = blocks_[bucket.first_block].layer;
  const int wire = bytes_of(layout_.reduce_dtype);
  builder_.wait_for_stream(Stream::data_comm, Stream::compute);
  bucket.gradient_alive = false;
  const auto gradient_buffers = [&] {
    if (zero_ >= 2) return builder_.frees(bucket.gradient);
    for (const Parameters& parameters : parameters_of(bucket)) {
      if (parameters.bucket == index) builder_.writes(parameters.gradient);
    }
  };
  BufferId message{none};
  if (bucket.cast_out != none) {
    message = builder_.buffer(Bytes{bucket.elements * wire}, BufferCategory::communication);
    builder_.add_kernel(bucket.cast_out, Stream::data_comm, Pass::gradient_sync, made);
    builder_.writes(message);
    gradient_buffers();
  }
  BufferId shard{none};
  builder_.add_collective(bucket.reduce, Stream::data_comm, Pass::gradient_sync, made);
  if (shards_ > 1 && (bucket.accumulate != none || bucket.cast_in != none)) {
    shard = builder_.buffer(Bytes{shard_of(bucket.elements) * wire}, BufferCategory::communication);
    builder_.writes(shard);
  }
  if (message.value == none) {
    gradient_buffers();
  } else if (shard.value != none) {
    builder_.frees(message);
  }
  if (zero_ >= 2 && shard.value == none) builder_.writes(bucket.gradient_shard);
  const BufferId reduced = shard.value != none ? shard : message;
  sum_over_replicas(bucket, reduced, made);
  if (reduced.value == none) return;
  const bool adds = bucket.accumulate != none;
  builder_.add_kernel(adds ? bucket.accumulate : bucket.cast_in, Stream::data_comm,
                      Pass::gradient_sync, made);
  builder_.frees(reduced);
  if (zero_ >= 2) builder_.writes(bucket.gradient_shard);
}

// Hybrid sharding: the shard is summed over the copies, once per step.
void StageLowering::sum_over_replicas(const Bucket& bucket, BufferId shard, const OpLabel& made) {
  if (bucket.replicate == none || !is_last_microbatch()) return;
  builder_.add_collective(bucket.replicate, Stream::data_comm, Pass::gradient_sync, made);
  if (shard.value != none) builder_.writes(shard);
  if (shard.value == none && zero_ >= 2) builder_.writes(bucket.gradient_shard);
}

}  // namespace sim
