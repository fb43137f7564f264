// The end of a step: what is summed once per step, the gradient norm, Adam, updated weights.
//
// Order as in Megatron-LM, core/distributed/finalize_model_grads.py: data-parallel reductions,
// gradients of sequence-parallel regions over the tensor group, tied embedding over its two stages;
// then core/optimizer/optimizer.py: norm, clip, update.
#include "sim/plan/stage_lowering.hpp"

namespace sim {
namespace {

// Tensors that one launch of Apex's multi-tensor Adam takes at depth 5 (gradient, master, m, v,
// weight): csrc/multi_tensor_apply.cuh, depth_to_max_tensors.
constexpr std::int64_t tensors_per_launch = 30;

}  // namespace

std::int64_t StageLowering::owned_elements() const {
  std::int64_t elements = 0;
  for (const Bucket& bucket : buckets_)
    elements += shard_of(bucket.elements);
  return elements;
}

std::uint32_t StageLowering::memory_pass(std::int64_t bytes, OpKind kind, DType dtype,
                                         int launches) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.dtype = dtype;
  kernel.bytes = Bytes{bytes};
  kernel.launches = launches;
  return builder_.kernel(kernel);
}

// Gradients are accumulated, so what outlives a step starts at zero (Megatron-LM,
// zero_grad_buffer).
void StageLowering::zero_gradients() {
  std::int64_t elements = 0;
  for (const Bucket& bucket : buckets_) {
    if (zero_ >= 2 && bucket.accumulate == none) continue;  // overwritten by its one reduction
    elements += zero_ >= 2 ? shard_of(bucket.elements) : bucket.elements;
  }
  if (elements == 0) return;
  const std::uint32_t kernel = memory_pass(elements * bytes_of(layout_.gradient_dtype),
                                           OpKind::elementwise, layout_.gradient_dtype);
  builder_.add_kernel(kernel, Stream::compute, Pass::optimizer, label("zero_gradients"));
  touch_gradients(Access::write);
}

void StageLowering::touch_gradients(Access access) {
  const auto touch = [&](BufferId buffer) {
    if (buffer.value == none) return;
    if (access == Access::write) return builder_.writes(buffer);
    builder_.reads(buffer);
  };
  for (const Parameters& parameters : parameters_)
    touch(parameters.gradient);
  for (const Bucket& bucket : buckets_)
    touch(bucket.gradient_shard);
}

void StageLowering::write_updated_state() {
  for (const Bucket& bucket : buckets_) {
    builder_.writes(bucket.optimizer);
    if (bucket.weight_shard.value != none) builder_.writes(bucket.weight_shard);
  }
  for (const Parameters& parameters : parameters_) {
    if (parameters.weight.value != none) builder_.writes(parameters.weight);
  }
}

// Norms and biases outside the split blocks see only a slice of the tokens (sequence parallelism),
// norms inside them only some of the heads: their gradients are summed over the tensor group.
void StageLowering::sum_tensor_gradients() {
  std::int64_t elements = 0;
  for (const StageBlock& block : blocks_) {
    for (const ShardedOp& op : model_.blocks[block.shape].ops)
      elements += op.tensor_summed;
  }
  if (elements == 0) return;
  if (zero_ >= 2) elements = shard_of(elements);
  builder_.wait_for_stream(Stream::tensor_comm, Stream::compute);
  builder_.wait_for_stream(Stream::tensor_comm, Stream::data_comm);
  const OpId done = builder_.add_collective(
      builder_.collective({CollectiveKind::all_reduce, GroupRole::tensor, layout_.gradient_dtype,
                           Bytes{elements * bytes_of(layout_.gradient_dtype)}}),
      Stream::tensor_comm, Pass::gradient_sync, label("sequence_gradients.all_reduce"));
  builder_.wait(Stream::compute, done);
}

// The table is held by the first and the last stage: both add up its gradient.
void StageLowering::sum_tied_gradients() {
  const int last = layout_.pipeline_parallel - 1;
  if (!model_.model->tied_embedding || last == 0 || (stage_ != 0 && stage_ != last)) return;
  std::int64_t elements = 0;
  for (const StageBlock& block : blocks_) {
    for (const ShardedOp& op : model_.blocks[block.shape].ops) {
      elements += op.tied_parameters;
      if (op.op->kind == ModelOpKind::embedding) elements += op.parameters;
    }
  }
  if (zero_ >= 2) elements = shard_of(elements);
  builder_.wait_for_stream(Stream::data_comm, Stream::compute);
  builder_.wait_for_stream(Stream::data_comm, Stream::tensor_comm);
  builder_.add_collective(builder_.collective({CollectiveKind::all_reduce,
                                               GroupRole::tied_embedding, layout_.gradient_dtype,
                                               Bytes{elements * bytes_of(layout_.gradient_dtype)}}),
                          Stream::data_comm, Pass::gradient_sync,
                          label("tied_embedding.all_reduce"));
}

void StageLowering::optimizer_step() {
  const std::int64_t owned = owned_elements();
  const std::int64_t gradient = bytes_of(layout_.gradient_dtype);
  const std::int64_t weight = bytes_of(layout_.activation_dtype);
  const auto launches =
      static_cast<int>((static_cast<std::int64_t>(parameters_.size()) + tensors_per_launch - 1) /
                       tensors_per_launch);
  builder_.wait_for_stream(Stream::compute, Stream::data_comm);
  if (owned > 0) {
    builder_.add_kernel(
        memory_pass(owned * gradient, OpKind::elementwise, layout_.gradient_dtype, launches),
        Stream::compute, Pass::optimizer, label("gradient_norm"));
    touch_gradients(Access::read);
  }
  if (layout_.world_size() > 1) {
    builder_.wait_for_stream(Stream::data_comm, Stream::compute);
    const OpId done = builder_.add_collective(
        builder_.collective({CollectiveKind::all_reduce, GroupRole::world, DType::fp32, Bytes{4}}),
        Stream::data_comm, Pass::optimizer, label("gradient_norm.all_reduce"));
    builder_.wait(Stream::compute, done);
  }
  if (owned == 0) return;
  // Adam reads gradient, master, m and v, and writes master, m, v and the weights; without masters
  // it reads and writes the weights themselves. Clipping scales the gradient as it is read.
  const std::int64_t per_element = gradient + weight + (layout_.master_weights ? 24 : 16 + weight);
  builder_.add_kernel(memory_pass(owned * per_element, OpKind::optimizer, DType::fp32, launches),
                      Stream::compute, Pass::optimizer, label("adam"));
  touch_gradients(Access::read);
  write_updated_state();
  if ((zero_ == 1 || zero_ == 2) && !layout_.overlap_parameters) {
    for (std::size_t i = buckets_.size(); i-- > 0;)
      gather_bucket(buckets_[i]);
  }
}

}  // namespace sim
