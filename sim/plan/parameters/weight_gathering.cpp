// Sources: Rajbhandari et al. 2020 (ZeRO 1-3); Zhao et al. 2023 (FSDP: units, prefetch, hybrid
// sharding); Megatron-LM, core/distributed/param_and_grad_buffer.py (gathers of ZeRO-1).
#include "sim/plan/parameters/weight_gathering.hpp"

#include <algorithm>

namespace sim::lowering {

// ZeRO-1 and 2 with overlap: the weights updated by the step before are gathered in the order of
// the forward pass, and each block waits for its own.
void WeightGathering::gather_at_start() {
  if (sharing_.zero == 0 || sharing_.zero == 3 || !layout_.overlap_parameters) return;
  // Buckets are in reverse order within a chunk, and chunks in reverse order.
  for (std::size_t i = store_.buckets.size(); i-- > 0;)
    gather_bucket(store_.buckets[i], +1);
}

void WeightGathering::gather_bucket(Bucket& bucket, int direction) {
  if (layout_.offloads_parameters()) host_.fetch(index_of(bucket));
  if (bucket.gather == none) {
    // A shard that no other rank shares is copied where it is used.
    bucket.gathered = bucket.fetched || bucket.copy != none;
    bucket.copied = false;
    bucket.weight_ready = bucket.shard_ready;
    return;
  }
  const bool from_node = direction < 0 && bucket.has_secondary;
  if (from_node || bucket.quantized.collective != none)
    gather_otherwise(bucket, from_node);
  else
    gather_shards(bucket);
  bucket.gathered = true;
  bucket.copied = false;
  if (direction > 0 && bucket.keep_secondary != none && !bucket.has_secondary)
    keep_secondary_shard(bucket);
}

void WeightGathering::gather_shards(Bucket& bucket) {
  const OpLabel made = label_of(bucket, "parameters.all_gather");
  builder_.wait_for_stream(Stream::data_comm, Stream::compute);
  if (bucket.fetched) builder_.wait(Stream::data_comm, bucket.shard_ready);
  bucket.weight_ready =
      builder_.add_collective(bucket.gather, Stream::data_comm, Pass::parameter_sync, made,
                              {Action::gather_weights, index_of(bucket)});
  if (bucket.fetched) {
    builder_.frees(bucket.weight_shard, Role::input);
  } else if (sharing_.zero == 3) {
    builder_.reads(bucket.weight_shard, Role::input);
  }
  builder_.writes(bucket.weight, Role::output);
  bucket.fetched = false;
}

OpLabel WeightGathering::label_of(const Bucket& bucket, const char* name) {
  OpLabel made = context_.label(name);
  made.chunk = context_.chunks[static_cast<std::size_t>(bucket.chunk)].global;
  made.layer = context_.blocks[bucket.first_block].layer;
  return made;
}

std::uint32_t WeightGathering::index_of(const Bucket& bucket) const {
  return static_cast<std::uint32_t>(&bucket - store_.buckets.data());
}

// As integers, from the shards of all ranks; or from the secondary shards of the node.
void WeightGathering::gather_otherwise(Bucket& bucket, bool from_node) {
  const Bucket::Gather& work = from_node ? bucket.secondary : bucket.quantized;
  const BufferId source = from_node ? bucket.weight_secondary : bucket.weight_shard;
  const std::uint32_t index = index_of(bucket);
  builder_.wait_for_stream(Stream::data_comm, Stream::compute);
  if (work.quantize == none) {
    bucket.weight_ready = builder_.add_collective(
        work.collective, Stream::data_comm, Pass::parameter_sync,
        label_of(bucket, "parameters.all_gather"), {Action::gather_weights, index});
    builder_.reads(source, Role::input);
    builder_.writes(bucket.weight, Role::output);
    return;
  }
  const BufferId message = builder_.buffer(work.message, BufferCategory::communication);
  const BufferId came = builder_.buffer(work.came, BufferCategory::communication);
  builder_.add_kernel(work.quantize, Stream::data_comm, Pass::parameter_sync,
                      label_of(bucket, "parameters.quantize"), {Action::quantize_weights, index});
  builder_.reads(source, Role::input);
  builder_.writes(message, Role::output);
  builder_.add_collective(work.collective, Stream::data_comm, Pass::parameter_sync,
                          label_of(bucket, "parameters.all_gather"),
                          {Action::exchange_compressed, index});
  builder_.frees(message, Role::input);
  builder_.writes(came, Role::output);
  bucket.weight_ready = builder_.add_kernel(
      work.dequantize, Stream::data_comm, Pass::parameter_sync,
      label_of(bucket, "parameters.dequantize"), {Action::dequantize_weights, index});
  builder_.frees(came, Role::input);
  builder_.writes(bucket.weight, Role::output);
}

// Once per step: the weights change behind it (partition_parameters.py, AllGatherCoalescedHandle:
// in the first micro-step).
void WeightGathering::keep_secondary_shard(Bucket& bucket) {
  bucket.weight_ready =
      builder_.add_kernel(bucket.keep_secondary, Stream::data_comm, Pass::parameter_sync,
                          label_of(bucket, "parameters.secondary_shard"),
                          {Action::keep_secondary_shard, index_of(bucket)});
  builder_.reads(bucket.weight, Role::input);
  builder_.writes(bucket.weight_secondary, Role::output);
  bucket.has_secondary = true;
}

// FSDP2 shards every parameter by itself: a gathered unit is split into the parameters by a copy on
// the compute stream (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py,
// foreach_all_gather_copy_out).
void WeightGathering::copy_weights(const StageBlock& block) {
  if (sharing_.zero < 3) return;
  for (const std::uint32_t unit :
       store_.units_of_block[static_cast<std::size_t>(&block - context_.blocks.data())]) {
    Bucket& bucket = store_.buckets[unit];
    if (bucket.copy == none || bucket.copied) continue;
    if (bucket.weight_ready.value != none) builder_.wait(Stream::compute, bucket.weight_ready);
    OpLabel made = context_.label("parameters.copy");
    made.layer = block.layer;
    builder_.add_kernel(bucket.copy, Stream::compute, Pass::parameter_sync, made,
                        {Action::copy_weights, unit});
    bucket.weight_ready = OpId{none};
    if (bucket.gather == none) builder_.reads(bucket.weight_shard, Role::input);
    builder_.writes(bucket.weight, Role::output);
    bucket.copied = true;
  }
}

void WeightGathering::wait_for_weights(const StageBlock& block) {
  if (sharing_.zero == 0) return;
  copy_weights(block);
  const std::size_t count = model_.blocks[block.shape].ops.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Parameters& parameters = store_.parameters[block.first_op + i];
    for (const Place* place : {&parameters.own, &parameters.table}) {
      if (place->bucket == none || store_.buckets[place->bucket].weight_ready.value == none)
        continue;
      builder_.wait(Stream::compute, store_.buckets[place->bucket].weight_ready);
    }
  }
}

