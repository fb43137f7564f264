// Gradient buckets and gathered parameters.
//
// Sources: Li et al. 2020, "PyTorch Distributed" (buckets in reverse order, a smaller first one);
// Rajbhandari et al. 2020 (ZeRO 1-3); Zhao et al. 2023 (FSDP: units, prefetch, hybrid sharding);
// Megatron-LM, core/distributed/param_and_grad_buffer.py (overlap of ZeRO-1 reductions and
// gathers).
#include <utility>

#include "sim/framework/bucket_sizes.hpp"
#include "sim/plan/lowering/stage_lowering.hpp"

namespace sim::lowering {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

std::int64_t StageLowering::shard_of(const Bucket& bucket) {
  return (bucket.elements + bucket.shards - 1) / bucket.shards;
}

void StageLowering::make_parameters() {
  std::uint32_t table = none;  // the operator that holds the embedding
  const bool over_stages = !placement_.ends_where_it_begins();
  for (const StageBlock& block : blocks_) {
    for (const ShardedOp& op : model_.blocks[block.shape].ops) {
      Parameters& parameters = parameters_.emplace_back();
      parameters.own.elements = op.parameters;
      parameters.own.bytes_each = bytes_of(layout_.activation_dtype);
      parameters.table.bytes_each = parameters.own.bytes_each;
      const bool eight_bits =
          layout_.eight_bit_parameters && (op.encode_weight || op.encode_saved_weight);
      if (eight_bits) parameters.own.bytes_each = bytes_of(DType::fp8);
      if (op.encode_weight && !op.encodes_weight_each_time)
        parameters.encoded_bytes = (eight_bits ? 1 : 2) * op.encode_weight->m * op.encode_weight->n;
      if (op.op->kind == ModelOpKind::embedding && table == none) {
        table = static_cast<std::uint32_t>(parameters_.size() - 1);
        parameters.shared_over_stages = model_.model->tied_embedding && over_stages;
      }
      if (op.tied_parameters == 0) continue;
      parameters.table.elements = op.tied_parameters;
      parameters.same_as = table;  // none: a copy of its own
      parameters.shared_over_stages = table == none;
    }
  }
}

// Whole tensors in reverse order, closed when they reach the size asked for. A table that two
// stages share has a bucket to itself, so that its shards are the same on both; experts, which
// fewer ranks have, lie apart (Megatron-LM, core/distributed/distributed_data_parallel.py).
void StageLowering::make_buckets() {
  units_of_block_.assign(blocks_.size(), {});
  for (std::uint32_t c = static_cast<std::uint32_t>(chunks_.size()); c-- > 0;) {
    const Chunk& chunk = chunks_[c];
    const auto number = static_cast<int>(c);
    const BucketSizes sizes =
        bucket_sizes(layout_, model_.model->execution, {.stage = stage_, .chunk = number});
    const std::int64_t limit = sizes.first.count();
    OpenBucket dense{new_bucket(number, false), limit, {}};
    OpenBucket experts{new_bucket(number, true), limit, {}};
    for (std::uint32_t b = chunk.first_block + chunk.blocks; b-- > chunk.first_block;) {
      const StageBlock& block = blocks_[b];
      for (std::size_t i = model_.blocks[block.shape].ops.size(); i-- > 0;) {
        Parameters& parameters = parameters_[block.first_op + static_cast<std::uint32_t>(i)];
        const bool routed = model_.blocks[block.shape].ops[i].op->experts > 0;
        OpenBucket& open = routed ? experts : dense;
        const bool copy = parameters.table.elements > 0 && parameters.same_as == none;
        if (parameters.shared_over_stages) {
          close_bucket(open);
          open.bucket.holds_shared_table = true;
          add_to_bucket(open, b, copy ? parameters.table : parameters.own);
          close_bucket(open);
          if (!copy) continue;
        }
        if (parameters.own.elements == 0) continue;
        add_to_bucket(open, b, parameters.own);
        const std::int64_t bytes = open.bucket.elements * bytes_of(gradient_dtype_);
        if (zero_ == 3 || bytes < open.limit) continue;
        close_bucket(open);
        open.limit = sizes.others.count();
      }
      if (zero_ == 3) close_bucket(dense);
    }
    close_bucket(dense);
    close_bucket(experts);
  }
  for (Parameters& parameters : parameters_) {
    if (parameters.same_as == none) continue;
    parameters.table = parameters_[parameters.same_as].own;
    ++buckets_[parameters.table.bucket].writers;
  }
}

void StageLowering::add_to_bucket(OpenBucket& open, std::uint32_t block, Place& place) {
  Bucket& bucket = open.bucket;
  open.places.push_back(&place);
  if (bucket.elements == 0) bucket.last_block = block;
  bucket.first_block = block;
  place.first = bucket.elements;
  bucket.elements += place.elements;
  bucket.weight_bytes += place.elements * place.bytes_each;
  ++bucket.writers;
}

Bucket StageLowering::new_bucket(int chunk, bool of_experts) const {
  Bucket bucket;
  bucket.chunk = chunk;
  bucket.of_experts = of_experts;
  bucket.copies = of_experts ? expert_copies_ : layout_.replicas();
  bucket.shards = !of_experts ? shards_ : zero_ > 0 ? expert_copies_ : 1;
  return bucket;
}

void StageLowering::close_bucket(OpenBucket& open) {
  Bucket& bucket = open.bucket;
  for (Place* place : open.places)
    place->bucket = static_cast<std::uint32_t>(buckets_.size());
  if (bucket.elements > 0) {
    if (zero_ == 3) {
      units_of_block_[bucket.first_block].push_back(static_cast<std::uint32_t>(buckets_.size()));
    }
    // The root unit of FSDP, which holds a table used at both ends, stays gathered.
    bucket.keep_gathered = blocks_[bucket.first_block].is_first && model_.model->tied_embedding &&
                           layout_.pipeline_parallel == 1;
    bucket.padded = round_up(bucket.elements, bucket.shards);
    bucket.weight_bytes = round_up(bucket.weight_bytes + (bucket.padded - bucket.elements) *
                                                             bytes_of(layout_.activation_dtype),
                                   bucket.shards);
    intern_bucket(bucket);
    buckets_.push_back(bucket);
  }
  bucket = new_bucket(bucket.chunk, bucket.of_experts);
  open.places.clear();
}

void StageLowering::intern_bucket(Bucket& bucket) {
  const int wire = bytes_of(layout_.reduce_dtype);
  const bool hybrid = bucket.shards < bucket.copies;
  const GroupRole all = bucket.of_experts ? GroupRole::expert_data : GroupRole::data;
  const GroupRole shard_role = hybrid ? GroupRole::shard : all;
  if (bucket.shards == 1) {
    if (bucket.copies > 1) {
      bucket.reduce = builder_.collective(
          {CollectiveKind::all_reduce, all, layout_.reduce_dtype, Bytes{bucket.elements * wire}});
    }
  } else {
    const bool scatters = scatters_gradients(bucket);
    bucket.reduce = builder_.collective(
        {scatters ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
         scatters ? shard_role : all, layout_.reduce_dtype, Bytes{bucket.padded * wire}});
    bucket.gather = builder_.collective({CollectiveKind::all_gather, shard_role,
                                         layout_.activation_dtype, Bytes{bucket.weight_bytes}});
    if (hybrid && scatters) {
      bucket.replicate =
          builder_.collective({CollectiveKind::all_reduce, GroupRole::replicate,
                               layout_.reduce_dtype, Bytes{bucket.padded / bucket.shards * wire}});
    }
  }
  if (bucket.reduce != none) intern_reduction(bucket);
  if (model_.model->execution.copies_weights && zero_ == 3)
    bucket.copy =
        memory_pass(2 * bucket.weight_bytes, OpKind::elementwise, layout_.activation_dtype);
}

// What runs beside the reduction: changes of format, sums over micro-batches.
void StageLowering::intern_reduction(Bucket& bucket) {
  const std::int64_t wire = bytes_of(layout_.reduce_dtype);
  const std::int64_t stored = bytes_of(gradient_dtype_);
  const std::int64_t owned = shard_of(bucket);
  const GradientBuckets form = model_.model->execution.gradient_buckets;
  const std::int64_t cast = layout_.reduce_dtype != gradient_dtype_ ? stored + wire : 0;
  const auto pass = [&](std::int64_t bytes, DType dtype) {
    return memory_pass(bytes, OpKind::elementwise, dtype);
  };
  const auto casts = [&](std::int64_t out, std::int64_t in) {
    bucket.cast_out = pass(out, layout_.reduce_dtype);
    bucket.cast_in = pass(in, gradient_dtype_);
  };
  std::int64_t taken = 0;  // bytes moved per element of what a rank takes out of a message
  if (form == GradientBuckets::flat) {
    if (cast > 0)
      casts(bucket.elements * cast, owned * cast);
    else if (holds_)  // put together: _fsdp_collectives.py, foreach_reduce_scatter_copy_in
      bucket.cast_out = pass(bucket.elements * (stored + wire), layout_.reduce_dtype);
  } else if (form == GradientBuckets::copied || zero_ == 0 || converts_) {
    // Tensors are put together, divided by the ranks, and taken apart again: Scaling,
    // allreduce.py; DeepSpeed, runtime/engine.py, allreduce_bucket and allreduce_and_copy.
    casts(bucket.elements * (4 * stored + cast), bucket.elements * (2 * stored + cast));
  } else {
    // Into the bucket (reduce_independent_p_g_buckets_and_remove_grads), divided, put together by
    // owner (average_tensor, allreduce_bucket; stage3.py, reduce_scatter_coalesced). Stages 1 and 2
    // write the own part back and copy it once more (allreduce_and_copy_with_multiple_ranks,
    // copy_grads_in_partition).
    taken = zero_ == 3 ? 0 : 2 * wire;
    casts(bucket.elements * (stored + 5 * wire), owned * (taken + wire + stored));
  }
  if (cast > 0) bucket.cast_shard = pass(owned * cast, layout_.reduce_dtype);
  if (accumulates()) bucket.accumulate = pass(owned * (taken + 2 * stored + wire), gradient_dtype_);
}

// DeepSpeed's ZeRO has buckets of full size, however few gradients there are: one, or with overlap
// two in turns (runtime/zero/stage_1_and_2.py, setup_buckets; stage3.py has one).
void StageLowering::allocate_bucket_copies() {
  const Execution& runs = model_.model->execution;
  if (runs.gradient_buckets != GradientBuckets::sliced || zero_ == 0 || converts_) return;
  const std::int64_t elements =
      bucket_sizes(layout_, runs).others.count() / bytes_of(gradient_dtype_);
  const Bytes each{elements * bytes_of(layout_.activation_dtype)};
  for (int i = 0; i < (zero_ < 3 && layout_.overlap_gradients ? 2 : 1); ++i)
    builder_.buffer(each, BufferCategory::communication, true);
}

// One buffer per bucket for weights, one for gradients, one for the state of the optimizer, so that
// a bucket is reduced and gathered where it lies (Megatron-LM, core/distributed/
// param_and_grad_buffer.py; PyTorch DDP, gradient_as_bucket_view; FSDP's flat parameter).
void StageLowering::allocate_parameters() {
  const int gradient = bytes_of(gradient_dtype_);
  for (Parameters& parameters : parameters_) {
    if (parameters.encoded_bytes == 0 || zero_ == 3) continue;
    parameters.encoded =
        builder_.buffer(Bytes{parameters.encoded_bytes}, BufferCategory::weights, true);
  }
  for (Bucket& bucket : buckets_) {
    const std::int64_t shard = bucket.padded / bucket.shards;
    bucket.weight = builder_.buffer(
        Bytes{bucket.weight_bytes},
        zero_ == 3 ? BufferCategory::gathered_parameters : BufferCategory::weights, zero_ < 3);
    bucket.gradient =
        builder_.buffer(Bytes{bucket.padded * gradient}, BufferCategory::gradients, zero_ < 2);
    if (zero_ == 3) {
      bucket.weight_shard = builder_.buffer(Bytes{bucket.weight_bytes / bucket.shards},
                                            BufferCategory::weights, true);
    }
    if (zero_ >= 2) {
      bucket.gradient_shard =
          builder_.buffer(Bytes{shard * gradient}, BufferCategory::gradients, true);
    }
    // fp32 master weights, if any, and moments.
    bucket.optimizer =
        builder_.buffer(Bytes{shard * (layout_.master_bytes() + layout_.moment_bytes())},
                        BufferCategory::optimizer, true);
    if (converts_)  // what autograd adds to
      builder_.buffer(Bytes{bucket.padded * bytes_of(layout_.activation_dtype)},
                      BufferCategory::gradients, true);
  }
  allocate_bucket_copies();
  allocate_kept_placeholders();
  allocate_expert_workspaces();
  describe_parameters();
}

// For those who execute the program.
void StageLowering::describe_parameters() {
  for (const StageBlock& block : blocks_) {
    const auto& ops = model_.blocks[block.shape].ops;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const Parameters& parameters = parameters_[block.first_op + i];
      Site& site = sites_.emplace_back();
      site.place = block.is_output    ? BlockPlace::output
                   : block.layer >= 0 ? BlockPlace::layer
                                      : BlockPlace::input;
      site.layer = block.layer;
      site.op = static_cast<std::int16_t>(i);
      site.bucket = parameters.matrix().bucket;
      site.first = parameters.matrix().first;
      site.elements = parameters.matrix().elements;
      site.tied = parameters.table.elements > 0;
      // All of them, or the bias behind the matrix.
      site.summed = ops[i].tensor_summed;
      site.summed_first = site.first + site.elements - site.summed;
    }
  }
  std::vector<ParameterBucket> described;
  for (const Bucket& bucket : buckets_) {
    ParameterBucket& made = described.emplace_back();
    made.elements = bucket.elements;
    made.padded = bucket.padded;
    made.shards = bucket.shards;
    made.of_experts = bucket.of_experts;
    made.weight = bucket.weight;
    made.weight_shard = bucket.weight_shard;
    if (zero_ < 2) made.gradient = bucket.gradient;
    made.gradient_shard = bucket.gradient_shard;
    made.optimizer = bucket.optimizer;
  }
  builder_.set_parameters(sites_, std::move(described));
}

