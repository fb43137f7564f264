#include "sim/search/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "sim/base/input_error.hpp"
#include "sim/base/rounding.hpp"
#include "sim/framework/presets/message_overlap.hpp"
#include "sim/layout/layout_text.hpp"
#include "sim/model/key_heads.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/whole_groups.hpp"
#include "sim/scenario/node_use.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/search/framework_space.hpp"
#include "sim/search/plain_layouts.hpp"
#include "sim/search/splitter.hpp"

namespace sim {
namespace {

constexpr std::size_t most_candidates = 50'000'000;
// Shorter sequences are not split over context ranks unless asked: their attention is a small part.
constexpr std::int64_t long_sequence = 16'384;

std::vector<int> divisors(std::int64_t value, std::int64_t most) {
  std::vector<int> found;
  for (std::int64_t d = 1; d * d <= value; ++d) {
    if (value % d != 0) continue;
    if (d <= most) found.push_back(static_cast<int>(d));
    if (d != value / d && value / d <= most) found.push_back(static_cast<int>(value / d));
  }
  std::sort(found.begin(), found.end());
  return found;
}

template <class Value>
std::vector<Value> or_all(const std::vector<Value>& named, std::vector<Value> all) {
  return named.empty() ? std::move(all) : named;
}

// The values of k up to `longest`, the most layers of a chunk, that differ in the number of layers
// that are run again.
std::vector<int> distinct_intervals(int longest) {
  std::vector<int> found;
  int before = 0;
  for (int k = 1; k <= longest; ++k) {
    const int again = divide_up(longest, k);
    if (again != before) found.push_back(k);
    before = again;
  }
  return found;
}

// The numbers of virtual stages that make the longest chunk shorter than any smaller number does.
std::vector<int> distinct_virtual_stages(int layers, int stages, int most) {
  std::vector<int> found;
  int before = 0;
  for (int v = 1; v <= most; ++v) {
    const int longest = (layers + stages * v - 1) / (stages * v);
    if (longest != before) found.push_back(v);
    before = longest;
  }
  return found;
}

// Keys of the scenario's layout that go with some ZeRO stages and groups only.
bool asks_of_sharding(const Layout& layout) {
  return !layout.replica_batches.empty() || layout.uses_host() ||
         layout.compression != GradientCompression::none || least_zero_stage(layout) > 0 ||
         layout.trains_adapters() || layout.has_lengths() || layout.trains_apart() ||
         layout.has_servers() || layout.overlap_expert_exchange;
}

class Lister {
 public:
  explicit Lister(const SearchSpecification& specification)
      : specification_{specification},
        space_{specification.space},
        workload_{specification.workload.layout},
        model_{specification.workload.model},
        room_{room_of(specification.workload.cluster)} {
    made_.placements = space_.placement;
    if (made_.placements.empty())
      made_.placements = {
          {Dimension::tensor, Dimension::context, Dimension::data, Dimension::pipeline},
          {Dimension::tensor, Dimension::context, Dimension::pipeline, Dimension::data}};
    if (space_.uneven) splitter_.emplace(specification);
  }

  Candidates run() {
    for (const int gpus : space_.gpus) {
      one_.gpus = gpus;
      for (const int tensor : or_all(space_.tensor_parallel, divisors(gpus, gpus)))
        with_tensor(tensor);
    }
    made_.gpus_per_node.assign(used_.begin(), used_.end());
    return std::move(made_);
  }

 private:
  bool runs(bool (*test)(PresetName, const Layout&), const Layout& layout) const {
    return !space_.framework || test(*space_.framework, layout);
  }

  // Beside none and full: what only one framework has is proposed under it alone.
  bool has_operators() const {
    const FrameworkSpace* own = space_.framework ? space_of(*space_.framework) : nullptr;
    return own != nullptr &&
           std::ranges::find(own->recomputes, Recompute::operators) != own->recomputes.end();
  }

  void refuse(Refusal why) { ++made_.refused[static_cast<std::size_t>(why)]; }

