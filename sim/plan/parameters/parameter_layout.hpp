// Lays the parameters of a stage into buckets and allocates them.
#pragma once

#include <optional>

#include "sim/plan/parameters/parameter_store.hpp"

namespace sim::lowering {

struct OpenBucket {  // while parameters are put into it
  Bucket bucket;
  std::int64_t limit = 0;  // bytes of gradients at which it closes
  std::vector<Place*> places;
};

class ParameterLayout : StagePart {
 public:
  ParameterLayout(LoweringContext& context, ParameterStore& store)
      : StagePart{context}, store_{store} {}

  void make_parameters();
  void make_buckets();
  void share_tables();
  void compress_gradients();
  void allocate_parameters();
  void describe_parameters();

 private:
  static void add_to_bucket(OpenBucket& open, std::uint32_t block, Place& place);
  static void add_frozen(OpenBucket& open, std::uint32_t block, Parameters& parameters);
  void add_states(const ShardedBlock& block, std::size_t i, std::int64_t elements, Bucket& bucket);
  Bucket new_bucket(int chunk, bool of_experts) const;
  bool puts_experts_apart() const;
  void pair_units();
  void close_bucket(OpenBucket& open);
  std::int64_t most_of_bucket() const;
  std::int64_t elements() const;
  void intern_bucket(Bucket& bucket);
  void intern_reduction(Bucket& bucket);
  void intern_own_copy(Bucket& bucket);
  void intern_exchange(Bucket& bucket);
  void intern_quantized_gathers(Bucket& bucket);
  std::optional<MatrixPlace> matrix_of(const ShardedOp& op, const Parameters& parameters) const;
  void find_matrices();
  void allocate_bucket_copies();
  void allocate_outside(Bucket& bucket);
  void allocate_optimizer(Bucket& bucket, std::int64_t shard);
  int orders_beside(const ModelOp& op, bool quantized_parameters, bool both_orders) const;
  std::int64_t frozen_bytes(const ShardedOp& op, int bytes_each) const;
  bool accumulates() const {
    return sharing_.each_run || (sharing_.reduces_each_microbatch() && layout_.micro_batches() > 1);
  }

  ParameterStore& store_;
};

}  // namespace sim::lowering
