// Gradient buckets.
//
// Sources: Li et al. 2020, "PyTorch Distributed" (buckets in reverse order, a smaller first one);
// Rajbhandari et al. 2020 (ZeRO 1-3); Zhao et al. 2023 (FSDP: units, prefetch, hybrid sharding);
// Megatron-LM, core/distributed/param_and_grad_buffer.py (overlap of ZeRO-1 reductions and
// gathers).
#include "sim/plan/lowering/parameter_layout.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/rounding.hpp"
#include "sim/framework/bucket_sizes.hpp"
#include "sim/layout/optimizer_states.hpp"
#include "sim/plan/lowering/adafactor.hpp"
#include "sim/plan/lowering/compression_work.hpp"
#include "sim/plan/lowering/muon.hpp"
#include "sim/plan/server_exchange.hpp"
#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/low_rank.hpp"

namespace sim::lowering {
namespace {

// Of a weight that is cast: so many orders of it, and the scales of both.
std::int64_t encoded_bytes(const ShardedOp& op, int orders) {
  const auto elements = static_cast<double>(op.encoded_elements);
  return std::llround(elements * (orders * op.weight_element + 2 * op.weight_scale_bytes));
}

}  // namespace

// How many orders of a weight that is cast are kept beside it. Where parameters have 4 bits
// themselves, what is stored holds both.
int ParameterLayout::orders_beside(const ModelOp& op, bool quantized_parameters,
                                   bool both_orders) const {
  const DType format = format_of(op, layout_);
  const bool packed = quantized_parameters && format == DType::nvfp4;
  const bool read_as_stored =
      keeps_one_order(runs_, format) ||
      (layout_.trains_adapters() && layout_.frozen_orders == FrozenOrders::one);
  if (both_orders || packed) return 0;
  return (quantized_parameters ? 0 : 1) + (read_as_stored ? 0 : 1);
}

// Of parameters that are not trained, as they are kept.
std::int64_t ParameterLayout::frozen_bytes(const ShardedOp& op, int bytes_each) const {
  double each = bytes_each;
  if (layout_.frozen_format == FrozenFormat::nf4 && is_linear_of_layer(*op.op)) each = nf4_bytes;
  if (layout_.frozen_format == FrozenFormat::int8 && is_linear_of_layer(*op.op))
    each = int8_bytes(op.op->in_features);
  return std::llround(static_cast<double>(op.frozen_parameters) * each);
}

void ParameterLayout::make_parameters() {
  std::uint32_t table = none;  // the operator that holds the embedding
  const bool over_stages = !context_.placement.ends_where_it_begins();
  for (const StageBlock& block : context_.blocks) {
    for (const ShardedOp& op : model_.blocks[block.shape].ops) {
      Parameters& parameters = store_.parameters.emplace_back();
      parameters.own.elements = op.parameters;
      parameters.own.bytes_each = bytes_of(layout_.activation_dtype);
      parameters.table.bytes_each = parameters.own.bytes_each;
      const bool eight_bits = op.encoded_elements > 0 && stores_format_of_products(*op.op, layout_);
      // Both orders take the place of 16 bits where these are what is gathered.
      const bool both_orders =
          eight_bits && gathers_sixteen_bits(runs_, format_of(*op.op, layout_));
      if (eight_bits && !both_orders) parameters.own.bytes_each = bytes_of(DType::fp8);
      parameters.frozen_bytes = frozen_bytes(op, parameters.own.bytes_each);
      if (op.adapter) parameters.own.bytes_each = bytes_of(layout_.activation_dtype);
      if (op.encoded_elements > 0 && !op.encodes_weight_each_time && op.op->shares_with < 0 &&
          !op.op->tied_to_embedding)
        parameters.encoded_bytes =
            encoded_bytes(op, orders_beside(*op.op, eight_bits, both_orders));
      if (op.op->kind == ModelOpKind::embedding && table == none) {
        table = static_cast<std::uint32_t>(store_.parameters.size() - 1);
        parameters.shared_over_stages =
            model_.model->tied_embedding && over_stages && !layout_.trains_adapters();
      }
      if (op.tied_parameters == 0) continue;
      if (op.op->shares_with >= 0) {
        parameters.table.elements = op.tied_parameters;
        parameters.same_as = block.first_op + static_cast<std::uint32_t>(op.op->shares_with);
        continue;
      }
      if (layout_.trains_adapters()) {
        if (table == none)
          parameters.frozen_bytes += op.tied_parameters * bytes_of(layout_.activation_dtype);
        continue;
      }
      parameters.table.elements = op.tied_parameters;
      parameters.same_as = table;  // none: a copy of its own
      parameters.shared_over_stages = table == none;
      if (table == none) table = static_cast<std::uint32_t>(store_.parameters.size() - 1);
    }
  }
}

// A unit of FSDP has one group of ranks for its experts and one for the rest, where these differ
// (torchtitan b5bcd76c, distributed/fsdp.py, apply_fsdp_to_decoder: with expert_parallel_degree 1
// all parameters of a block are sharded over the same mesh).
bool ParameterLayout::puts_experts_apart() const {
  return sharing_.zero < 3 || layout_.expert_parallel > 1 ||
         layout_.expert_tensor() != layout_.tensor_parallel;
}

// The two of a block are gathered and reduced one behind the other.
void ParameterLayout::pair_units() {
  for (const std::vector<std::uint32_t>& units : store_.units_of_block) {
    std::uint32_t dense = none, experts = none;
    for (const std::uint32_t unit : units) {
      if (store_.buckets[unit].elements == 0) continue;
      (store_.buckets[unit].of_experts ? experts : dense) = unit;
    }
    if (dense == none || experts == none) continue;
    store_.buckets[dense].partner = experts;
    store_.buckets[experts].partner = dense;
  }
}

// Whole tensors in reverse order, closed when they reach the size asked for. A table that two
// stages share has a bucket to itself, so that its shards are the same on both; experts, which
// fewer ranks have, lie apart (Megatron-LM, core/distributed/distributed_data_parallel.py).
void ParameterLayout::make_buckets() {
  store_.units_of_block.assign(context_.blocks.size(), {});
  const std::int64_t most = most_of_bucket();
  const bool apart = puts_experts_apart();
  for (std::uint32_t c = static_cast<std::uint32_t>(context_.chunks.size()); c-- > 0;) {
    const Chunk& chunk = context_.chunks[c];
    const auto number = static_cast<int>(c);
    const BucketSizes sizes = bucket_sizes(
        layout_, runs_, {.stage = context_.stage, .chunk = number, .parameters = elements()});
    const std::int64_t limit = std::min(sizes.first.count(), most);
    OpenBucket dense{new_bucket(number, false), limit, {}};
    OpenBucket experts{new_bucket(number, true), limit, {}};
    for (std::uint32_t b = chunk.first_block + chunk.blocks; b-- > chunk.first_block;) {
      const StageBlock& block = context_.blocks[b];
      for (std::size_t i = model_.blocks[block.shape].ops.size(); i-- > 0;) {
        Parameters& parameters = store_.parameters[block.first_op + static_cast<std::uint32_t>(i)];
        const bool routed = apart && model_.blocks[block.shape].ops[i].op->experts > 0;
        OpenBucket& open = routed ? experts : dense;
        const bool copy = parameters.table.elements > 0 && parameters.same_as == none;
        if (parameters.shared_over_stages) {
          close_bucket(open);
          open.bucket.holds_shared_table = true;
          add_to_bucket(open, b, copy ? parameters.table : parameters.own);
          close_bucket(open);
          if (!copy) continue;
        }
        if (sharing_.zero == 3) add_frozen(open, b, parameters);
        if (parameters.own.elements == 0) continue;
        add_to_bucket(open, b, parameters.own);
        add_states(model_.blocks[block.shape], i, parameters.own.elements, open.bucket);
        if (layout_.optimizer == OptimizerKind::muon)
          open.bucket.muon_elements += muon_elements(model_.blocks[block.shape], i, model_);
        const std::int64_t bytes = open.bucket.elements * bytes_of(sharing_.gradient_dtype);
        if (sharing_.zero == 3 || bytes < open.limit) continue;
        close_bucket(open);
        open.limit = std::min(sizes.others.count(), most);
      }
      if (sharing_.zero < 3) continue;
      close_bucket(dense);
      close_bucket(experts);
    }
    close_bucket(dense);
    close_bucket(experts);
  }
  share_tables();
  if (sharing_.zero == 3) pair_units();
}

// Heads that share a table of their stage have its place.
void ParameterLayout::share_tables() {
  for (Parameters& parameters : store_.parameters) {
    if (parameters.same_as == none) continue;
    const Parameters& holder = store_.parameters[parameters.same_as];
    parameters.table = holder.own.elements > 0 ? holder.own : holder.table;
    ++store_.buckets[parameters.table.bucket].writers;
  }
}

// Of gradients: a bucket belongs to one fragment of the model.
std::int64_t ParameterLayout::most_of_bucket() const {
  if (layout_.outer_fragments == 1) return INT64_MAX;
  return elements() / layout_.outer_fragments * bytes_of(sharing_.gradient_dtype);
}

std::int64_t ParameterLayout::elements() const {
  std::int64_t elements = 0;
  for (const Parameters& parameters : store_.parameters)
    elements += parameters.own.elements;
  return elements;
}

void ParameterLayout::add_to_bucket(OpenBucket& open, std::uint32_t block, Place& place) {
  Bucket& bucket = open.bucket;
  open.places.push_back(&place);
  if (bucket.weight_bytes == 0) bucket.last_block = block;
  bucket.first_block = block;
  place.first = bucket.elements;
  bucket.elements += place.elements;
  bucket.weight_bytes += place.elements * place.bytes_each;
  ++bucket.writers;
}

// Layout::lora_rank under ZeRO-3: frozen weights are gathered with their unit.
void ParameterLayout::add_frozen(OpenBucket& open, std::uint32_t block, Parameters& parameters) {
  if (parameters.frozen_bytes == 0) return;
  Bucket& bucket = open.bucket;
  if (bucket.weight_bytes == 0) bucket.last_block = block;
  bucket.first_block = block;
  bucket.weight_bytes += parameters.frozen_bytes;
  bucket.frozen_bytes += parameters.frozen_bytes;
  open.places.push_back(&parameters.own);
}

Bucket ParameterLayout::new_bucket(int chunk, bool of_experts) const {
  Bucket bucket;
  bucket.chunk = chunk;
  bucket.of_experts = of_experts;
  bucket.copies = of_experts ? sharing_.expert_copies : layout_.synchronous_replicas();
  bucket.shards = !of_experts ? sharing_.shards : sharing_.zero > 0 ? sharing_.expert_shards : 1;
  // Automodel leaves them out of FSDP (components/moe/parallelizer.py, apply_fsdp, ignored_params).
  bucket.outside = of_experts && sharing_.zero == 3 && is_of_automodel(runs_.experts) &&
                   layout_.expert_parallel > 1 && bucket.copies == 1 &&
                   !layout_.offloads_parameters();
  return bucket;
}

void ParameterLayout::close_bucket(OpenBucket& open) {
  Bucket& bucket = open.bucket;
  for (Place* place : open.places)
    place->bucket = static_cast<std::uint32_t>(store_.buckets.size());
  if (bucket.weight_bytes > 0) {
    if (sharing_.zero == 3 && !bucket.outside) {
      store_.units_of_block[bucket.first_block].push_back(
          static_cast<std::uint32_t>(store_.buckets.size()));
    }
    // The root unit of FSDP, which holds a table used at both ends, stays gathered.
    bucket.keep_gathered = context_.blocks[bucket.first_block].is_first &&
                           model_.model->tied_embedding && layout_.pipeline_parallel == 1;
    bucket.padded = round_up(bucket.elements, bucket.shards);
    bucket.weight_bytes = round_up(bucket.weight_bytes + (bucket.padded - bucket.elements) *
                                                             bytes_of(layout_.activation_dtype),
                                   bucket.shards);
    intern_bucket(bucket);
    store_.buckets.push_back(bucket);
  }
  bucket = new_bucket(bucket.chunk, bucket.of_experts);
  open.places.clear();
}

void ParameterLayout::intern_bucket(Bucket& bucket) {
  const int wire = bytes_of(layout_.reduce_dtype);
  const bool hybrid = bucket.shards < bucket.copies;
  const bool apart = layout_.trains_apart() || (layout_.has_servers() && layout_.inner_ranks() > 0);
  if (bucket.outside) return;
  const GroupRole all = bucket.of_experts ? GroupRole::expert_data
                        : apart           ? GroupRole::shard
                                          : GroupRole::data;
  const GroupRole shard_role = !hybrid             ? all
                               : bucket.of_experts ? GroupRole::expert_shard
                                                   : GroupRole::shard;
  if (bucket.shards == 1) {
    // Under ZeRO-2 and 3 a shard that is the whole is averaged as any other.
    if (bucket.copies > 1 && bucket.elements > 0) {
      const bool of_shard = sharing_.zero >= 2 && !sharing_.host_gradients;
      (of_shard ? bucket.replicate : bucket.reduce) = builder_.collective(
          {CollectiveKind::all_reduce, all, layout_.reduce_dtype, Bytes{bucket.elements * wire}});
    }
  } else {
    const bool scatters = scatters_gradients(context_, bucket);
    if (bucket.elements > 0)
      bucket.reduce = builder_.collective(
          {scatters ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
           scatters ? shard_role : all, layout_.reduce_dtype, Bytes{bucket.padded * wire}});
    bucket.gather = builder_.collective({CollectiveKind::all_gather, shard_role,
                                         layout_.activation_dtype, Bytes{bucket.weight_bytes}});
    if (hybrid && scatters && bucket.elements > 0) {
      bucket.replicate = builder_.collective(
          {CollectiveKind::all_reduce,
           bucket.of_experts ? GroupRole::expert_replicate : GroupRole::replicate,
           layout_.reduce_dtype, Bytes{bucket.padded / bucket.shards * wire}});
    }
  }
  if (layout_.has_servers()) intern_exchange(bucket);
  bucket.stays = sharing_.zero >= 2 && !sharing_.host_gradients && bucket.elements > 0 &&
                 bucket.reduce == none && bucket.exchange == none;
  if (bucket.travels() || sharing_.host_gradients) intern_reduction(bucket);
  if (sharing_.zero == 3) intern_quantized_gathers(bucket);
  if (sharing_.zero < 3) return;
  if (bucket.gather == none && !layout_.offloads_parameters())
    intern_own_copy(bucket);
  else if (runs_.copies_weights && bucket.gather != none)
    bucket.copy = context_.memory_pass(2 * bucket.weight_bytes, OpKind::elementwise,
                                       layout_.activation_dtype);
}

// A shard that is the whole: FSDP2 casts it and copies that where a gathered unit would lie
// (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, wait_for_unshard, world_size == 1).
void ParameterLayout::intern_own_copy(Bucket& bucket) {
  const std::int64_t kept = layout_.master_weights ? 4 : bytes_of(layout_.activation_dtype);
  const std::int64_t elements = bucket.weight_bytes / bytes_of(layout_.activation_dtype);
  const std::int64_t cast = layout_.master_weights ? elements * kept + bucket.weight_bytes : 0;
  bucket.copy = context_.memory_pass(cast + 2 * bucket.weight_bytes, OpKind::elementwise,
                                     layout_.activation_dtype);
}

// Of what this rank of a worker owns.
void ParameterLayout::intern_exchange(Bucket& bucket) {
  const std::int64_t owned = shard_of(bucket);
  const ServerBytes bytes = server_bytes(layout_, owned);
  Kernel kernel;
  kernel.kind = OpKind::server_exchange;
  kernel.dtype = layout_.reduce_dtype;
  kernel.m = owned;
  kernel.bytes = bytes.pushed + bytes.pulled;
  bucket.exchange = builder_.kernel(kernel);
}

// Weights as 8-bit integers, and a node's own copy of them, which the backward pass gathers
// (deepspeedai/DeepSpeed, runtime/zero/partition_parameters.py, zero_quantized_weights and
// zero_hpz_partition_size).
void ParameterLayout::intern_quantized_gathers(Bucket& bucket) {
  const int stored = bytes_of(layout_.activation_dtype);
  const std::int64_t elements = bucket.weight_bytes / stored;
  const auto gather = [&](GroupRole role, int ranks) {
    Bucket::Gather made;
    const std::int64_t part = elements / ranks;
    made.message = Bytes{part * stored};
    if (layout_.quantized_weights) {
      made.message = quantized_bytes(part, 8);
      made.quantize = builder_.kernel(quantize_kernel(part, 8, stored));
      made.dequantize = builder_.kernel(dequantize_kernel(elements, ranks, 8, stored));
    }
    made.came = made.message * ranks;
    const DType wire = layout_.quantized_weights ? DType::fp32 : layout_.activation_dtype;
    made.collective = builder_.collective({CollectiveKind::all_gather, role, wire, made.came});
    return made;
  };
  if (layout_.quantized_weights) bucket.quantized = gather(GroupRole::data, bucket.shards);
  if (!layout_.secondary_shard || layout_.inner_ranks() == 0) return;
  bucket.secondary = gather(GroupRole::shard, layout_.node_ranks);
  bucket.keep_secondary = context_.memory_pass(2 * bucket.weight_bytes / layout_.node_ranks,
                                               OpKind::elementwise, layout_.activation_dtype);
}

// A matrix of the operator's own parameters, as PyTorch has it: rows are outputs, or entries of a
// table.
std::optional<MatrixPlace> ParameterLayout::matrix_of(const ShardedOp& op,
                                                      const Parameters& parameters) const {
  const bool table = op.op->kind == ModelOpKind::embedding;
  if (!table && op.op->kind != ModelOpKind::linear) return std::nullopt;
  MatrixPlace matrix;
  matrix.first = parameters.own.first;
  const bool row = op.op->split == TensorSplit::row;
  matrix.columns =
      table ? op.op->out_features : op.op->in_features / (row ? layout_.tensor_parallel : 1);
  const bool has_bias = op.op->biases > 0;
  matrix.rows = parameters.own.elements / (matrix.columns + (has_bias ? 1 : 0));
  if (!is_worth_factors(matrix.rows, matrix.columns, layout_.compression_rank)) return std::nullopt;
  return matrix;
}

void ParameterLayout::find_matrices() {
  for (const StageBlock& block : context_.blocks) {
    const auto& ops = model_.blocks[block.shape].ops;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const Parameters& parameters = store_.parameters[block.first_op + i];
      if (parameters.own.bucket == none) continue;
      if (const auto matrix = matrix_of(ops[i], parameters))
        store_.buckets[parameters.own.bucket].matrices.push_back(*matrix);
    }
  }
}

