#include "sim/plan/parameters/parameter_store.hpp"

#include "sim/base/rounding.hpp"

namespace sim::lowering {

std::vector<std::reference_wrapper<const Bucket>> trained_buckets(const ParameterStore& store) {
  std::vector<std::reference_wrapper<const Bucket>> trained;
  for (const Bucket& bucket : store.buckets)
    if (bucket.elements > 0) trained.emplace_back(bucket);
  return trained;
}

std::int64_t shard_of(const Bucket& bucket) {
  return divide_up(bucket.elements, bucket.shards);
}

std::int64_t rest_of_muon(const Bucket& bucket) {
  return divide_up(bucket.elements - bucket.muon_elements, bucket.shards);
}

// torch/csrc/distributed/c10d/reducer.cpp, initialize_buckets, mark_variable_ready_dense and
// finalize_bucket_dense.
bool has_bucket_copies(const LoweringContext& context) {
  return context.runs.ddp_buckets && context.sharing.zero < 2 && context.layout.replicas() > 1;
}

// ZeRO-1 and 2 may reduce all gradients on every rank, which then keeps its slice: Scaling
// (core/optimizer/allreduce.py), DeepSpeed (runtime/bf16_optimizer.py; runtime/zero/
// stage_1_and_2.py, average_tensor with use_multi_rank_bucket_allreduce).
bool scatters_gradients(const LoweringContext& context, const Bucket& bucket) {
  return bucket.shards > 1 && !(context.sharing.zero < 3 && context.runs.all_reduces_gradients);
}

}  // namespace sim::lowering