  // Whether layout_problems() has anything against splitting the model so.
  bool splits(int tensor, int context, bool sequence_parallel) {
    const auto [place, fresh] =
        known_splits_.try_emplace({tensor, context, one_.exchange, sequence_parallel}, false);
    if (!fresh) return place->second;
    Layout layout = workload_;
    layout.context_exchange = one_.exchange;
    layout.tensor_parallel = tensor;
    layout.context_parallel = context;
    layout.data_parallel = 1;
    layout.global_batch = layout.micro_batch = 1;
    layout.sequence_parallel = sequence_parallel;
    layout.zero_stage = layout.shard_group = 0;
    layout.eight_bit_parameters = false;
    offload(OffloadParts::none, layout);
    reduce_plainly(layout);
    layout.overlap_expert_exchange = layout.delay_weight_gradients = false;
    if (model_.has_experts()) split_experts_somehow(layout);
    layout.expert_imbalance = 1;
    layout.recompute = Recompute::none;
    layout.recompute_every = 1;
    layout.recompute_layers = 0;
    layout.recompute_modules.clear();
    layout.layers_per_chunk = split_layers(model_, 1).layers;
    place->second = layout_problems(layout, model_).empty();
    return place->second;
  }

  // In a way that no rule is against. torchtitan splits experts by 1 only where several ranks share
  // them.
  void split_experts_somehow(Layout& layout) const {
    layout.expert_parallel = layout.expert_tensor_parallel = 1;
    if (model_.execution.experts != ExpertForm::torchtitan) return;
    const std::int64_t ranks = std::int64_t{layout.tensor_parallel} * layout.context_parallel;
    layout.expert_parallel = static_cast<int>(std::gcd(ranks, model_.shape->experts.count));
    if (layout.expert_parallel == 1) layout.expert_tensor_parallel = 0;
  }

  // A mixture of experts has sequence parallelism wherever it has tensor parallelism, and so have
  // products that are cut.
  bool splits_tokens(int tensor) const {
    return tensor > 1 && (model_.has_experts() || workload_.overlap_tensor_products);
  }

  void with_tensor(int tensor) {
    one_.tensor = tensor;
    one_.exchange = workload_.context_exchange;
    if (one_.gpus % tensor != 0) return refuse(Refusal::ranks);
    // Shared key/value heads are gathered in every layer: looked at where they are asked for.
    if (space_.tensor_parallel.empty() && shares_key_heads(model_, tensor))
      return refuse(Refusal::tensor);
    if (!splits(tensor, 1, splits_tokens(tensor))) return refuse(Refusal::tensor);
    const int rest = one_.gpus / tensor;
    const bool splits_context = workload_.sequence_length >= long_sequence;
    for (const int context :
         or_all(space_.context_parallel, splits_context ? divisors(rest, rest) : std::vector{1})) {
      if (rest % context != 0) {
        refuse(Refusal::ranks);
        continue;
      }
      for (const ContextExchange exchange : exchanges(context))
        with_context(context, exchange, rest / context);
    }
  }

  // One rank has nothing to exchange.
  std::vector<ContextExchange> exchanges(int context) const {
    const std::vector<ContextExchange> own{workload_.context_exchange};
    return context == 1 ? own : or_all(space_.context_exchange, own);
  }

  void with_context(int context, ContextExchange exchange, int left) {
    one_.context = context;
    one_.exchange = exchange;
    if (!splits(one_.tensor, context, splits_tokens(one_.tensor))) return refuse(Refusal::context);
    for (const int stages : or_all(space_.pipeline_parallel, divisors(left, left)))
      with_stages(stages, left);
  }

  void with_stages(int stages, int left) {
    one_.stages = stages;
    if (left % stages != 0) return refuse(Refusal::ranks);
    one_.data = left / stages;
    const auto& named = space_.data_parallel;
    if (!named.empty() && std::find(named.begin(), named.end(), one_.data) == named.end())
      return refuse(Refusal::ranks);
    if (!model_.has_experts()) return with_experts(1, 0);
    const int ranks = one_.tensor * one_.context * one_.data;
    std::vector<int> all_tensor{1};
    if (one_.tensor > 1) all_tensor.push_back(one_.tensor);
    for (const int tensor : or_all(space_.expert_tensor_parallel, all_tensor)) {
      for (const int experts :
           or_all(space_.expert_parallel, divisors_of_both(model_.shape->experts.count, ranks))) {
        if (divides_experts(experts, tensor, ranks))
          with_experts(experts, tensor);
        else if (!space_.expert_parallel.empty() || !space_.expert_tensor_parallel.empty())
          refuse(Refusal::experts);
      }
    }
  }

