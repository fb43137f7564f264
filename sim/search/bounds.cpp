#include "sim/search/bounds.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "sim/base/rounding.hpp"
#include "sim/plan/grid.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "sim/schedule/placement.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/search/costs/parameter_bytes.hpp"
#include "sim/search/costs/shape_cache.hpp"
#include "sim/search/costs/stage_costs.hpp"
#include "sim/search/costs/tail_costs.hpp"
#include "sim/search/plain_layouts.hpp"
#include "sim/search/pool_limits.hpp"

namespace sim {
namespace {

// Values worked out once by whoever asks first, by key. Thread-safe; a value lives as long as this.
template <class Key, class Value>
class Memo {
 public:
  template <class Make>
  const Value& get(const Key& key, Make make) {
    Entry* entry = nullptr;
    {
      const std::lock_guard lock{mutex_};
      entry = &entries_[key];
    }
    std::call_once(entry->once, [&] { entry->value = make(); });
    return entry->value;
  }

 private:
  struct Entry {
    std::once_flag once;
    Value value;
  };
  std::mutex mutex_;
  std::map<Key, Entry> entries_;
};

std::int64_t time_of(const CommCost& cost) {
  return (cost.latency + cost.transfer).count();
}

// A rank that is no straggler may be on the lane, so only one that is faster counts.
double least_slowness(const SimulationOptions& options) {
  double least = 1;
  for (const Straggler& straggler : options.stragglers)
    least = std::min(least, straggler.factor);
  return least;
}

// shares_of() is what the executor leaves to kernels beside communication.
DeviceShares shares_of(const Device& device) {
  return {.device_sm = std::int64_t{device.sms} * 1024,
          .least_left = device.communication_share ? 0 : 1024};
}

// The stages whose programs are looked at: both ends, and the one between with most layers.
std::vector<int> looked_at(const Layout& layout, std::size_t layers) {
  const int stages = layout.pipeline_parallel;
  std::set<int> chosen{0, stages - 1};
  const std::vector<int> split = layers_of_chunks(layout, layers);
  std::vector<int> of_stage(static_cast<std::size_t>(stages), 0);
  const Placement placement{layout};
  for (std::size_t c = 0; c < split.size(); ++c)
    of_stage[static_cast<std::size_t>(placement.rank_of(static_cast<int>(c)))] += split[c];
  if (stages > 2)
    chosen.insert(static_cast<int>(std::max_element(of_stage.begin() + 1, of_stage.end() - 1) -
                                   of_stage.begin()));
  return {chosen.begin(), chosen.end()};
}

struct StageKernels {
  std::int64_t all = 0, persistent = 0;  // ps
};

std::vector<StageKernels> kernels_of_stages(const Layout& layout,
                                            const std::vector<ChunkCosts>& chunks) {
  std::vector<StageKernels> stages(static_cast<std::size_t>(layout.pipeline_parallel));
  const Placement placement{layout};
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    StageKernels& stage = stages[static_cast<std::size_t>(placement.rank_of(static_cast<int>(c)))];
    stage.all += chunks[c].kernels * layout.micro_batches();
    stage.persistent += chunks[c].persistent * layout.micro_batches();
  }
  return stages;
}

// Memory of a stage, without what the device keeps for itself.
struct StageNeeds {
  ActivationBytes activations{};
  ParameterCounts counts{};
  std::int64_t under(const Model& model, const Layout& sharding) const {
    return (gathers_weights(sharding, counts) ? activations.gathered : activations.plain) +
           parameter_bytes(model, sharding, counts);
  }
};

std::vector<StageNeeds> stage_needs(const Layout& layout, const std::vector<ChunkCosts>& chunks) {
  std::vector<StageNeeds> needs;
  for (const ActivationBytes& bytes : activation_bytes(layout, chunks))
    needs.push_back({.activations = bytes});
  const Placement placement{layout};
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    StageNeeds& stage = needs[static_cast<std::size_t>(placement.rank_of(static_cast<int>(c)))];
    stage.counts.parameters += chunks[c].parameters;
    stage.counts.expert_parameters += chunks[c].expert_parameters;
    stage.counts.frozen_bytes += chunks[c].frozen_bytes;
  }
  return needs;
}