// ZeRO-1 and 2 with overlap: the weights updated by the step before are gathered in the order of
// the forward pass, and each block waits for its own.
void StageLowering::gather_at_start() {
  if (zero_ == 0 || zero_ == 3 || !layout_.overlap_parameters) return;
  // Buckets are in reverse order within a chunk, and chunks in reverse order.
  for (std::size_t i = buckets_.size(); i-- > 0;)
    gather_bucket(buckets_[i]);
}

void StageLowering::gather_bucket(Bucket& bucket) {
  if (bucket.gather == none) return;
  OpLabel made = label("parameters.all_gather");
  made.chunk = chunks_[static_cast<std::size_t>(bucket.chunk)].global;
  made.layer = blocks_[bucket.first_block].layer;
  builder_.wait_for_stream(Stream::data_comm, Stream::compute);
  bucket.weight_ready = builder_.add_collective(
      bucket.gather, Stream::data_comm, Pass::parameter_sync, made,
      {Action::gather_weights, static_cast<std::uint32_t>(&bucket - buckets_.data())});
  if (zero_ == 3) builder_.reads(bucket.weight_shard, Role::input);
  builder_.writes(bucket.weight, Role::output);
  bucket.gathered = true;
  bucket.copied = false;
}

// FSDP2 shards every parameter by itself: a gathered unit is split into the parameters by a copy on
// the compute stream (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py,
// foreach_all_gather_copy_out).
void StageLowering::copy_weights(const StageBlock& block) {
  if (zero_ < 3) return;
  for (const std::uint32_t unit :
       units_of_block_[static_cast<std::size_t>(&block - blocks_.data())]) {
    Bucket& bucket = buckets_[unit];
    if (bucket.copy == none || bucket.copied) continue;
    builder_.wait(Stream::compute, bucket.weight_ready);
    OpLabel made = label("parameters.copy");
    made.layer = block.layer;
    builder_.add_kernel(bucket.copy, Stream::compute, Pass::parameter_sync, made,
                        {Action::copy_weights, unit});
    bucket.weight_ready = OpId{none};
    builder_.writes(bucket.weight, Role::output);
    bucket.copied = true;
  }
}