// The block at the start of the model, where adapters train and it is lookups alone. A norm behind
// them has a backward pass.
bool WeightGathering::is_frozen_table(const StageBlock& block) const {
  if (block.layer >= 0 || block.is_output) return false;
  if (!layout_.trains_adapters() || layout_.trains_embedding) return false;
  return std::ranges::none_of(model_.blocks[block.shape].ops,
                              [](const ShardedOp& op) { return op.op->kind == ModelOpKind::norm; });
}

// ZeRO-3: the unit in use and the next ones of its chunk (FSDP: forward and backward prefetch). A
// gather starts when the kernels issued so far are done, which bounds the units alive.
void WeightGathering::prefetch(std::uint32_t block, int direction) {
  if (sharing_.zero < 3) return;
  gather_tied_table(context_.blocks[block], direction);
  const Chunk& chunk = context_.chunks[static_cast<std::size_t>(context_.blocks[block].chunk)];
  const int ahead = layout_.overlap_parameters ? layout_.prefetch_layers : 0;
  const auto first = static_cast<std::int64_t>(chunk.first_block);
  const std::int64_t last = first + chunk.blocks - 1;
  for (int i = 0; i <= ahead; ++i) {
    const std::int64_t at = std::int64_t{block} + std::int64_t{direction} * i;
    if (at < first || at > last) break;
    const StageBlock& next = context_.blocks[static_cast<std::size_t>(at)];
    if (direction < 0 && (next.frozen || is_frozen_table(next))) break;  // without a backward pass
    for (const std::uint32_t unit : store_.units_of_block[static_cast<std::size_t>(at)]) {
      if (!store_.buckets[unit].gathered) gather_bucket(store_.buckets[unit], direction);
    }
  }
  if (ahead > 0) fetch_ahead(std::int64_t{block} + std::int64_t{direction} * (ahead + 1), chunk);
}

