// The layouts of a search, numbered.
//
// Two levels, so that a million of them fit in memory and share what they have in common: a
// Pipeline is all that decides kernels, schedule and activations; a Candidate adds how parameters
// are sharded and where ranks lie. The number of a candidate is its place in the list, which
// depends on the specification alone.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/search/space.hpp"

namespace sim {

struct Pipeline {
  std::int32_t gpus = 1;
  std::int32_t tensor = 1, context = 1, stages = 1, data = 1;
  std::int32_t experts = 1, expert_tensor = 0;  // as in Layout
  std::int32_t virtual_stages = 1;
  std::int32_t micro_batch = 1;
  std::int32_t recompute_every = 1;
  Schedule schedule = Schedule::one_f_one_b;
  Recompute recompute = Recompute::none;
  ContextExchange exchange = ContextExchange::ring;
  bool sequence_parallel = false;
  OffloadParts offload = OffloadParts::none;
  std::vector<int> layers{};           // of each chunk; empty: as split_layers() has them
  std::vector<int> batches{};          // Layout::replica_batches
  std::uint32_t first = 0, count = 0;  // its candidates
  bool moves_activations() const {
    return offload == OffloadParts::activations ||
           offload == OffloadParts::optimizer_and_activations || offload == OffloadParts::all;
  }
};

struct Candidate {
  std::uint32_t pipeline = 0;
  std::int32_t shard_group = 0;
  std::int16_t prefetch_layers = 1;
  std::int16_t gpus_per_node = 1;
  std::uint8_t zero_stage = 0;
  std::uint8_t placement = 0;  // index into Candidates::placements
  bool reshard_after_forward = true;
};

// Why combinations of values make no layout. Counted where they are refused, once for all that
// would follow from them.
enum class Refusal : std::uint8_t {
  ranks,
  tensor,
  context,
  experts,
  batch,
  layers,
  schedule,
  sharding,
  offload,
  nodes,
  room,
  framework
};
constexpr auto words_of(Refusal) {
  return std::array{
      Word{Refusal::ranks, "tp x cp x pp does not divide the GPUs"},
      Word{Refusal::tensor, "tensor_parallel does not divide the model"},
      Word{Refusal::context,
           "context_parallel does not divide the sequence or, where they are shared, the heads"},
      Word{Refusal::experts,
           "expert_tensor_parallel x expert_parallel does not divide the experts or their ranks"},
      Word{Refusal::batch, "micro_batch x data_parallel does not divide the batch"},
      Word{Refusal::layers, "more model chunks than layers"},
      Word{Refusal::schedule, "the schedule does not go with the stages or micro-batches"},
      Word{Refusal::sharding,
           "the sharding does not go with the replicas, the schedule or fp8_parameters"},
      Word{Refusal::offload,
           "layout.offload or search.offload does not go with the stages, the sharding or the "
           "recomputation"},
      Word{Refusal::nodes, "overlap.tensor_products, and tensor ranks on several nodes"},
      Word{Refusal::room, "gpus_per_node x nodes is less than the GPUs"},
      Word{Refusal::framework, "search.framework does not run it"}};
}
inline constexpr std::size_t refusal_count = 12;

struct Candidates {
  std::vector<Pipeline> pipelines;
  std::vector<Candidate> all;
  std::vector<std::vector<Dimension>> placements;
  std::vector<int> gpus_per_node;  // those of `all`, ascending
  std::array<std::uint64_t, refusal_count> refused{};
};

// Every layout of the space that layout_problems() has nothing against. Throws InputError when
// there are more than 50 million.
Candidates list_candidates(const SearchSpecification& specification);

Layout layout_of(const SearchSpecification& specification, const Candidates& candidates,
                 std::uint32_t index);
// The machine as a candidate uses it. It refers to that of the specification.
Cluster cluster_of(const SearchSpecification& specification, const Candidates& candidates,
                   std::uint32_t index);
// The layout of a pipeline with the plainest sharding and the first placement.
Layout layout_of(const SearchSpecification& specification, const Pipeline& pipeline);

// Layers over chunks where they do not come out even: as even as can be, the last chunk (the head)
// and then the first ones (the embedding; most activations) have one less. Empty: even, or more
// chunks than there is work for (`possible` says which).
struct LayerSplit {
  std::vector<int> layers;
  bool possible = true;
};
LayerSplit split_layers(const Model& model, int chunks);

// "tp 8, pp 16 x 2 virtual, dp 8, ...": what makes this layout, in one line.
std::string describe(const Layout& layout);

}  // namespace sim
