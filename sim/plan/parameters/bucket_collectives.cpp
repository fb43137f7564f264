// Collectives of a bucket's ranks: reductions of gradients, gathers of weights, their compression.
#include "sim/plan/parameters/compression_work.hpp"
#include "sim/plan/parameters/parameter_layout.hpp"
#include "sim/plan/server_exchange.hpp"

namespace sim::lowering {

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

// Interns the exchange with the servers, for the parameters that this rank of a worker owns.
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

// Interns the kernels around the reduction: changes of format, sums over micro-batches.
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

}  // namespace sim::lowering