// The longest that a stage copies activations to the host, one way: copies follow one another.
std::int64_t copy_time(const Layout& layout, const std::vector<ChunkCosts>& chunks) {
  if (!layout.offloads_activations()) return 0;
  std::vector<std::int64_t> stages(static_cast<std::size_t>(layout.pipeline_parallel));
  const Placement placement{layout};
  for (std::size_t c = 0; c < chunks.size(); ++c)
    stages[static_cast<std::size_t>(placement.rank_of(static_cast<int>(c)))] += chunks[c].sending;
  return *std::ranges::max_element(stages) * layout.micro_batches();
}

struct StageTail {
  int stage = 0;
  TailCosts costs;
};

// The machine with a number of GPUs used per node, and the shapes that groups have there.
struct Machine {
  explicit Machine(Cluster used) : cluster{std::move(used)}, shapes{cluster} {}
  Cluster cluster;
  ShapeCache shapes;
};

}  // namespace

struct Bounds::Parts {
  Parts(const SearchSpecification& asked, const Candidates& listed)
      : specification{asked},
        candidates{listed},
        model{asked.workload.model},
        cluster{asked.workload.cluster},
        options{asked.workload.options},
        slowness{least_slowness(options)},
        // Message by message, a collective takes a time that is only close to its closed form.
        exact_collectives{options.collectives == CollectiveModel::fluid && cluster.pools() == 1} {
    for (const int gpus : listed.gpus_per_node)
      machines.try_emplace(gpus, cluster.with_gpus_per_node(gpus));
    for (const int gpus : asked.space.gpus)
      for (const auto& [per_node, machine] : machines)
        pricing.try_emplace({gpus, per_node}, machine.cluster, options, gpus);
  }

  // The fewest GPUs of a node have the fastest ways to its host; all else is the same.
  const KernelPricing& least_pricing(int gpus) const {
    return pricing.at({gpus, machines.begin()->first});
  }

  // The numbers of GPUs per node that candidates of the pipeline use, ascending.
  std::vector<int> used_by(const Pipeline& pipeline) const {
    if (candidates.gpus_per_node.size() == 1) return candidates.gpus_per_node;
    std::set<int> used;
    for (std::uint32_t i = pipeline.first; i < pipeline.first + pipeline.count; ++i)
      used.insert(candidates.all[i].gpus_per_node);
    return {used.begin(), used.end()};
  }

  LeastCollective collective(const GroupShape& shape, const Collective& request) const {
    if (!exact_collectives) return {};
    const CommCost cost = priced_collective(cluster, shape, request, options);
    return {time_of(cost), cost.transfer.count(), cost.sm};
  }

  // Places is where the ranks of a pipeline may lie.
  struct Places {
    std::vector<std::uint8_t> placements;  // indices into Candidates::placements
    std::vector<int> gpus_per_node;
  };
  Places all_places(const Pipeline& pipeline) const {
    std::vector<std::uint8_t> placements(candidates.placements.size());
    std::iota(placements.begin(), placements.end(), std::uint8_t{0});
    return {placements, used_by(pipeline)};
  }

  // The shapes that groups of this role have on the lane, over all stages and places.
  std::vector<GroupShape> lane_shapes(const Pipeline& pipeline, GroupRole role,
                                      const Places& places) const {
    std::vector<GroupShape> found;
    for (const int per_node : places.gpus_per_node)
      for (const std::uint8_t placement : places.placements)
        add_lane_shapes(pipeline, role, per_node, candidates.placements[placement], found);
    return found;
  }
  void add_lane_shapes(const Pipeline& pipeline, GroupRole role, int per_node,
                       const std::vector<Dimension>& placement,
                       std::vector<GroupShape>& found) const {
    Layout layout = layout_of(specification, pipeline);
    layout.placement = placement;
    const ShapeCache& shapes = machines.at(per_node).shapes;
    // Groups within nodes are alike where they take the same places, as long as nodes are.
    const bool within = role == GroupRole::tensor && placement.front() == Dimension::tensor &&
                        per_node % pipeline.tensor == 0 && specification.workload.faults.empty();
    std::set<std::uint32_t> places;
    for (int stage = 0; stage < pipeline.stages; ++stage) {
      const std::vector<GpuId> members = lane_group(layout, role, stage);
      const std::uint32_t place = members.front().value % static_cast<std::uint32_t>(per_node);
      if (within && !places.insert(place).second) continue;
      const GroupShape shape = shapes.shape_of(members);
      if (std::find(found.begin(), found.end(), shape) == found.end()) found.push_back(shape);
    }
  }

