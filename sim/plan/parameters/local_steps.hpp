// Groups of data-parallel ranks that train apart: what they do when they meet. The operators are in
// every step's program; who executes or simulates it leaves them out of steps without a meeting
// (sim/plan/meeting.hpp).
#pragma once

#include "sim/plan/parameters/parameter_store.hpp"

namespace sim::lowering {

class LocalSteps : StagePart {
 public:
  LocalSteps(LoweringContext& context, ParameterStore& store) : StagePart{context}, store_{store} {}

  // Allocates what a meeting keeps: parameters and momentum of the last one, a message that is
  // under way over several steps. Gives each bucket its fragment.
  void allocate();
  // At the start of a step: begins a meeting that training does not wait for.
  void set_out();
  // Behind the optimizer: ends that meeting, or holds one that training waits for.
  void end();

 private:
  void meet();
  BufferId send(Bucket& bucket);
  void average(Bucket& bucket, BufferId sent);
  void average_pieces(Bucket& bucket, BufferId sent, Stream stream);
  void apply(Bucket& bucket);
  void copy(const Bucket& bucket, std::int64_t bytes, Action action, const char* name);
  BufferId from_host(const Bucket& bucket, std::int64_t bytes, Action action, const char* name);
  BufferId message_buffer(Bytes size);
  void reads_last(BufferId buffer, Role role);
  void divide_into_fragments();
  std::uint32_t index_of(const Bucket& bucket) const;
  std::int64_t owned(const Bucket& bucket) const { return bucket.padded / bucket.shards; }
  bool keeps_state() const { return layout_.outer == OuterOptimizer::nesterov; }
  bool quantizes() const { return layout_.outer_quantization != OuterQuantization::none; }
  GroupRole between() const {
    return layout_.local_ranks == 1 ? GroupRole::data : GroupRole::replicate;
  }
  // fp32 masters; without them the weights are what is trained.
  bool has_masters() const { return layout_.master_weights; }
  BufferId weight_of(const Bucket& bucket) const {
    return sharing_.zero == 3 ? bucket.weight_shard : bucket.weight;
  }

  ParameterStore& store_;
};

}  // namespace sim::lowering