// Layout::offload_parameters: the unit behind those that are gathered is on its way from the host
// (Rajbhandari et al. 2021, section 6.2). One that no other rank shares would come as a whole.
void WeightGathering::fetch_ahead(std::int64_t at, const Chunk& chunk) {
  const auto first = static_cast<std::int64_t>(chunk.first_block);
  if (!layout_.offloads_parameters() || at < first || at >= first + chunk.blocks) return;
  for (const std::uint32_t unit : store_.units_of_block[static_cast<std::size_t>(at)]) {
    const Bucket& bucket = store_.buckets[unit];
    if (!bucket.gathered && bucket.gather != none) host_.fetch(unit);
  }
}

// A head that shares the embedding table needs the unit that holds it.
void WeightGathering::gather_tied_table(const StageBlock& block, int direction) {
  const std::size_t count = model_.blocks[block.shape].ops.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Place& table = store_.parameters[block.first_op + i].table;
    if (table.elements == 0) continue;
    if (!store_.buckets[table.bucket].gathered)
      gather_bucket(store_.buckets[table.bucket], direction);
  }
}

// The last block of the model, whose backward pass comes next: its weights stay (torchtitan,
// models/llama3/infra/parallelize.py: the last layers are not resharded after their forward pass;
// nor is the root unit of FSDP).
bool WeightGathering::turns_around(const StageBlock& block) const {
  const Slot& slot = context_.slots[context_.slot];
  const Chunk& chunk = context_.chunk_of(slot);
  const bool ends_model = chunk.global + 1 == layout_.chunks() &&
                          &block == &context_.blocks[chunk.first_block + chunk.blocks - 1];
  if (!ends_model) return false;
  if (context_.slot + 1 == context_.slots.size()) return false;
  const Slot& next = context_.slots[context_.slot + 1];
  return next.kind == SlotKind::backward && next.chunk == slot.chunk &&
         next.microbatch == slot.microbatch;
}

void WeightGathering::release_weights(const StageBlock& block, bool after_forward) {
  if (sharing_.zero < 3) return;
  for (const std::uint32_t unit :
       store_.units_of_block[static_cast<std::size_t>(&block - context_.blocks.data())]) {
    release_unit(block, store_.buckets[unit], after_forward);
  }
}

// The kernels of the block have read it; who issues the operator added last does not matter.
void WeightGathering::release_unit(const StageBlock& block, Bucket& bucket, bool after_forward) {
  if (after_forward && (!layout_.reshard_after_forward || bucket.keep_gathered)) return;
  if (after_forward && turns_around(block)) return;
  if (sharing_.keeps && !after_forward) return;
  free_unit(bucket);
}

void WeightGathering::free_unit(Bucket& bucket) {
  if (!bucket.gathered) return;
  builder_.frees(bucket.weight, Role::weight);
  bucket.gathered = false;
  if (bucket.gather == none) bucket.fetched = false;
}

}  // namespace sim::lowering
