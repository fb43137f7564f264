#include "sim/search/splitter.hpp"

#include <algorithm>
#include <map>
#include <set>
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

// Costs of blocks where all groups of a job lie as close as they can.
struct Splitter::Costs {
  explicit Costs(const SearchSpecification& asked)
      : specification{asked}, cluster{asked.workload.cluster} {}

  // Costs on a pool of the cluster; several together: on the one that is fastest at each kernel.
  const ModelCosts& of(const Pipeline& pipeline, Recompute recompute, std::size_t pool) {
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
                         pipeline.moves_activations(),
                         pool};
    const auto found = known.find(key);
    if (found != known.end()) return found->second;
    return known.emplace(key, make(pipeline, recompute, pool)).first->second;
  }
  const ModelCosts& of(const Pipeline& pipeline, Recompute recompute) {
    return of(pipeline, recompute, cluster.pool());
  }

  // Time of a micro-batch on the pool over that on the fastest, by kernels.
  double slowness(const Pipeline& pipeline, std::size_t pool) {
    const auto time = [&](std::size_t one) {
      const ModelCosts& costs = of(pipeline, Recompute::none, one);
      double sum = time_of(costs.input) + time_of(costs.output);
      const auto layers = static_cast<int>(specification.workload.model.layers.size());
      for (int layer = 0; layer < layers; ++layer)
        sum += time_of(costs.layer(layer));
      return sum;
    };
    return time(pool) / time(cluster.pool());
  }

  void set_devices(const Pipeline& pipeline, const Layout& layout, SplitProblem& problem);

  Cluster used_by(const Pipeline& pipeline, const Layout& layout) const {
    return cluster.with_gpus_per_node(whole_gpus_per_node(layout, room_of(cluster), pipeline.gpus));
  }

  static double time_of(const BlockCosts& block) {
    return static_cast<double>(block.forward + block.backward + block.weight);
  }

  ModelCosts make(const Pipeline& pipeline, Recompute recompute, std::size_t pool) const {
    const SimulationOptions& options = specification.workload.options;
    const Layout whole = layout_of(specification, pipeline);
    const Cluster used = used_by(pipeline, whole);
    const ShapeCache shapes{used};
    const KernelPricing kernels{used.of_pool(pool), options, pipeline.gpus};
    const auto collective = [&](const Collective& one) {
      if (cluster.pools() > 1) return LeastCollective{};  // those of every pool differ
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

  using Key = std::tuple<int, int, int, ContextExchange, int, int, int, int, bool, bool, Recompute,
                         bool, std::size_t>;
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

// By stage or by replica, whatever `part_of` says of a rank's coordinates: the pools of its ranks.
template <class PartOf>
std::vector<std::set<std::size_t>> pools_of(const Cluster& cluster, const Layout& layout, int parts,
                                            PartOf part_of) {
  std::vector<std::set<std::size_t>> pools(static_cast<std::size_t>(parts));
  for (std::uint32_t rank = 0; rank < static_cast<std::uint32_t>(layout.world_size()); ++rank)
    pools[static_cast<std::size_t>(part_of(coordinates_of(layout, {rank})))].insert(
        cluster.pool_of({rank}));
  return pools;
}

// Each replica's share by its speed, rounded down, and what is left one by one to the replica that
// is done with it first: no other division lets the last one end earlier.
std::vector<int> dealt(const std::vector<double>& slowness, std::int64_t batches) {
  double speed = 0;
  for (const double one : slowness)
    speed += 1 / one;
  std::vector<int> own;
  std::int64_t left = batches;
  for (const double one : slowness) {
    own.push_back(std::max(1, static_cast<int>(static_cast<double>(batches) / speed / one)));
    left -= own.back();
  }
  for (; left > 0; --left) {
    std::size_t first = 0;
    for (std::size_t r = 1; r < own.size(); ++r)
      if ((own[r] + 1) * slowness[r] < (own[first] + 1) * slowness[first]) first = r;
    ++own[first];
  }
  return own;
}

}  // namespace

Splitter::Splitter(const SearchSpecification& specification)
    : costs_{std::make_unique<Costs>(specification)} {}
Splitter::~Splitter() = default;

// Sets the devices of the problem's chunks.
void Splitter::Costs::set_devices(const Pipeline& pipeline, const Layout& layout,
                                  SplitProblem& problem) {
  if (cluster.pools() == 1) return;
  const Cluster used = used_by(pipeline, layout);
  const auto pools = pools_of(used, layout, layout.pipeline_parallel,
                              [](const RankCoordinates& at) { return at.pipeline; });
  const Placement placement{layout};
  for (int chunk = 0; chunk < layout.chunks(); ++chunk) {
    double slowest = 1;
    std::int64_t memory = INT64_MAX;
    for (const std::size_t pool : pools[static_cast<std::size_t>(placement.rank_of(chunk))]) {
      const Cluster view = used.of_pool(pool);
      slowest = std::max(slowest, slowness(pipeline, pool));
      memory = std::min(memory, (view.device().memory - view.device().reserved).count());
    }
    problem.slowness.push_back(slowest);
    problem.memories.push_back(layout.virtual_stages == 1 ? memory : INT64_MAX);
  }
}

std::vector<int> Splitter::batches(const Pipeline& pipeline) {
  Costs& costs = *costs_;
  const Layout layout = layout_of(costs.specification, pipeline);
  if (costs.cluster.pools() == 1 || layout.data_parallel == 1) return {};
  const auto pools = pools_of(costs.used_by(pipeline, layout), layout, layout.data_parallel,
                              [](const RankCoordinates& at) { return at.data; });
  std::vector<double> slowness;
  for (const std::set<std::size_t>& own : pools) {
    slowness.push_back(1);
    for (const std::size_t pool : own)
      slowness.back() = std::max(slowness.back(), costs.slowness(pipeline, pool));
  }
  std::vector<int> batches = dealt(slowness, layout.step_batches());
  const bool even = std::ranges::count(batches, batches.front()) == std::ssize(batches);
  return even ? std::vector<int>{} : batches;
}

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
    SplitProblem problem = problem_of(costs_->specification, layout, plain, again);
    costs_->set_devices(pipeline, layout, problem);
    std::vector<int> split = balanced_split(problem);
    if (split.empty() || split == even || std::ranges::find(found, split) != found.end()) continue;
    found.push_back(std::move(split));
  }
  return found;
}

}  // namespace sim