void StageLowering::wait_for_weights(const StageBlock& block) {
  if (zero_ == 0) return;
  copy_weights(block);
  const std::size_t count = model_.blocks[block.shape].ops.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Parameters& parameters = parameters_[block.first_op + i];
    for (const Place* place : {&parameters.own, &parameters.table}) {
      if (place->bucket == none || buckets_[place->bucket].weight_ready.value == none) continue;
      builder_.wait(Stream::compute, buckets_[place->bucket].weight_ready);
    }
  }
}

// ZeRO-3: the unit in use and the next ones of its chunk (FSDP: forward and backward prefetch). A
// gather starts when the kernels issued so far are done, which bounds the units alive.
void StageLowering::prefetch(std::uint32_t block, int direction) {
  if (zero_ < 3) return;
  gather_tied_table(blocks_[block]);
  const Chunk& chunk = chunks_[static_cast<std::size_t>(blocks_[block].chunk)];
  const int ahead = layout_.overlap_parameters ? layout_.prefetch_layers : 0;
  const auto first = static_cast<std::int64_t>(chunk.first_block);
  const std::int64_t last = first + chunk.blocks - 1;
  for (int i = 0; i <= ahead; ++i) {
    const std::int64_t at = std::int64_t{block} + std::int64_t{direction} * i;
    if (at < first || at > last) break;
    for (const std::uint32_t unit : units_of_block_[static_cast<std::size_t>(at)]) {
      if (!buckets_[unit].gathered) gather_bucket(buckets_[unit]);
    }
  }
}

