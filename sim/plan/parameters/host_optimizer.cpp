// Sources: Ren et al. 2021, "ZeRO-Offload" (gradients of 2 bytes to the host, weights of 2 bytes
// back); deepspeedai/DeepSpeed, csrc/adam (an update reads gradient, master and moments and writes
// master, moments and the new weight); Megatron-LM, core/optimizer/cpu_offloading/
// hybrid_optimizer.py (all gradients are copied, then the host updates, then the weights come back;
// with --overlap-cpu-optimizer-d2h-h2d part by part); ZeRO-Infinity: states are read from and
// written to NVMe. With offload_delay as Ren et al. say in section 5.2: the update with the
// gradients of one step runs beside the next one, whose weights are those of the update before; its
// results are copied at the end of that step.
#include "sim/plan/parameters/host_optimizer.hpp"

#include <vector>

namespace sim::lowering {

void HostOptimizer::begin_step() {
  if (!layout_.offload_delay) return;
  for (std::uint32_t index = 0; index < store_.buckets.size(); ++index)
    delayed_.push_back(update_on_host(index, OpId{none}));
}

void HostOptimizer::update() {
  if (sharing_.host_gradients) return update_in_place();
  if (layout_.offload_delay) return take_turns();
  builder_.wait_for_stream(Stream::host_copy, Stream::compute);
  builder_.wait_for_stream(Stream::host_copy, Stream::data_comm);
  std::vector<OpId> ready;
  for (std::uint32_t index = 0; index < store_.buckets.size(); ++index)
    ready.push_back(gradients_to_host(index));
  for (std::uint32_t index = 0; index < store_.buckets.size(); ++index)
    ready[index] = update_on_host(index, waits_for(ready, index));
  for (std::uint32_t index = 0; index < store_.buckets.size(); ++index)
    weights_from_host(index, waits_for(ready, index));
  weights_wait_for(Stream::host_copy);
}

// Gradients lie on the host already, and weights may.
void HostOptimizer::update_in_place() {
  for (const Stream stream : {Stream::compute, Stream::host_copy, Stream::host_load})
    builder_.wait_for_stream(Stream::host_compute, stream);
  std::vector<OpId> updated;
  for (std::uint32_t index = 0; index < store_.buckets.size(); ++index)
    updated.push_back(update_on_host(index, OpId{none}));
  if (layout_.offloads_parameters()) return;
  for (std::uint32_t index = 0; index < store_.buckets.size(); ++index)
    weights_from_host(index, waits_for(updated, index));
  weights_wait_for(Stream::host_copy);
}

// Kernels, and gathers of the new weights.
void HostOptimizer::weights_wait_for(Stream copies) {
  builder_.wait_for_stream(Stream::compute, copies);
  builder_.wait_for_stream(Stream::data_comm, copies);
}

// Gradients go where the update has read the last ones; its weights come back beside them. In the
// steps before the delay begins an update follows its gradients: so weights wait for those, too.
void HostOptimizer::take_turns() {
  builder_.wait_for_stream(Stream::host_copy, Stream::compute);
  builder_.wait_for_stream(Stream::host_copy, Stream::data_comm);
  for (std::uint32_t index = 0; index < store_.buckets.size(); ++index) {
    if (delayed_[index].value == none) continue;
    builder_.wait(Stream::host_copy, delayed_[index]);
    weights_from_host(index, gradients_to_host(index), Stream::host_load);
  }
  weights_wait_for(Stream::host_load);
}

// The copy that the update of a bucket waits for: its own with overlap, else the last of all
// buckets.
OpId HostOptimizer::waits_for(const std::vector<OpId>& ready, std::uint32_t index) const {
  if (layout_.offload_overlap) return ready[index];
  OpId last{none};
  for (std::uint32_t i = index; i < ready.size(); ++i)
    if (ready[i].value != none) last = ready[i];
  return last;
}

std::uint32_t HostOptimizer::host_update(std::int64_t elements) {
  const std::int64_t states = layout_.master_bytes() + layout_.moment_bytes();
  const std::int64_t weight = bytes_of(layout_.activation_dtype);
  Kernel kernel;
  kernel.kind = OpKind::host_update;
  kernel.dtype = DType::fp32;
  kernel.bytes = Bytes{elements * (bytes_of(sharing_.gradient_dtype) + 2 * states + weight +
                                   (layout_.master_weights ? 0 : weight))};
  // DeepSpeed's gradients pass over the disk, too, in fp32 (runtime/zero/stage3.py,
  // _swap_out_offload_fp32_gradients).
  const std::int64_t gradient = runs_.optimizer == OptimizerForm::deepspeed ? 4 : 0;
  if (layout_.offload_optimizer == OffloadTarget::nvme)
    kernel.disk_read = kernel.disk_written = Bytes{elements * (states + gradient)};
  if (layout_.offload_parameters == OffloadTarget::nvme)
    kernel.disk_written += Bytes{elements * weight};
  return builder_.kernel(kernel);
}

OpId HostOptimizer::gradients_to_host(std::uint32_t index) {
  const Bucket& bucket = store_.buckets[index];
  if (bucket.offloaded == 0) return OpId{none};
  const OpId copied = builder_.add_kernel(
      host_copy(context_, Bytes{bucket.offloaded * bytes_of(sharing_.gradient_dtype)}),
      Stream::host_copy, Pass::optimizer, context_.label("gradients_to_host"),
      {Action::gradients_to_host, index});
  builder_.reads(sharing_.zero >= 2 ? bucket.gradient_shard : bucket.gradient, Role::input);
  builder_.writes(bucket.host_gradient, Role::output);
  return copied;
}

OpId HostOptimizer::update_on_host(std::uint32_t index, OpId behind) {
  const Bucket& bucket = store_.buckets[index];
  if (bucket.offloaded == 0) return OpId{none};
  if (behind.value != none) builder_.wait(Stream::host_compute, behind);
  const OpId updated =
      builder_.add_kernel(host_update(bucket.offloaded), Stream::host_compute, Pass::optimizer,
                          context_.label("update_on_host"), {Action::update_on_host, index});
  builder_.reads(bucket.host_gradient, Role::input);
  builder_.writes(bucket.host_states, Role::state);
  builder_.writes(bucket.host_weight, Role::output);
  return updated;
}

void HostOptimizer::weights_from_host(std::uint32_t index, OpId behind, Stream stream) {
  const Bucket& bucket = store_.buckets[index];
  if (bucket.offloaded == 0) return;
  builder_.wait(stream, behind);
  const bool masters = runs_.offload_keeps_masters && layout_.master_weights;
  const std::int64_t each = masters ? layout_.master_bytes() : bytes_of(layout_.activation_dtype);
  builder_.add_kernel(host_copy(context_, Bytes{bucket.offloaded * each}), stream, Pass::optimizer,
                      context_.label("weights_from_host"), {Action::weights_from_host, index});
  builder_.reads(bucket.host_weight, Role::input);
  builder_.writes(sharing_.zero == 3 ? bucket.weight_shard : bucket.weight, Role::output);
}

}  // namespace sim::lowering
