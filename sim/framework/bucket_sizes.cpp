#include "sim/framework/bucket_sizes.hpp"

#include <algorithm>
#include <cstdint>

namespace sim {
namespace {

// A first bucket of 1 MiB lets the first reduction begin early (torch/nn/parallel/distributed.py,
// bucket_cap_mb 25; torch/csrc/distributed/c10d/reducer.hpp, kDefaultFirstBucketBytes; torchtitan,
// models/llama3/infra/parallelize.py, replicate(bucket_cap_mb=100)).
BucketSizes of_pytorch(std::int64_t mebibytes) {
  return {Bytes{1LL << 20}, Bytes{mebibytes << 20}};
}

// Megatron-LM's data parallelism keeps whole gradients. ZeRO-2 frees them bucket by bucket.
bool keeps_gradients(const Layout& layout) {
  return layout.zero_stage < 2;
}

// core/distributed/distributed_data_parallel.py: max(40 million, 1 million x data parallel)
// parameters, context ranks not counted, and all of them without --overlap-grad-reduce.
BucketSizes of_megatron(const Layout& layout) {
  if (!layout.overlap_gradients && keeps_gradients(layout)) return {one_bucket, one_bucket};
  const std::int64_t parameters =
      std::max<std::int64_t>(40'000'000, std::int64_t{1'000'000} * layout.data_parallel);
  const Bytes size{parameters * bytes_of(layout.gradient_dtype)};
  return {size, size};
}

// runtime/zero/config.py, reduce_bucket_size; Scaling's allreduce_bucket_size is the same.
BucketSizes of_deepspeed(const Layout& layout) {
  const Bytes size{std::int64_t{500'000'000} * bytes_of(layout.gradient_dtype)};
  return {size, size};
}

}  // namespace

BucketSizes usual_bucket_sizes(const Layout& layout, BucketRule rule) {
  switch (rule) {
    case BucketRule::pytorch:
      return of_pytorch(25);
    case BucketRule::torchtitan:
      return of_pytorch(100);
    case BucketRule::megatron:
      return of_megatron(layout);
    case BucketRule::deepspeed:
      return of_deepspeed(layout);
  }
  return of_pytorch(25);
}

// 1-bit Adam and 1-bit LAMB send their momentum as one tensor (DeepSpeed,
// runtime/fp16/fused_optimizer.py: parameters are flattened group by group).
BucketSizes bucket_sizes(const Layout& layout, const Execution& runs) {
  if (sends_signs(layout.compression)) return {one_bucket, one_bucket};
  const BucketSizes usual = usual_bucket_sizes(layout, runs.bucket_rule);
  const Bytes others = layout.bucket.value_or(usual.others);
  const Bytes first = usual.first == usual.others ? others : std::min(usual.first, others);
  return {layout.first_bucket.value_or(first), others};
}

// distributed_data_parallel.py, `disable_bucketing or pp_rank > 0`; training/training.py,
// `disable_bucketing=(model_chunk_idx > 0)`.
BucketSizes bucket_sizes(const Layout& layout, const Execution& runs, ChunkOfStage where) {
  const bool later = where.stage > 0 || where.chunk > 0;
  const bool megatron = runs.bucket_rule == BucketRule::megatron;
  if (megatron && later && keeps_gradients(layout)) return {one_bucket, one_bucket};
  if (layout.buckets == 0 || !layout.overlap_gradients) return bucket_sizes(layout, runs);
  const std::int64_t each = std::max<std::int64_t>(1, where.parameters / layout.buckets);
  const Bytes size{each * bytes_of(layout.gradient_dtype)};
  return {size, size};
}

}  // namespace sim