void ParameterLayout::compress_gradients() {
  if (layout_.compression == GradientCompression::none) return;
  if (layout_.compression == GradientCompression::power_sgd) find_matrices();
  const bool scatters = sharing_.zero >= 2;
  for (Bucket& bucket : store_.buckets) {
    if (bucket.reduce == none) continue;
    const CompressionPlan plan =
        compression_plan(layout_, {.elements = bucket.elements,
                                   .padded = bucket.padded,
                                   .ranks = bucket.copies,
                                   .inner = scatters ? layout_.inner_ranks() : 0,
                                   .tensors = 2 * static_cast<int>(bucket.writers),
                                   .matrices = bucket.matrices});
    CompressionWork& work = bucket.compression;
    work.compress = builder_.kernel(plan.compress);
    work.decompress = builder_.kernel(plan.decompress);
    if (plan.exchanges.size() > 1) work.recompress = builder_.kernel(plan.recompress);
    for (const CompressedExchange& exchange : plan.exchanges) {
      const bool sums = exchange.kind == CollectiveKind::all_reduce;
      work.exchanges.push_back(
          {.collective = builder_.collective({exchange.kind, exchange.group, exchange.dtype,
                                              sums ? exchange.message : exchange.came}),
           .message = exchange.message,
           .came = exchange.came,
           .in_place = sums});
    }
    work.reads_gradient_again = plan.reads_gradient_again;
    work.keeps_first = plan.keeps_first;
    bucket.residual_bytes = plan.residual;
  }
}

