// Gradient buckets and gathered parameters.
//
// Sources: Li et al. 2020, "PyTorch Distributed" (buckets in reverse order, a smaller first one);
// Rajbhandari et al. 2020 (ZeRO 1-3); Zhao et al. 2023 (FSDP: units, prefetch, hybrid sharding);
// Megatron-LM, core/distributed/param_and_grad_buffer.py (overlap of ZeRO-1 reductions and
// gathers).
#include "sim/plan/stage_lowering.hpp"

namespace sim {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

std::int64_t StageLowering::shard_of(std::int64_t elements) const {
  return (elements + shards_ - 1) / shards_;
}

void StageLowering::make_parameters() {
  parameters_.reserve(saved_.size() / static_cast<std::size_t>(layout_.micro_batches()));
  std::uint32_t table = none;  // the operator that holds the embedding
  for (const StageBlock& block : blocks_) {
    for (const ShardedOp& op : model_.blocks[block.shape].ops) {
      Parameters& parameters = parameters_.emplace_back();
      parameters.elements = op.parameters;
      if (op.encode_weight)
        parameters.encoded_bytes = 2 * op.encode_weight->m * op.encode_weight->n;
      if (op.op->kind == ModelOpKind::embedding && table == none) {
        table = static_cast<std::uint32_t>(parameters_.size() - 1);
      }
      if (op.tied_parameters == 0) continue;
      if (table != none) {
        parameters.same_as = table;
      } else {
        parameters.elements += op.tied_parameters;  // a copy of its own
      }
    }
  }
}

void StageLowering::make_buckets() {
  unit_of_block_.assign(blocks_.size(), none);
  std::vector<std::uint32_t> operators;
  for (std::uint32_t c = static_cast<std::uint32_t>(chunks_.size()); c-- > 0;) {
    const Chunk& chunk = chunks_[c];
    Bucket bucket;
    std::int64_t limit = layout_.first_bucket.count();
    const auto close = [&] {
      if (operators.empty()) return;
      bucket.chunk = static_cast<int>(c);
      close_bucket(bucket, operators);
      bucket = Bucket{};
      operators.clear();
      limit = layout_.bucket.count();
    };
    for (std::uint32_t b = chunk.first_block + chunk.blocks; b-- > chunk.first_block;) {
      const StageBlock& block = blocks_[b];
      for (std::size_t i = model_.blocks[block.shape].ops.size(); i-- > 0;) {
        const auto at = block.first_op + static_cast<std::uint32_t>(i);
        if (parameters_[at].elements == 0) continue;
        if (operators.empty()) bucket.last_block = b;
        bucket.first_block = b;
        bucket.elements += parameters_[at].elements;
        operators.push_back(at);
        const bool full = bucket.elements * bytes_of(layout_.gradient_dtype) >= limit;
        if (zero_ < 3 && full) close();
      }
      if (zero_ == 3) close();
    }
    close();
  }
}

void StageLowering::close_bucket(Bucket bucket, const std::vector<std::uint32_t>& operators) {
  const auto index = static_cast<std::uint32_t>(buckets_.size());
  bucket.operators = static_cast<std::uint32_t>(operators.size());
  for (const std::uint32_t at : operators)
    parameters_[at].bucket = index;
  if (zero_ == 3) unit_of_block_[bucket.first_block] = index;
  // The root unit of FSDP, which holds a table used at both ends, stays gathered.
  bucket.keep_gathered = blocks_[bucket.first_block].is_first && model_.model->tied_embedding &&
                         layout_.pipeline_parallel == 1;
  intern_bucket(bucket);
  buckets_.push_back(bucket);
}

void StageLowering::intern_bucket(Bucket& bucket) {
  const std::int64_t padded = round_up(bucket.elements, shards_);
  const int wire = bytes_of(layout_.reduce_dtype);
  const int stored = bytes_of(layout_.gradient_dtype);
  const bool hybrid = shards_ < layout_.data_parallel;
  const GroupRole shard_role = hybrid ? GroupRole::shard : GroupRole::data;
  if (shards_ == 1) {
    if (layout_.data_parallel > 1) {
      bucket.reduce = builder_.collective({CollectiveKind::all_reduce, GroupRole::data,
                                           layout_.reduce_dtype, Bytes{bucket.elements * wire}});
    }
  } else {
    bucket.reduce = builder_.collective(
        {CollectiveKind::reduce_scatter, shard_role, layout_.reduce_dtype, Bytes{padded * wire}});
    bucket.gather =
        builder_.collective({CollectiveKind::all_gather, shard_role, layout_.activation_dtype,
                             Bytes{padded * bytes_of(layout_.activation_dtype)}});
    if (hybrid) {
      bucket.replicate =
          builder_.collective({CollectiveKind::all_reduce, GroupRole::replicate,
                               layout_.reduce_dtype, Bytes{padded / shards_ * wire}});
    }
  }
  if (bucket.reduce == none) return;
  const std::int64_t reduced = shards_ == 1 ? bucket.elements : padded / shards_;
  if (layout_.reduce_dtype != layout_.gradient_dtype) {
    bucket.cast_out =
        memory_pass(bucket.elements * (stored + wire), OpKind::elementwise, layout_.reduce_dtype);
    bucket.cast_in =
        memory_pass(reduced * (stored + wire), OpKind::elementwise, layout_.gradient_dtype);
  }
  if (zero_ >= 2 && layout_.micro_batches() > 1) {
    bucket.accumulate =
        memory_pass(reduced * (2 * stored + wire), OpKind::elementwise, layout_.gradient_dtype);
  }
}

void StageLowering::allocate_parameters() {
  const int weight = bytes_of(layout_.activation_dtype);
  const int gradient = bytes_of(layout_.gradient_dtype);
  for (Parameters& parameters : parameters_) {
    if (parameters.encoded_bytes > 0 && zero_ < 3) {
      parameters.encoded =
          builder_.buffer(Bytes{parameters.encoded_bytes}, BufferCategory::weights, true);
    }
    if (parameters.elements == 0) continue;
    if (zero_ < 3) {
      parameters.weight =
          builder_.buffer(Bytes{parameters.elements * weight}, BufferCategory::weights, true);
    }
    if (zero_ < 2) {
      parameters.gradient =
          builder_.buffer(Bytes{parameters.elements * gradient}, BufferCategory::gradients, true);
    }
  }
  for (Bucket& bucket : buckets_) {
    const std::int64_t shard = shard_of(bucket.elements);
    if (zero_ == 3) {
      bucket.weight_shard = builder_.buffer(Bytes{shard * weight}, BufferCategory::weights, true);
    }
    if (zero_ >= 2) {
      bucket.gradient_shard =
          builder_.buffer(Bytes{shard * gradient}, BufferCategory::gradients, true);
    }
    // fp32 master weights, first and second moment; or the two moments alone.
    bucket.optimizer = builder_.buffer(Bytes{shard * (layout_.master_weights ? 12 : 8)},
                                       BufferCategory::optimizer, true);
  }
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
  OpLabel made = label("parameters.all_gather");
  made.chunk = chunks_[static_cast<std::size_t>(bucket.chunk)].global;
  made.layer = blocks_[bucket.first_block].layer;
  builder_.wait_for_stream(Stream::data_comm, Stream::compute);
  bucket.weight_ready =
      builder_.add_collective(bucket.gather, Stream::data_comm, Pass::parameter_sync, made);
  if (zero_ < 3) {
    for (const Parameters& parameters : parameters_of(bucket)) {
      if (parameters.weight.value != none && &buckets_[parameters.bucket] == &bucket) {
        builder_.writes(parameters.weight);
      }
    }
    return;
  }
  bucket.weight = builder_.buffer(
      Bytes{round_up(bucket.elements, shards_) * bytes_of(layout_.activation_dtype)},
      BufferCategory::gathered_parameters);
  builder_.reads(bucket.weight_shard);
  builder_.writes(bucket.weight);
  bucket.gathered = true;
}

// The operators of the blocks that the bucket reaches into.
std::span<const StageLowering::Parameters> StageLowering::parameters_of(
    const Bucket& bucket) const {
  const std::size_t first = blocks_[bucket.first_block].first_op;
  const std::size_t end = bucket.last_block + 1 < blocks_.size()
                              ? blocks_[bucket.last_block + 1].first_op
                              : parameters_.size();
  return std::span{parameters_}.subspan(first, end - first);
}

void StageLowering::wait_for_weights(const StageBlock& block) {
  if (zero_ == 0) return;
  const std::size_t count = model_.blocks[block.shape].ops.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Parameters& parameters = parameters_[block.first_op + i];
    const std::uint32_t bucket =
        parameters.same_as != none ? parameters_[parameters.same_as].bucket : parameters.bucket;
    if (bucket == none || buckets_[bucket].weight_ready.value == none) continue;
    builder_.wait(Stream::compute, buckets_[bucket].weight_ready);
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
    const std::uint32_t unit = unit_of_block_[static_cast<std::size_t>(at)];
    if (unit != none && !buckets_[unit].gathered) gather_bucket(buckets_[unit]);
  }
}

// A head that shares the embedding table needs the unit that holds it.
void StageLowering::gather_tied_table(const StageBlock& block) {
  const std::size_t count = model_.blocks[block.shape].ops.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t table = parameters_[block.first_op + i].same_as;
    if (table == none) continue;
    Bucket& unit = buckets_[parameters_[table].bucket];
    if (!unit.gathered) gather_bucket(unit);
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
  const std::uint32_t unit = unit_of_block_[static_cast<std::size_t>(&block - blocks_.data())];
  if (unit == none) return;
  Bucket& bucket = buckets_[unit];
  if (after_forward && (!layout_.reshard_after_forward || bucket.keep_gathered)) return;
  if (after_forward && turns_around(block)) return;
  if (!bucket.gathered) return;
  builder_.frees(bucket.weight);
  bucket.gathered = false;
}

}  // namespace sim