  // LaneShapes are shapes of groups, by role, of the roles within layers.
  using LaneShapes = std::array<std::vector<GroupShape>, 4>;
  static std::size_t lane_of(GroupRole role) {
    constexpr std::array roles{GroupRole::tensor, GroupRole::context, GroupRole::expert,
                               GroupRole::expert_tensor};
    return static_cast<std::size_t>(std::find(roles.begin(), roles.end(), role) - roles.begin());
  }
  const LaneShapes& shapes_of(const Pipeline& pipeline, const Places& places) {
    const std::tuple key{pipeline.gpus,     pipeline.tensor,     pipeline.context,
                         pipeline.stages,   pipeline.experts,    pipeline.expert_tensor,
                         places.placements, places.gpus_per_node};
    return lane_memo.get(key, [&] {
      LaneShapes made;
      const auto add = [&](GroupRole role, int ranks) {
        if (ranks > 1) made[lane_of(role)] = lane_shapes(pipeline, role, places);
      };
      add(GroupRole::tensor, pipeline.tensor);
      add(GroupRole::context, pipeline.context);
      add(GroupRole::expert, pipeline.experts);
      add(GroupRole::expert_tensor, pipeline.expert_tensor);
      return made;
    });
  }

  // Over the shapes that the group may have: the least of each.
  LeastCollective within_layers(const LaneShapes& lane, const Collective& request) const {
    std::optional<LeastCollective> least;
    if (lane_of(request.group) == lane.size()) return {};  // parts of the context group
    for (const GroupShape& shape : lane[lane_of(request.group)]) {
      const LeastCollective one = collective(shape, request);
      const LeastCollective other = least.value_or(one);
      least = {std::min(one.time, other.time), std::min(one.transfer, other.transfer),
               std::min(one.sm, other.sm)};
    }
    return least.value_or(LeastCollective{});
  }

  const ModelCosts& costs_of(const Pipeline& pipeline, Recompute recompute,
                             const LaneShapes& lane) {
    const bool split = splits_backward(pipeline.schedule);
    const std::size_t lane_number = lane_index(lane);
    const std::tuple key{pipeline.gpus,
                         pipeline.tensor,
                         pipeline.context,
                         pipeline.exchange,
                         pipeline.experts,
                         pipeline.expert_tensor,
                         pipeline.micro_batch,
                         pipeline.sequence_parallel,
                         split,
                         recompute,
                         pipeline.moves_activations(),
                         lane_number};
    return cost_memo.get(key, [&] {
      const Layout layout = block_layout(specification, pipeline, recompute);
      return model_costs(model, layout,
                         {.kernels = least_pricing(pipeline.gpus),
                          .slowness = slowness,
                          .shares = shares_of(cluster.device()),
                          .collective = [&](const Collective& one) {
                            return merges_passes() ? LeastCollective{} : within_layers(lane, one);
                          }});
    });
  }

  // Collectives of one pass run beside the kernels of another (BOUNDS.md, 8).
  bool merges_passes() const { return specification.workload.layout.overlap_expert_exchange; }

  // Equal lanes have equal numbers, so that costs are shared.
  std::size_t lane_index(const LaneShapes& lane) {
    const std::lock_guard lock{lane_mutex};
    const auto found = std::find(lanes.begin(), lanes.end(), lane);
    if (found != lanes.end()) return static_cast<std::size_t>(found - lanes.begin());
    lanes.push_back(lane);
    return lanes.size() - 1;
  }