// What runs beside the reduction: changes of format, sums over micro-batches.
void ParameterLayout::intern_reduction(Bucket& bucket) {
  const std::int64_t wire = bytes_of(layout_.reduce_dtype);
  const std::int64_t stored = bytes_of(sharing_.gradient_dtype);
  const std::int64_t owned = shard_of(bucket);
  const GradientBuckets form = runs_.gradient_buckets;
  // Put together in the format of the wire, and copied (_fsdp_collectives.py, foreach_reduce, with
  // one rank); or read once more and added.
  if (bucket.stays) {
    bucket.cast_in = context_.memory_pass(bucket.elements * 2 * (stored + wire),
                                          OpKind::elementwise, sharing_.gradient_dtype);
    if (accumulates())
      bucket.accumulate = context_.memory_pass(bucket.elements * (3 * stored + 2 * wire),
                                               OpKind::elementwise, sharing_.gradient_dtype);
    return;
  }
  const std::int64_t cast = layout_.reduce_dtype != sharing_.gradient_dtype ? stored + wire : 0;
  const auto pass = [&](std::int64_t bytes, DType dtype) {
    return context_.memory_pass(bytes, OpKind::elementwise, dtype);
  };
  const auto casts = [&](std::int64_t out, std::int64_t in) {
    bucket.cast_out = pass(out, layout_.reduce_dtype);
    bucket.cast_in = pass(in, sharing_.gradient_dtype);
  };
  std::int64_t taken = 0;  // bytes moved per element of what a rank takes out of a message
  if (form == GradientBuckets::flat) {
    if (cast > 0)
      casts(bucket.elements * cast, owned * cast);
    else if (sharing_.holds)  // put together: _fsdp_collectives.py, foreach_reduce_scatter_copy_in
      bucket.cast_out = pass(bucket.elements * (stored + wire), layout_.reduce_dtype);
  } else if (form == GradientBuckets::copied || sharing_.zero == 0 || sharing_.converts) {
    // Tensors are put together, divided by the ranks, and taken apart again: Scaling,
    // allreduce.py; DeepSpeed, runtime/engine.py, allreduce_bucket and allreduce_and_copy.
    casts(bucket.elements * (4 * stored + cast), bucket.elements * (2 * stored + cast));
  } else {
    // Into the bucket (reduce_independent_p_g_buckets_and_remove_grads), divided, put together by
    // owner (average_tensor, allreduce_bucket; stage3.py, reduce_scatter_coalesced). Stages 1 and 2
    // write the own part back and copy it once more (allreduce_and_copy_with_multiple_ranks,
    // copy_grads_in_partition).
    taken = sharing_.zero == 3 ? 0 : 2 * wire;
    casts(bucket.elements * (stored + 5 * wire), owned * (taken + wire + stored));
  }
  if (cast > 0) bucket.cast_shard = pass(owned * cast, layout_.reduce_dtype);
  if (accumulates())
    bucket.accumulate = pass(owned * (taken + 2 * stored + wire), sharing_.gradient_dtype);
}