  static std::vector<int> divisors_of_both(std::int64_t experts, int ranks) {
    std::vector<int> both;
    for (const int divisor : divisors(ranks, ranks))
      if (experts % divisor == 0) both.push_back(divisor);
    return both;
  }

  bool divides_experts(int experts, int tensor, int ranks) const {
    const Experts& shape = model_.shape->experts;
    return shape.count % experts == 0 && shape.feed_forward % tensor == 0 &&
           ranks % (std::int64_t{experts} * tensor) == 0 && workload_.expert_imbalance <= experts;
  }

  void with_experts(int experts, int tensor) {
    one_.experts = experts;
    one_.expert_tensor = tensor;
    const int stages = one_.stages;
    if (!split_layers(model_, stages).possible) return refuse(Refusal::layers);
    if (workload_.global_batch % one_.data != 0) return refuse(Refusal::batch);
    const std::int64_t own = workload_.global_batch / one_.data;
    for (const int micro_batch : or_all(space_.micro_batch, divisors(own, own))) {
      one_.micro_batch = micro_batch;
      if (own % micro_batch != 0)
        refuse(Refusal::batch);
      else
        with_micro_batch(own / micro_batch);
    }
  }

  void with_micro_batch(std::int64_t micro_batches) {
    const int stages = one_.stages;
    std::vector<Schedule> all{Schedule::one_f_one_b};
    if (stages > 1)
      all = {Schedule::one_f_one_b, Schedule::gpipe, Schedule::zb_h1, Schedule::interleaved};
    const int ends = (model_.input.ops.empty() ? 0 : 1) + (model_.output.ops.empty() ? 0 : 1);
    const int most = (static_cast<int>(model_.layers.size()) + ends) / stages;
    const std::vector<int> all_virtual =
        or_all(space_.virtual_stages,
               distinct_virtual_stages(static_cast<int>(model_.layers.size()), stages, most));
    for (const Schedule schedule : or_all(space_.schedule, all)) {
      one_.schedule = schedule;
      const ScheduleRules& rules = rules_of(schedule);
      if (!goes(rules, micro_batches)) {
        refuse(Refusal::schedule);
        continue;
      }
      if (rules.chunks == RankChunks::v) {
        with_v_shape(all_virtual);
        continue;
      }
      const bool interleaved = rules.chunks == RankChunks::loop;
      for (const int virtual_stages : all_virtual) {
        // One chunk per stage is what the other schedules are for.
        if (interleaved != (virtual_stages > 1)) continue;
        with_chunks(virtual_stages);
      }
    }
  }

  bool goes(const ScheduleRules& rules, std::int64_t micro_batches) const {
    if (rules.chunks != RankChunks::one && one_.stages == 1) return false;
    if (rules.sends_beside && !specification_.messages_of_preset && !workload_.overlap_pipeline)
      return false;
    const int runs = one_.stages > 1 ? workload_.pipeline_runs : 1;
    const std::int64_t each = micro_batches / runs;
    return micro_batches % runs == 0 && (!rules.whole_rounds || each % one_.stages == 0) &&
           each >= std::int64_t{rules.batches_per_stage} * one_.stages;
  }

  void with_v_shape(const std::vector<int>& all_virtual) {
    const bool may_be_two =
        space_.virtual_stages.empty() ||
        std::find(all_virtual.begin(), all_virtual.end(), 2) != all_virtual.end();
    if (!may_be_two) return refuse(Refusal::schedule);
    with_chunks(2);
  }

