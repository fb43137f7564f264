// The buffers of parameters, gradients and optimizer states, by bucket.
#include <algorithm>
#include <utility>

#include "sim/framework/bucket_sizes.hpp"
#include "sim/layout/optimizer_states.hpp"
#include "sim/plan/parameters/adafactor.hpp"
#include "sim/plan/parameters/muon.hpp"
#include "sim/plan/parameters/parameter_layout.hpp"

namespace sim::lowering {

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
    if (has_bucket_copies(context_))
      builder_.buffer(Bytes{bucket.padded * bytes_of(layout_.activation_dtype)},
                      BufferCategory::communication, true);
    if (sharing_.converts)  // the gradients that autograd adds to
      builder_.buffer(Bytes{bucket.padded * bytes_of(layout_.activation_dtype)},
                      BufferCategory::gradients, true);
  }
  if (const std::int64_t more = dealt_surplus(context_))
    builder_.buffer(Bytes{more}, BufferCategory::optimizer, true);
  allocate_bucket_copies();
}

// Allocates a bucket without masters: the optimizer updates the same tensors that autograd reads
// and writes.
void ParameterLayout::allocate_outside(Bucket& bucket) {
  const int element = bytes_of(layout_.activation_dtype);
  bucket.weight = bucket.weight_shard =
      builder_.buffer(Bytes{bucket.weight_bytes}, BufferCategory::weights, true);
  if (bucket.elements == 0) return;
  bucket.gradient = bucket.gradient_shard =
      builder_.buffer(Bytes{bucket.padded * element}, BufferCategory::gradients, true);
  allocate_optimizer(bucket, bucket.padded);
}

// Adds the optimizer state of an operator's parameters that is not a fixed number of bytes for
// each.
void ParameterLayout::add_states(const ShardedBlock& block, std::size_t i, std::int64_t elements,
                                 Bucket& bucket) {
  if (layout_.optimizer == OptimizerKind::adafactor)
    bucket.factored_numbers += factored_numbers(block.ops[i]);
  const std::int64_t here = elements / (sharing_.zero > 0 ? bucket.shards : 1);
  if (here < least_in_blocks) bucket.small_elements += here;
}

// fp32 master weights, if any, and moments. With Muon: Adam's second moment beside those of
// matrices.
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
      site.place = block.place;
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
