// Gathers sharded weights before they are used, and frees them behind: ZeRO 1 to 3, FSDP.
#pragma once

#include "sim/plan/lowering/host_transfers.hpp"

namespace sim::lowering {

class WeightGathering : StagePart {
 public:
  WeightGathering(LoweringContext& context, ParameterStore& store)
      : StagePart{context}, store_{store}, host_{context, store} {}

  void gather_at_start();
  // direction: +1 forward, -1 backward.
  void gather_bucket(Bucket& bucket, int direction);
  void wait_for_weights(const StageBlock& block);
  // `block`: its index in the stage. direction: +1 forward, -1 backward.
  void prefetch(std::uint32_t block, int direction);
  void release_weights(const StageBlock& block, bool after_forward);
  void free_unit(Bucket& bucket);

 private:
  void copy_weights(const StageBlock& block);
  void gather_tied_table(const StageBlock& block, int direction);
  void gather_shards(Bucket& bucket);
  void fetch_ahead(std::int64_t at, const Chunk& chunk);
  void gather_otherwise(Bucket& bucket, bool from_node);
  void keep_secondary_shard(Bucket& bucket);
  OpLabel label_of(const Bucket& bucket, const char* name);
  std::uint32_t index_of(const Bucket& bucket) const;
  bool turns_around(const StageBlock& block) const;
  bool is_frozen_table(const StageBlock& block) const;
  void release_unit(const StageBlock& block, Bucket& bucket, bool after_forward);

  ParameterStore& store_;
  HostTransfers host_;
};

}  // namespace sim::lowering