// DeepSpeed's ZeRO has buckets of full size, however few gradients there are: one, or with overlap
// two in turns (runtime/zero/stage_1_and_2.py, setup_buckets; stage3.py has one).
void ParameterLayout::allocate_bucket_copies() {
  if (runs_.gradient_buckets != GradientBuckets::sliced || sharing_.zero == 0 || sharing_.converts)
    return;
  const std::int64_t elements =
      bucket_sizes(layout_, runs_).others.count() / bytes_of(sharing_.gradient_dtype);
  const Bytes each{elements * bytes_of(layout_.activation_dtype)};
  for (int i = 0; i < (sharing_.zero < 3 && layout_.overlap_gradients ? 2 : 1); ++i)
    builder_.buffer(each, BufferCategory::communication, true);
}

// One buffer per bucket for weights, one for gradients, one for the state of the optimizer, so that
// a bucket is reduced and gathered where it lies (Megatron-LM, core/distributed/
// param_and_grad_buffer.py; PyTorch DDP, gradient_as_bucket_view; FSDP's flat parameter).
void ParameterLayout::allocate_parameters() {
  const int gradient = bytes_of(sharing_.gradient_dtype);
  std::int64_t frozen = 0;
  for (const Parameters& parameters : store_.parameters)
    frozen += parameters.frozen_bytes;
  if (frozen > 0 && sharing_.zero < 3)
    builder_.buffer(Bytes{frozen}, BufferCategory::weights, true);
  for (Parameters& parameters : store_.parameters) {
    if (parameters.encoded_bytes == 0 || sharing_.zero == 3) continue;
    parameters.encoded =
        builder_.buffer(Bytes{parameters.encoded_bytes}, BufferCategory::weights, true);
  }
  for (Bucket& bucket : store_.buckets) {
    if (bucket.outside) {
      allocate_outside(bucket);
      continue;
    }
    const std::int64_t shard = bucket.padded / bucket.shards;
    bucket.weight = builder_.buffer(
        Bytes{bucket.weight_bytes},
        sharing_.zero == 3 ? BufferCategory::gathered_parameters : BufferCategory::weights,
        sharing_.zero < 3);
    const bool trained = bucket.elements > 0;
    if (trained)
      bucket.gradient = builder_.buffer(Bytes{bucket.padded * gradient}, BufferCategory::gradients,
                                        sharing_.zero < 2);
    const bool whole_from_host = layout_.offloads_parameters() && bucket.gather == none;
    if (sharing_.zero == 3 && !whole_from_host) {
      bucket.weight_shard =
          builder_.buffer(Bytes{bucket.weight_bytes / bucket.shards}, BufferCategory::weights,
                          !layout_.offloads_parameters());
    }
    if (!trained && layout_.offloads_parameters())
      bucket.host_weight = builder_.host_buffer(Bytes{bucket.frozen_bytes / bucket.shards});
    if (!trained) continue;
    const bool leaves_whole = sharing_.host_gradients && bucket.reduce == none && !accumulates();
    if (sharing_.zero >= 2 && !leaves_whole) {
      bucket.gradient_shard = builder_.buffer(Bytes{shard * gradient}, BufferCategory::gradients,
                                              !sharing_.host_gradients);
    }
    allocate_optimizer(bucket, shard);
    if (bucket.residual_bytes.count() > 0)
      bucket.residual = builder_.buffer(bucket.residual_bytes, BufferCategory::communication, true);
    if (bucket.keep_secondary != none)
      bucket.weight_secondary = builder_.buffer(Bytes{bucket.weight_bytes / layout_.node_ranks},
                                                BufferCategory::weights, true);
    if (sharing_.converts)  // what autograd adds to
      builder_.buffer(Bytes{bucket.padded * bytes_of(layout_.activation_dtype)},
                      BufferCategory::gradients, true);
  }
  allocate_bucket_copies();
}

