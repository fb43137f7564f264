#include "sim/search/splitter.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/plan/sharding/sharding.hpp"
#include "sim/plan/whole_groups.hpp"
#include "sim/scenario/node_use.hpp"
#include "sim/schedule/schedule_rules.hpp"
#include "sim/search/balanced_split.hpp"
#include "sim/search/costs/block_costs.hpp"
#include "sim/search/costs/parameter_bytes.hpp"
#include "sim/search/costs/shape_cache.hpp"
#include "sim/search/plain_layouts.hpp"

namespace sim {

// What blocks cost where all groups of a job lie as close as they can.
struct Splitter::Costs {
  explicit Costs(const SearchSpecification& asked)
      : specification{asked}, cluster{asked.workload.cluster} {}

  const ModelCosts& of(const Pipeline& pipeline, Recompute recompute) {
    const std::tuple key{pipeline.gpus,
                         pipeline.tensor,
                         pipeline.context,
                         pipeline.exchange,
                         pipeline.stages,
                         pipeline.experts,
                         pipeline.expert_tensor,
                         pipeline.micro_batch,
                         pipeline.sequence_parallel,
                         splits_backward(pipeline.schedule),
                         recompute,
                         pipeline.moves_activations()};
    const auto found = known.find(key);
    if (found != known.end()) return found->second;
    return known.emplace(key, make(pipeline, recompute)).first->second;
  }

  ModelCosts make(const Pipeline& pipeline, Recompute recompute) const {
    const SimulationOptions& options = specification.workload.options;
    const Layout whole = layout_of(specification, pipeline);
    const Cluster used =
        cluster.with_gpus_per_node(whole_gpus_per_node(whole, room_of(cluster), pipeline.gpus));
    const ShapeCache shapes{used};
    const KernelPricing kernels{used, options, pipeline.gpus};
    const auto collective = [&](const Collective& one) {
      const GroupShape shape = shapes.shape_of(lane_group(whole, one.group, 0));
      const CommCost cost = priced_collective(used, shape, one, options);
      return LeastCollective{(cost.latency + cost.transfer).count(), cost.transfer.count(),
                             cost.sm};
    };
    return model_costs(specification.workload.model,
                       block_layout(specification, pipeline, recompute),
                       {.kernels = kernels,
                        .slowness = 1,
                        .shares = {.device_sm = std::int64_t{used.device().sms} * 1024,
                                   .least_left = used.device().communication_share ? 0 : 1024},
                        .collective = collective});
  }

  using Key =
      std::tuple<int, int, int, ContextExchange, int, int, int, int, bool, bool, Recompute, bool>;
  const SearchSpecification& specification;
  const Cluster& cluster;
  std::map<Key, ModelCosts> known;
};

namespace {

// Under the ZeRO stage of `sharding`.
ChunkLoad load_of(const Model& model, const Layout& sharding, const BlockCosts& block) {
  return {.time = block.forward + block.recompute + block.backward + block.weight,
          .states = parameter_bytes(
              model, sharding, {block.parameters, block.expert_parameters, block.frozen_bytes}),
          .held = std::max<std::int64_t>(0, block.forward_left - block.sent)};
}

// Micro-batches that a stage keeps before its first backward pass, with one chunk per stage; other
// placements of chunks: none, so that memory does not matter.
std::vector<std::int64_t> alive_of(const Layout& layout) {
  std::vector<std::int64_t> alive(static_cast<std::size_t>(layout.chunks()), 0);
  if (layout.virtual_stages > 1) return alive;
  const std::int64_t all = layout.run_batches();
  for (int stage = 0; stage < layout.pipeline_parallel; ++stage)
    alive[static_cast<std::size_t>(stage)] =
        layout.schedule == Schedule::gpipe
            ? all
            : std::min<std::int64_t>(all, layout.pipeline_parallel - stage);
  return alive;
}

SplitProblem problem_of(const SearchSpecification& specification, const Layout& layout,
                        const ModelCosts& plain, const ModelCosts& again) {
  const Model& model = specification.workload.model;
  const Device& device = specification.workload.cluster.device();
  const bool bounded = layout.virtual_stages == 1;
  SplitProblem problem{.input = load_of(model, layout, plain.input),
                       .output = load_of(model, layout, plain.output),
                       .has_input = !model.input.ops.empty(),
                       .has_output = !model.output.ops.empty(),
                       .alive = alive_of(layout),
                       .memory = bounded ? (device.memory - device.reserved).count() : INT64_MAX};
  const int layers = static_cast<int>(model.layers.size());
  const bool by_place = layout.recompute == Recompute::full && layout.recompute_every > 1;
  for (int place = 0; place < (by_place ? layers : 1); ++place) {
    std::vector<ChunkLoad>& row = problem.layers.emplace_back();
    const ModelCosts& costs = layout.recomputes_layer(place) ? again : plain;
    for (int layer = 0; layer < layers; ++layer)
      row.push_back(load_of(model, layout, costs.layer(layer)));
  }
  return problem;
}

}  // namespace

Splitter::Splitter(const SearchSpecification& specification)
    : costs_{std::make_unique<Costs>(specification)} {}
Splitter::~Splitter() = default;

std::vector<std::vector<int>> Splitter::splits(const Pipeline& pipeline,
                                               const std::vector<int>& zero_stages) {
  Layout layout = layout_of(costs_->specification, pipeline);
  const bool full = pipeline.recompute == Recompute::full;
  const ModelCosts& plain = costs_->of(pipeline, full ? Recompute::none : pipeline.recompute);
  const ModelCosts& again = full ? costs_->of(pipeline, Recompute::full) : plain;
  const std::vector<int> even =
      layers_of_chunks(layout, costs_->specification.workload.model.layers.size());
  std::vector<std::vector<int>> found;
  for (const int stage : zero_stages) {
    layout.zero_stage = stage;
    std::vector<int> split =
        balanced_split(problem_of(costs_->specification, layout, plain, again));
    if (split.empty() || split == even || std::ranges::find(found, split) != found.end()) continue;
    found.push_back(std::move(split));
  }
  return found;
}

}  // namespace sim
