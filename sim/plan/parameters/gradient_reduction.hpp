// Reduces the gradients over the data-parallel ranks, bucket by bucket.
#pragma once

#include "sim/plan/block/frame.hpp"
#include "sim/plan/parameters/gradient_compression.hpp"
#include "sim/plan/parameters/weight_gathering.hpp"

namespace sim::lowering {

class GradientReduction : StagePart {
 public:
  GradientReduction(LoweringContext& context, ParameterStore& store, WeightGathering& weights)
      : StagePart{context},
        store_{store},
        weights_{weights},
        compressor_{context, store},
        host_{context, store} {}

  // The kernel added last wrote the gradient of operator i.
  void gradient_ready(const Frame& frame, std::size_t i);
  void reduce_aligned();
  void reduce_held();
  void reduce_remaining();
  // Behind a run of the pipeline that is not the last.
  void end_run();

 private:
  void gradient_written(std::uint32_t index);
  void prepare_bucket(std::uint32_t index);
  OpLabel reduction_label(std::uint32_t index, const char* name);
  bool reduce_unit(std::uint32_t index);
  void reduce_bucket(std::uint32_t index);
  void take_own(std::uint32_t index, const OpLabel& made);
  void reduce_ready(int first_chunk);
  bool reduces_when_ready() const;
  bool aligns_reductions() const;
  void exchange_with_servers(std::uint32_t index, BufferId message, const OpLabel& made);
  void reduce_compressed(std::uint32_t index, const OpLabel& made);
  BufferId cast_for_wire(std::uint32_t index, const OpLabel& made);
  void add_up_shard(std::uint32_t index, BufferId message, const OpLabel& made);
  void average_over_replicas(std::uint32_t index, BufferId message, const OpLabel& made);
  BufferId message_buffer(std::int64_t elements);
  bool synchronises() const;
  void to_host(std::uint32_t index, const OpLabel& made);

  ParameterStore& store_;
  WeightGathering& weights_;
  GradientCompressor compressor_;
  HostTransfers host_;
  std::uint32_t next_reduction_ = 0;  // index of a bucket
};

}  // namespace sim::lowering