  void with_chunks(int virtual_stages) {
    one_.virtual_stages = virtual_stages;
    const int chunks = one_.stages * virtual_stages;
    if (!split_layers(model_, chunks).possible) return refuse(Refusal::layers);
    const int longest = divide_up(static_cast<int>(model_.layers.size()), chunks);
    const bool unfused = workload_.attention == AttentionKernel::unfused && !model_.is_layer_list;
    std::vector<Recompute> all{Recompute::none};
    if (unfused || !workload_.recompute_modules.empty()) all.push_back(Recompute::selective);
    if (has_operators()) all.push_back(Recompute::operators);
    all.push_back(Recompute::full);
    std::vector<int> split;
    if (!splits_tokens(one_.tensor)) split.push_back(0);
    if (one_.tensor > 1 && splits(one_.tensor, one_.context, true)) split.push_back(1);
    for (const int sequence_parallel : or_all(space_.sequence_parallel, split)) {
      one_.sequence_parallel = sequence_parallel == 1;
      if (!splits(one_.tensor, one_.context, one_.sequence_parallel)) {
        refuse(Refusal::tensor);
        continue;
      }
      for (const Recompute recompute : or_all(space_.recompute, all)) {
        one_.recompute = recompute;
        one_.recompute_every = 1;
        if (recompute != Recompute::full) {
          with_offload();
          continue;
        }
        for (const int every : or_all(space_.recompute_every, distinct_intervals(longest))) {
          one_.recompute_every = every;
          with_offload();
        }
      }
    }
  }

  void with_offload() {
    for (const OffloadParts parts : or_all(space_.offload, {offload_parts(workload_)})) {
      one_.offload = parts;
      one_.layers.clear();
      one_.batches.clear();
      add();
      if (!splitter_) continue;
      if (one_.stages > 1) with_splits();
      one_.batches = splitter_->batches(one_);
      if (one_.batches.empty()) continue;
      add();
      if (one_.stages > 1) with_splits();
    }
  }

  // Splits that are balanced by what blocks cost, beside the even one.
  void with_splits() {
    for (std::vector<int>& layers : splitter_->splits(one_, zero_stages())) {
      one_.layers = std::move(layers);
      add();
    }
    one_.layers.clear();
  }

  std::vector<int> zero_stages() const {
    std::vector<int> stages{0};
    if (one_.data * one_.context > 1) stages = {0, 1, 2, 3};
    const int least = least_zero_stage(layout_of(specification_, one_));
    std::erase_if(stages, [&](int stage) { return stage < least; });
    if (stages.empty()) stages = {least};
    return or_all(space_.zero_stage, stages);
  }

  void add() {
    const int replicas = one_.data * one_.context;
    if (workload_.gathers_in_eight_bits() && replicas == 1) return refuse(Refusal::sharding);
    placed_ = layout_of(specification_, one_);
    if (!runs(runs_pipeline, placed_)) return refuse(Refusal::framework);
    // Whatever the loops above do not know of: sizes beyond all measure, above all.
    if (!layout_problems(placed_, model_).empty())
      return refuse(placed_.uses_host() ? Refusal::offload : Refusal::schedule);
    one_.first = static_cast<std::uint32_t>(made_.all.size());
    for (const int stage : zero_stages())
      with_zero(stage, replicas);
    one_.count = static_cast<std::uint32_t>(made_.all.size()) - one_.first;
    if (one_.count > 0) made_.pipelines.push_back(one_);
    if (made_.all.size() > most_candidates)
      throw InputError{{specification_.workload.path, 0, 0},
                       fmt::format("more than {} million layouts: name the values of some "
                                   "dimensions in the section search",
                                   most_candidates / 1'000'000)};
  }