  std::vector<ChunkCosts> chunks_of(const Pipeline& pipeline, const Layout& layout,
                                    const LaneShapes& lane) {
    const bool full = pipeline.recompute == Recompute::full;
    const ModelCosts& plain = costs_of(pipeline, full ? Recompute::none : pipeline.recompute, lane);
    const ModelCosts& again = full ? costs_of(pipeline, Recompute::full, lane) : plain;
    return chunk_costs(layout, plain, again, model.tied_embedding);
  }

  std::int64_t host_time(const Layout& layout, const std::vector<ChunkCosts>& chunks) const {
    const Placement placement{layout};
    if (!options.graph_scope.empty()) return 0;  // some of them are replayed
    const HostIssue issue = least_host_issue(cluster, options);
    std::vector<Duration> stages(static_cast<std::size_t>(layout.pipeline_parallel));
    for (std::size_t c = 0; c < chunks.size(); ++c)
      stages[static_cast<std::size_t>(placement.rank_of(static_cast<int>(c)))] +=
          issue.of(chunks[c].launches, false) + issue.of(chunks[c].parts, true);
    return std::max_element(stages.begin(), stages.end())->count() * layout.micro_batches();
  }

  std::vector<MessageTimes> messages(const Pipeline& pipeline, const Layout& layout,
                                     const Cluster& machine, const LaneShapes& lane) {
    const int stages = layout.pipeline_parallel;
    std::vector<MessageTimes> times(static_cast<std::size_t>(stages));
    if (stages == 1) return times;
    const std::int64_t whole = costs_of(pipeline, Recompute::none, lane).boundary;
    const bool gathers = layout.tensor_parallel > 1 && !layout.sequence_parallel;
    const std::int64_t part = gathers ? divide_up(whole, layout.tensor_parallel) : whole;
    const std::int64_t gather =
        gathers ? within_layers(lane, {CollectiveKind::all_gather, GroupRole::tensor,
                                       layout.activation_dtype, Bytes{whole}})
                      .time
                : 0;
    const auto gpu = [&](int stage) {
      return GpuId{rank_of(layout, {0, 0, stage % stages, 0}).value};
    };
    for (int s = 0; s < stages; ++s) {
      const auto one_way = [&](GpuId from, GpuId to) {
        return time_of(priced_transfer(machine, machine.route(from, to), Bytes{part}, options));
      };
      times[static_cast<std::size_t>(s)] = {
          std::min(one_way(gpu(s), gpu(s + 1)), one_way(gpu(s + 1), gpu(s))), gather};
    }
    return times;
  }

  // How many micro-batches stand for all: few, and some more to see what each further one adds.
  struct FewBatches {
    std::int64_t some = 1, more = 1;
  };
  static FewBatches few_batches(const Layout& layout) {
    const ScheduleRules& rules = rules_of(layout.schedule);
    const std::int64_t all = layout.micro_batches();
    const std::int64_t stages = layout.pipeline_parallel;
    const std::int64_t unit = rules.whole_rounds ? stages : 1;
    const std::int64_t least = std::max(unit, rules.batches_per_stage * stages);
    if (layout.zero_stage < 2) return {least, least};
    const std::int64_t some =
        std::max(least, rules.whole_rounds ? unit : std::min<std::int64_t>(all, 2));
    return {some, std::min(all, some + unit)};
  }