// A head that shares the embedding table needs the unit that holds it.
void StageLowering::gather_tied_table(const StageBlock& block) {
  const std::size_t count = model_.blocks[block.shape].ops.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Place& table = parameters_[block.first_op + i].table;
    if (table.elements == 0) continue;
    if (!buckets_[table.bucket].gathered) gather_bucket(buckets_[table.bucket]);
  }
}

// The last block of the model, whose backward pass comes next: its weights stay (torchtitan,
// models/llama3/infra/parallelize.py: the last layers are not resharded after their forward pass;
// nor is the root unit of FSDP).
bool StageLowering::turns_around(const StageBlock& block) const {
  const Slot& slot = slots_[current_slot_];
  const Chunk& chunk = chunk_of(slot);
  const bool ends_model = chunk.global + 1 == layout_.chunks() &&
                          &block == &blocks_[chunk.first_block + chunk.blocks - 1];
  if (!ends_model) return false;
  if (current_slot_ + 1 == slots_.size()) return false;
  const Slot& next = slots_[current_slot_ + 1];
  return next.kind == SlotKind::backward && next.chunk == slot.chunk &&
         next.microbatch == slot.microbatch;
}

void StageLowering::release_weights(const StageBlock& block, bool after_forward) {
  if (zero_ < 3) return;
  for (const std::uint32_t unit :
       units_of_block_[static_cast<std::size_t>(&block - blocks_.data())]) {
    release_unit(block, buckets_[unit], after_forward);
  }
}

// The kernels of the block have read it; who issues the operator added last does not matter.
void StageLowering::release_unit(const StageBlock& block, Bucket& bucket, bool after_forward) {
  if (after_forward && (!layout_.reshard_after_forward || bucket.keep_gathered)) return;
  if (after_forward && turns_around(block)) return;
  if (holds_ && !after_forward) return;
  free_unit(bucket);
}

void StageLowering::free_unit(Bucket& bucket) {
  if (!bucket.gathered) return;
  builder_.frees(bucket.weight, Role::weight);
  bucket.gathered = false;
}

}  // namespace sim::lowering