  void with_zero(int stage, int replicas) {
    const bool keeps_gradients = splits_backward(one_.schedule) && stage >= 2 &&
                                 !(stage == 3 && model_.execution.holds_units);
    const bool whole_matrices = workload_.optimizer == OptimizerKind::muon;
    const bool takes_whole = workload_.optimizer == OptimizerKind::lamb ||
                             workload_.optimizer == OptimizerKind::adafactor;
    const bool whole_tensors = takes_whole && (stage > 0 || one_.tensor > 1);
    if (keeps_gradients || whole_tensors || (stage >= 2 && whole_matrices))
      return refuse(Refusal::sharding);
    // One rank shards nothing, and all replicas are what 0 says.
    std::vector<int> groups{0};
    if (stage > 0 && workload_.optimizer != OptimizerKind::muon)
      for (const int group : divisors(replicas, replicas))
        if (group > 1 && group < replicas) groups.push_back(group);
    for (const int group : or_all(space_.shard_group, groups)) {
      const bool useless = stage == 0 && group > 0 && group < replicas;
      const bool splits_experts =
          model_.has_experts() && group > 0 &&
          std::int64_t{one_.tensor} * group %
                  (std::int64_t{one_.experts} * std::max(1, one_.expert_tensor)) !=
              0;
      const bool in_other_format =
          workload_.eight_bit_parameters &&
          !can_have_eight_bit_parameters(model_.execution, stage, group > 0 ? group : replicas);
      if (useless || splits_experts || in_other_format || (group > 0 && replicas % group != 0)) {
        refuse(Refusal::sharding);
        continue;
      }
      with_parameters(stage, group);
    }
  }

  // Reshard and prefetch mean something under ZeRO-3 alone.
  void with_parameters(int stage, int group) {
    placed_.zero_stage = stage;
    placed_.shard_group = group;
    if (asks_of_sharding(placed_) && !layout_problems(placed_, model_).empty())
      return refuse(placed_.uses_host() ? Refusal::offload : Refusal::sharding);
    if (!runs(runs_offload, placed_)) return refuse(Refusal::framework);
    const std::vector<int> fixed_reshard{workload_.reshard_after_forward ? 1 : 0};
    const std::vector<int> fixed_prefetch{workload_.prefetch_layers};
    const bool third = stage == 3;
    const std::vector<int> reshards =
        third ? or_all(space_.reshard_after_forward, fixed_reshard) : fixed_reshard;
    const std::vector<int> prefetches =
        third ? or_all(space_.prefetch_layers, fixed_prefetch) : fixed_prefetch;
    const bool one_order = one_.stages == 1 || one_.data == 1;
    for (std::size_t placement = 0; placement < made_.placements.size(); ++placement) {
      // The two default orders are the same where a dimension has one rank.
      if (placement > 0 && one_order && space_.placement.empty()) break;
      placed_.placement = made_.placements[placement];
      if (!runs(runs_sharding, placed_)) {
        refuse(Refusal::framework);
        continue;
      }
      for (const int gpus_per_node : gpus_per_node_of(placed_))
        for (const int reshard : reshards)
          for (const int prefetch : prefetches)
            made_.all.push_back({.pipeline = static_cast<std::uint32_t>(made_.pipelines.size()),
                                 .shard_group = group,
                                 .prefetch_layers = static_cast<std::int16_t>(prefetch),
                                 .gpus_per_node = static_cast<std::int16_t>(gpus_per_node),
                                 .zero_stage = static_cast<std::uint8_t>(stage),
                                 .placement = static_cast<std::uint8_t>(placement),
                                 .reshard_after_forward = reshard == 1});
    }
  }

  // open_gpus_per_node() gives the most that keep groups whole, and the most that also fill racks
  // alike.
  std::vector<int> open_gpus_per_node(const Layout& layout) const {
    const int most = whole_gpus_per_node(layout, room_, one_.gpus);
    const int even = even_gpus_per_node(layout, room_, most);
    return even == most ? std::vector{most} : std::vector{most, even};
  }

  // gpus_per_node_of() are those with which the nodes hold the layout, and its tensor ranks where
  // products are cut.
  std::vector<int> gpus_per_node_of(const Layout& layout) {
    std::vector<int> possible;
    for (const int gpus : or_all(space_.gpus_per_node, open_gpus_per_node(layout))) {
      if (std::int64_t{gpus} * room_.nodes < one_.gpus)
        refuse(Refusal::room);
      else if (layout.has_servers() && gpus % layout.worker_gpus() != 0)
        refuse(Refusal::nodes);
      else if (workload_.overlap_tensor_products && !tensor_within_nodes(layout, gpus))
        refuse(Refusal::nodes);
      else
        possible.push_back(gpus);
    }
    used_.insert(possible.begin(), possible.end());
    return possible;
  }