// What autograd reads and writes is what the optimizer updates.
void ParameterLayout::allocate_outside(Bucket& bucket) {
  const int element = bytes_of(layout_.activation_dtype);
  bucket.weight = bucket.weight_shard =
      builder_.buffer(Bytes{bucket.weight_bytes}, BufferCategory::weights, true);
  if (bucket.elements == 0) return;
  bucket.gradient = bucket.gradient_shard =
      builder_.buffer(Bytes{bucket.padded * element}, BufferCategory::gradients, true);
  allocate_optimizer(bucket, bucket.padded);
}

// What the optimizer keeps of an operator's parameters beyond so much for each.
void ParameterLayout::add_states(const ShardedBlock& block, std::size_t i, std::int64_t elements,
                                 Bucket& bucket) {
  if (layout_.optimizer == OptimizerKind::adafactor)
    bucket.factored_numbers += factored_numbers(block.ops[i]);
  const std::int64_t here = elements / (sharing_.zero > 0 ? bucket.shards : 1);
  if (here < least_in_blocks) bucket.small_elements += here;
}

// fp32 master weights, if any, and moments. Of Muon, Adam's second one beside those of matrices.
void ParameterLayout::allocate_optimizer(Bucket& bucket, std::int64_t shard) {
  if (layout_.updates_on_servers()) return;
  // 1-bit LAMB has a second moment of what came beside the one that stays.
  const std::int64_t fresh = layout_.compression == GradientCompression::one_bit_lamb ? 4 : 0;
  const std::int64_t each = layout_.master_bytes() + layout_.moment_bytes() + fresh;
  std::int64_t second_moments = 0;
  if (layout_.optimizer == OptimizerKind::muon)
    second_moments = rest_of_muon(bucket) * bytes_of(layout_.moment_dtype);
  if (layout_.optimizer == OptimizerKind::adafactor) second_moments = 4 * bucket.factored_numbers;
  // Blocks with scales in place of numbers (not with offload).
  second_moments += moment_bytes(layout_, shard, std::min(shard, bucket.small_elements)) -
                    shard * layout_.moment_bytes();
  if (layout_.offloads())
    bucket.offloaded =
        static_cast<std::int64_t>(layout_.offload_fraction * static_cast<double>(shard));
  const std::int64_t kept = shard - bucket.offloaded;
  if (bucket.offloaded == 0 || kept > 0)
    bucket.optimizer =
        builder_.buffer(Bytes{kept * each + second_moments}, BufferCategory::optimizer, true);
  if (bucket.offloaded > 0 && runs_.offload_keeps_masters && layout_.master_weights)
    builder_.buffer(Bytes{bucket.offloaded * layout_.master_bytes()}, BufferCategory::optimizer,
                    true);
  if (bucket.offloaded == 0) return;
  bucket.host_states = builder_.host_buffer(Bytes{bucket.offloaded * each});
  if (kept == 0) bucket.optimizer = bucket.host_states;
  bucket.host_gradient =
      builder_.host_buffer(Bytes{bucket.offloaded * bytes_of(sharing_.gradient_dtype)});
  bucket.host_weight = builder_.host_buffer(Bytes{
      bucket.offloaded * bytes_of(layout_.activation_dtype) + bucket.frozen_bytes / bucket.shards});
}