  std::vector<StageTail> make_tails(const Pipeline& pipeline, Layout layout, int gpus_per_node) {
    const ShapeCache& shapes = machines.at(gpus_per_node).shapes;
    const FewBatches few = few_batches(layout);
    layout.micro_batch = 1;
    layout.pipeline_runs = 1;  // what further runs reduce is left out
    layout.recompute = Recompute::none;
    layout.recompute_every = 1;
    layout.recompute_layers = 0;
    offload(without_activations(pipeline.offload), layout);
    take_shortest_sequences(layout);
    if (layout.schedule == Schedule::gpipe) layout.schedule = Schedule::one_f_one_b;
    layout.replica_batches.clear();
    layout.global_batch = few.more * layout.data_parallel;
    const ShardedModel more = shard(model, layout);
    layout.global_batch = few.some * layout.data_parallel;
    const ShardedModel some = shard(model, layout);
    std::vector<StageTail> tails;
    for (const int stage : looked_at(layout, model.layers.size())) {
      const TailPricing prices{.kernels = pricing.at({pipeline.gpus, gpus_per_node}),
                               .slowness = slowness,
                               .collective = [&](const Collective& one) {
                                 return collective(
                                     shapes.shape_of(lane_group(layout, one.group, stage)), one);
                               }};
      tails.push_back({stage, tail_costs(some, more, stage, prices)});
    }
    return tails;
  }

  // Schedules whose passes follow each other alike under few micro-batches.
  static Schedule tail_kind(Schedule schedule) {
    return splits_backward(schedule) ? schedule : Schedule::one_f_one_b;
  }

  static OffloadParts without_activations(OffloadParts parts) {
    if (parts == OffloadParts::activations) return OffloadParts::none;
    if (parts == OffloadParts::optimizer_and_activations) return OffloadParts::optimizer;
    return parts == OffloadParts::all ? OffloadParts::optimizer_and_parameters : parts;
  }

  using TailKey = std::tuple<
      std::tuple<int, int, int, ContextExchange, int, int, int, int, Schedule, OffloadParts>,
      std::tuple<bool, std::uint8_t, int, std::uint8_t, int, bool, int>, std::int64_t, std::int64_t,
      std::vector<int>>;
  const std::vector<StageTail>& tails_of(const Pipeline& pipeline, const Candidate& candidate,
                                         const Layout& layout) {
    const FewBatches few = few_batches(layout);
    const TailKey key{
        std::tuple{pipeline.gpus, pipeline.tensor, pipeline.context, pipeline.exchange,
                   pipeline.experts, pipeline.expert_tensor, pipeline.stages,
                   pipeline.virtual_stages, tail_kind(layout.schedule),
                   without_activations(pipeline.offload)},
        std::tuple{pipeline.sequence_parallel, candidate.zero_stage, candidate.shard_group,
                   candidate.placement, candidate.gpus_per_node, candidate.reshard_after_forward,
                   candidate.prefetch_layers},
        few.some, few.more, pipeline.layers};
    return tail_memo.get(key,
                         [&] { return make_tails(pipeline, layout, candidate.gpus_per_node); });
  }

  struct Timed {
    std::vector<StageTimes> stages;
    std::int64_t first_forward = 0;
    std::int64_t host = 0;
    std::vector<StageKernels> kernels;  // of all micro-batches, by stage
    // A worker's step, whose exchanges take no time.
    std::int64_t without_servers() const { return std::max(host, stages.front().end); }
  };
  const Timed& times_of(const Candidate& candidate, const Layout& layout) {
    const std::tuple<std::uint32_t, std::uint8_t, int> key{candidate.pipeline, candidate.placement,
                                                           candidate.gpus_per_node};
    return time_memo.get(key, [&] {
      const Pipeline& pipeline = candidates.pipelines[candidate.pipeline];
      const Cluster& machine = machines.at(candidate.gpus_per_node).cluster;
      const LaneShapes& lane =
          shapes_of(pipeline, {{candidate.placement}, {candidate.gpus_per_node}});
      const std::vector<ChunkCosts> chunks = chunks_of(pipeline, layout, lane);
      return Timed{merges_passes()
                       ? busy_times(layout, chunks)
                       : schedule_times(layout, chunks, messages(pipeline, layout, machine, lane)),
                   chunks.front().forward, host_time(layout, chunks),
                   kernels_of_stages(layout, chunks)};
    });
  }