  const SearchSpecification& specification_;
  const SearchSpace& space_;
  const Layout& workload_;
  const Model& model_;
  NodeRoom room_;
  Candidates made_;
  Pipeline one_;
  Layout placed_;  // of `one_`, for what follows from how its ranks lie
  std::set<int> used_;
  std::map<std::tuple<int, int, ContextExchange, bool>, bool> known_splits_;
  std::optional<Splitter> splitter_;  // where uneven splits are looked at
};

}  // namespace

Candidates list_candidates(const SearchSpecification& specification) {
  return Lister{specification}.run();
}

LayerSplit split_layers(const Model& model, int chunks) {
  const int layers = static_cast<int>(model.layers.size());
  if (layers % chunks == 0 && layers > 0) return {};
  const int shorter = chunks - layers % chunks;
  LayerSplit split{.layers = std::vector<int>(static_cast<std::size_t>(chunks),
                                              layers / chunks + (shorter < chunks ? 1 : 0))};
  // The last chunk, then the first ones.
  for (int i = 0; i < shorter % chunks; ++i)
    --split.layers[static_cast<std::size_t>(i == 0 ? chunks - 1 : i - 1)];
  const auto may_be_empty = [&](int chunk) {
    return (chunk == 0 && !model.input.ops.empty()) ||
           (chunk == chunks - 1 && !model.output.ops.empty());
  };
  for (int chunk = 0; chunk < chunks; ++chunk)
    if (split.layers[static_cast<std::size_t>(chunk)] == 0 && !may_be_empty(chunk))
      split.possible = false;
  return split;
}

Layout layout_of(const SearchSpecification& specification, const Pipeline& pipeline) {
  const Scenario& workload = specification.workload;
  Layout layout = workload.layout;
  layout.tensor_parallel = pipeline.tensor;
  layout.context_parallel = pipeline.context;
  layout.context_exchange = pipeline.exchange;
  layout.expert_parallel = pipeline.experts;
  layout.expert_tensor_parallel = pipeline.expert_tensor;
  layout.pipeline_parallel = pipeline.stages;
  if (pipeline.stages == 1) layout.pipeline_runs = 1;
  layout.data_parallel = pipeline.data;
  layout.virtual_stages = pipeline.virtual_stages;
  layout.micro_batch = pipeline.micro_batch;
  layout.schedule = pipeline.schedule;
  if (specification.messages_of_preset) set_message_overlap(*workload.preset, layout);
  layout.recompute = pipeline.recompute;
  layout.recompute_every = pipeline.recompute_every;
  layout.recompute_layers = 0;  // every k-th layer is what a search varies
  if (pipeline.recompute != Recompute::selective) layout.recompute_modules.clear();
  layout.sequence_parallel = pipeline.sequence_parallel;
  layout.layers_per_chunk = pipeline.layers.empty()
                                ? split_layers(workload.model, layout.chunks()).layers
                                : pipeline.layers;
  layout.replica_batches = pipeline.batches;
  offload(pipeline.offload, layout);
  layout.zero_stage = workload.layout.gathers_in_eight_bits() ? 3 : least_zero_stage(layout);
  layout.shard_group = 0;
  return layout;
}

Layout layout_of(const SearchSpecification& specification, const Candidates& candidates,
                 std::uint32_t index) {
  const Candidate& candidate = candidates.all[index];
  Layout layout = layout_of(specification, candidates.pipelines[candidate.pipeline]);
  layout.zero_stage = candidate.zero_stage;
  layout.shard_group = candidate.shard_group;
  layout.prefetch_layers = candidate.prefetch_layers;
  layout.reshard_after_forward = candidate.reshard_after_forward;
  layout.placement = candidates.placements[candidate.placement];
  return layout;
}

Cluster cluster_of(const SearchSpecification& specification, const Candidates& candidates,
                   std::uint32_t index) {
  return specification.workload.cluster.with_gpus_per_node(candidates.all[index].gpus_per_node);
}

std::string describe(const Layout& layout) {
  return layout_text(layout, LayoutForm::terms);
}

}  // namespace sim