// For those who execute the program.
void ParameterLayout::describe_parameters() {
  for (const StageBlock& block : context_.blocks) {
    const auto& ops = model_.blocks[block.shape].ops;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const Parameters& parameters = store_.parameters[block.first_op + i];
      Site& site = store_.sites.emplace_back();
      site.place = block.is_output    ? BlockPlace::output
                   : block.layer >= 0 ? BlockPlace::layer
                                      : BlockPlace::input;
      site.layer = block.layer;
      site.op = static_cast<std::int16_t>(i);
      site.bucket = parameters.matrix().bucket;
      site.first = parameters.matrix().first;
      site.elements = parameters.matrix().elements;
      site.tied = parameters.table.elements > 0;
      if (ops[i].weight_gradient)
        site.tensors = std::max<std::int64_t>(1, ops[i].weight_gradient->batch);
      // All of them, or the bias behind the matrix.
      site.summed = ops[i].tensor_summed;
      site.summed_first = site.first + site.elements - site.summed;
    }
  }
  std::vector<ParameterBucket> described;
  for (const Bucket& bucket : store_.buckets) {
    ParameterBucket& made = described.emplace_back();
    made.elements = bucket.elements;
    made.padded = bucket.padded;
    made.shards = bucket.shards;
    made.of_experts = bucket.of_experts;
    made.weight = bucket.weight;
    made.weight_shard = bucket.weight_shard;
    if (sharing_.zero < 2) made.gradient = bucket.gradient;
    made.gradient_shard = bucket.gradient_shard;
    made.optimizer = bucket.optimizer;
    made.host_gradient = bucket.host_gradient;
    made.host_states = bucket.host_states;
    made.host_weight = bucket.host_weight;
    made.weight_secondary = bucket.weight_secondary;
    made.outer = bucket.outer;
    made.fragment = bucket.fragment;
    made.residual = bucket.residual;
    made.matrices = bucket.matrices;
  }
  builder_.set_parameters(store_.sites, std::move(described));
}

}  // namespace sim::lowering