  const SearchSpecification& specification;
  const Candidates& candidates;
  const Model& model;
  const Cluster& cluster;
  const SimulationOptions& options;
  double slowness;
  bool exact_collectives;
  std::map<int, Machine> machines;                       // by the GPUs used per node
  std::map<std::pair<int, int>, KernelPricing> pricing;  // by the GPUs of the job, and per node
  std::mutex lane_mutex;
  std::vector<LaneShapes> lanes;
  Memo<std::tuple<int, int, int, int, int, int, std::vector<std::uint8_t>, std::vector<int>>,
       LaneShapes>
      lane_memo;
  Memo<std::tuple<int, int, int, ContextExchange, int, int, int, bool, bool, Recompute, bool,
                  std::size_t>,
       ModelCosts>
      cost_memo;
  Memo<TailKey, std::vector<StageTail>> tail_memo;
  Memo<std::tuple<std::uint32_t, std::uint8_t, int>, Timed> time_memo;
};

Bounds::Bounds(const SearchSpecification& specification, const Candidates& candidates)
    : parts_{std::make_unique<Parts>(specification, candidates)} {}
Bounds::~Bounds() = default;

void Bounds::coarse(std::uint32_t number, std::vector<Bound>& bounds) const {
  Parts& parts = *parts_;
  const Pipeline& pipeline = parts.candidates.pipelines[number];
  Layout layout = layout_of(parts.specification, pipeline);
  const std::vector<ChunkCosts> chunks =
      parts.chunks_of(pipeline, layout, parts.shapes_of(pipeline, parts.all_places(pipeline)));
  const Duration least{std::max(
      {least_step(layout, chunks), parts.host_time(layout, chunks), copy_time(layout, chunks)})};
  const std::vector<StageNeeds> needs = stage_needs(layout, chunks);
  const Bytes reserved = least_reserved(parts.cluster);
  for (std::uint32_t i = pipeline.first; i < pipeline.first + pipeline.count; ++i) {
    const Candidate& candidate = parts.candidates.all[i];
    layout.zero_stage = candidate.zero_stage;
    layout.shard_group = candidate.shard_group;
    std::int64_t most = 0, host = 0;
    for (const StageNeeds& stage : needs) {
      most = std::max(most, stage.under(parts.model, layout));
      host = std::max(host, host_parameter_bytes(parts.model, layout, stage.counts));
    }
    const int ranks = std::min<int>(candidate.gpus_per_node, layout.world_size());
    bounds[i] = {least, reserved + Bytes{most}, Bytes{host * ranks}};
  }
}

Bound Bounds::fine(std::uint32_t index) const {
  Parts& parts = *parts_;
  const Candidate& candidate = parts.candidates.all[index];
  const Pipeline& pipeline = parts.candidates.pipelines[candidate.pipeline];
  const Layout layout = layout_of(parts.specification, parts.candidates, index);
  const Parts::Timed& timed = parts.times_of(candidate, layout);
  if (layout.has_servers()) return {Duration{timed.without_servers()}, {}, {}};
  const std::vector<StageTail>& tails = parts.tails_of(pipeline, candidate, layout);
  // Everything follows the first pass of the first stage, which waits for its weights.
  const std::int64_t late =
      std::max<std::int64_t>(0, tails.front().costs.gathers - timed.first_forward);
  std::int64_t synced = 0, after = 0, least = timed.host;
  for (const StageTimes& stage : timed.stages)
    synced = std::max(synced, late + stage.end);
  for (const StageTail& tail : tails) {
    const StageTimes& stage = timed.stages[static_cast<std::size_t>(tail.stage)];
    const TailCosts& costs = tail.costs;
    synced = std::max(
        {synced, late + stage.end + costs.before_sync, late + stage.last_start + costs.reductions});
    after = std::max(after, costs.after_sync);
    least = std::max(least, costs.data_fixed + costs.data_each * layout.micro_batches());
    for (const StreamTime& stream : costs.host)
      least = std::max(least, stream.of(layout.micro_batches()));
    const StageKernels& kernels = timed.kernels[static_cast<std::size_t>(tail.stage)];
    const std::int64_t held = costs.held_fixed + costs.held_each * layout.micro_batches();
    // BOUNDS.md, 5.
    least = std::max(least, (kernels.all + kernels.persistent + held) / 2 - 1);
  }
  return {Duration{std::max(least, synced + after)}, {}, {}};
}

}  // namespace sim
