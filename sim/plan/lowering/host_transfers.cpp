// Sources: Rajbhandari et al. 2021, "ZeRO-Infinity", section 6: each rank brings its own part over
// its own link, then all gather; reads of the disk, copies and gathers of following units go on
// side by side. deepspeedai/DeepSpeed, runtime/zero/stage3.py, partition_grads: a micro-batch's
// gradients are copied to the host; later ones bring the sum to the device, add to it there and
// copy it back.
#include "sim/plan/lowering/host_transfers.hpp"

namespace sim::lowering {

std::uint32_t host_copy(LoweringContext& context, Bytes bytes, Bytes from_disk) {
  Kernel kernel;
  kernel.kind = OpKind::host_copy;
  kernel.dtype = context.layout.activation_dtype;
  kernel.bytes = bytes;
  kernel.disk_read = from_disk;
  return context.builder.kernel(kernel);
}

OpLabel HostTransfers::label_of(const Bucket& bucket, const char* name) {
  OpLabel made = context_.label(name);
  made.chunk = context_.chunks[static_cast<std::size_t>(bucket.chunk)].global;
  made.layer = context_.blocks[bucket.first_block].layer;
  return made;
}

// FSDP's shards are the fp32 parameters, which the device casts before it gathers them (PyTorch,
// torch/distributed/fsdp/_fully_shard/_fsdp_param.py, all_gather_inputs); DeepSpeed's are 16 bits.
// Frozen parameters come in the format in which they are kept.
Bytes HostTransfers::bytes_of_shard(const Bucket& bucket) const {
  const bool masters = layout_.master_weights && runs_.optimizer != OptimizerForm::deepspeed;
  return Bytes{bucket.padded / bucket.shards *
                   (masters ? layout_.master_bytes() : bytes_of(layout_.activation_dtype)) +
               bucket.frozen_bytes / bucket.shards};
}

// As a gather, it begins when the kernels issued so far are done, which bounds the units alive.
void HostTransfers::fetch(std::uint32_t index) {
  Bucket& bucket = store_.buckets[index];
  if (bucket.fetched) return;
  const Bytes bytes = bytes_of_shard(bucket);
  const bool disk = layout_.offload_parameters == OffloadTarget::nvme;
  builder_.wait_for_stream(Stream::host_load, Stream::compute);
  const std::int64_t stored = bucket.padded / bucket.shards * bytes_of(layout_.activation_dtype) +
                              bucket.frozen_bytes / bucket.shards;
  bucket.shard_ready = builder_.add_kernel(
      host_copy(context_, bytes, disk ? Bytes{stored} : Bytes{}), Stream::host_load,
      Pass::parameter_sync, label_of(bucket, "parameters.from_host"),
      {Action::parameters_from_host, index});
  builder_.reads(bucket.host_weight, Role::input);
  builder_.writes(bucket.gather == none ? bucket.weight : bucket.weight_shard, Role::output);
  bucket.fetched = true;
}

// With nobody to share them gradients come from the stream of kernels.
void HostTransfers::take_gradients(std::uint32_t index) {
  Bucket& bucket = store_.buckets[index];
  const bool summed = bucket.reduce != none || bucket.sums_on_host;
  builder_.wait_for_stream(Stream::host_copy, Stream::data_comm);
  builder_.wait_for_stream(Stream::host_copy, Stream::compute);
  const std::int64_t owned = bucket.padded / bucket.shards;
  builder_.add_kernel(host_copy(context_, Bytes{owned * bytes_of(sharing_.gradient_dtype)}),
                      Stream::host_copy, Pass::gradient_sync, label_of(bucket, "gradients.to_host"),
                      {Action::gradients_to_host, index});
  builder_.frees(summed ? bucket.gradient_shard : bucket.gradient, Role::input);
  builder_.writes(bucket.host_gradient, Role::output);
  bucket.sums_on_host = true;
}

void HostTransfers::bring_gradients(std::uint32_t index) {
  const Bucket& bucket = store_.buckets[index];
  const std::int64_t owned = bucket.padded / bucket.shards;
  builder_.wait_for_stream(Stream::host_load, Stream::host_copy);
  builder_.wait_for_stream(Stream::host_load, Stream::compute);
  const OpId there = builder_.add_kernel(
      host_copy(context_, Bytes{owned * bytes_of(sharing_.gradient_dtype)}), Stream::host_load,
      Pass::gradient_sync, label_of(bucket, "gradients.from_host"),
      {Action::gradients_from_host, index});
  builder_.reads(bucket.host_gradient, Role::input);
  builder_.writes(bucket.gradient_shard, Role::output);
  builder_.wait(Stream::data_comm, there);
}

}  // namespace sim::lowering
