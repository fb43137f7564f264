#include "sim/search/result.hpp"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <set>

#include "sim/plan/sharding/flop_count.hpp"
#include "sim/report/numbers.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/read/read_anchor.hpp"
#include "sim/timeline/step_shares.hpp"
#include "sim/uncertainty/time_error.hpp"

namespace sim {
namespace {

std::vector<FrontLayout> front(const Search& search, const std::vector<Evaluation>& evaluations) {
  std::vector<FrontLayout> points;
  for (const Evaluation& one : evaluations) {
    const Layout layout = layout_of(search.specification(), search.candidates(), one.index);
    points.push_back({one, layout, search.candidates().all[one.index].gpus_per_node,
                      search.ranking().leaves_margin(one),
                      layout.world_size() * to_seconds(one.step_time) / 3600});
  }
  return points;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts)
    text += (text.empty() ? "" : ", ") + part;
  return text;
}

// The tokens of one step; samples for layer lists.
std::int64_t tokens_of(const Model& model, const Layout& layout) {
  return layout.global_batch * (model.is_layer_list ? 1 : layout.sequence_length);
}

enum class Parts { shown, left_out };

void add_interval(RankedLayout& one, const Scenario& workload, const Cluster& cluster,
                  const StepShares& shares) {
  const TimeErrors* errors = time_errors_of(workload.anchored);
  if (!errors) return;
  one.traits = traits_of(workload.model, workload.framework.name, one.layout, cluster, shares);
  add_software_traits(workload, *one.traits);
  one.interval = errors->interval(*one.traits);
}

std::vector<RankedLayout> ranked_all(const Search& search,
                                     const std::vector<Evaluation>& evaluations, Parts parts) {
  std::vector<RankedLayout> all(evaluations.size());
  tbb::parallel_for(std::size_t{0}, all.size(), [&](std::size_t i) {
    all[i] =
        parts == Parts::shown ? ranked(search, evaluations[i]) : outline(search, evaluations[i]);
  });
  if (parts == Parts::shown)
    weigh_errors(time_errors_of(search.specification().workload.anchored), all);
  return all;
}

// error_text() states the errors of layouts whose kind measured runs have. Schedules may have
// errors of their own.
std::string error_text(const std::vector<MemoryError>& errors) {
  const auto [least, most] =
      std::ranges::minmax_element(errors, {}, [](const MemoryError& one) { return one.fraction; });
  if (least->of == most->of)
    return fmt::format("{:.1f} % ({} runs, {})", 100 * least->fraction, least->rows, least->of);
  return fmt::format("{:.1f} to {:.1f} % by schedule", 100 * least->fraction, 100 * most->fraction);
}

// margin_text() states what a layout must leave free.
std::string margin_text(const Search& search) {
  const MemoryMargin& margin = search.specification().memory_margin;
  if (margin.bytes) return fmt::format("{:.1f} GiB", margin.bytes->gib());
  if (margin.fraction) return fmt::format("{:.1f} % of what it needs", 100 * *margin.fraction);
  if (!margin.errors) return {};
  std::vector<MemoryError> measured;
  std::set<std::string> unlike;  // of what no measured run has
  double widest = 0;
  for (const KindMargin& kind : search.ranking().margins()) {
    unlike.insert(kind.error.unlike.begin(), kind.error.unlike.end());
    if (kind.error.unlike.empty())
      measured.push_back(kind.error);
    else
      widest = std::max(widest, kind.error.fraction);
  }
  std::vector<std::string> parts;
  if (!measured.empty()) parts.push_back(error_text(measured));
  if (!unlike.empty())
    parts.push_back(fmt::format("{:.1f} % with what no measured run has ({})", 100 * widest,
                                joined(std::vector<std::string>(unlike.begin(), unlike.end()))));
  return parts.empty() ? std::string{} : "the error of the memory forecast, " + joined(parts);
}

// "bubble +120.0 ms, exposed data -10.00 ms": largest change first, none below a thousandth.
std::string changes_of(const Breakdown& from, const Breakdown& to, Duration step) {
  std::vector<std::pair<Duration, std::string_view>> changes;
  changes.reserve(breakdown_fields.size());
  for (const BreakdownField& field : breakdown_fields)
    changes.emplace_back(to.*field.member - from.*field.member, field.title);
  std::stable_sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) {
    return std::abs(a.first.count()) > std::abs(b.first.count());
  });
  std::vector<std::string> parts;
  for (const auto& [change, title] : changes) {
    const Duration size{std::abs(change.count())};
    if (size.count() * 10'000 < step.count() || size == Duration{}) continue;
    parts.push_back(fmt::format("{} {}{}", title, change < Duration{} ? "-" : "+", precise(size)));
  }
  return joined(parts);
}

template <class Value>
void add_difference(std::vector<std::string>& found, const char* key, const Value& from,
                    const Value& to) {
  if (from != to) found.push_back(fmt::format("{} {} -> {}", key, from, to));
}

std::string compare(const RankedLayout& first, const RankedLayout& second) {
  const Duration gap = second.evaluation.step_time - first.evaluation.step_time;
  std::vector<std::string> differing = differences(first.layout, second.layout);
  add_difference(differing, "gpus_per_node", first.gpus_per_node, second.gpus_per_node);
  std::string text =
      gap < Duration{}
          ? fmt::format("The second ({}) is forecast {} shorter, {:.2f} %, but is less sure.",
                        joined(differing), precise(-gap),
                        -100 * to_seconds(gap) / to_seconds(first.evaluation.step_time))
          : fmt::format("The second ({}) takes {} more, {:.2f} %.", joined(differing), precise(gap),
                        100 * to_seconds(gap) / to_seconds(first.evaluation.step_time));
  if (second.chance_behind)
    text +=
        fmt::format(" The first is faster with a chance of {:.0f} %.", 100 * *second.chance_behind);
  const std::string changes =
      changes_of(first.breakdown, second.breakdown, first.evaluation.step_time);
  if (!changes.empty()) text += fmt::format(" Where: {} per GPU on average.", changes);
  const Bytes memory = second.evaluation.memory - first.evaluation.memory;
  if (std::abs(memory.gib()) >= 0.05) text += fmt::format(" Memory: {:+.1f} GiB.", memory.gib());
  return text;
}

// The candidate whose least memory is least, with what would change it.
std::string nothing_fits_text(const Search& search) {
  const SearchSpecification& specification = search.specification();
  const std::optional<std::uint32_t> leanest = search.leanest();
  if (!leanest) return "no layout is legal: see what was refused, and why";
  const Cluster cluster = cluster_of(specification, search.candidates(), *leanest);
  Report report;
  report.layout = layout_of(specification, search.candidates(), *leanest);
  report.device = cluster.device().name;
  report.memory = stage_memory(make_plan(specification.workload.model, report.layout), cluster);
  const auto worst = std::max_element(
      report.memory.begin(), report.memory.end(),
      [](const StageMemory& a, const StageMemory& b) { return a.total < b.total; });
  report.worst_stage = static_cast<int>(worst - report.memory.begin());
  return fmt::format("nothing fits; closest is {}\n{}", describe(report.layout),
                     does_not_fit_text(report, specification.workload, cluster));
}

std::string order_text(const std::vector<Dimension>& order) {
  std::string text;
  for (const Dimension one : order)
    text += fmt::format("{}{}", text.empty() ? "" : "-", word(one));
  return text;
}

SearchResult result_of(const Search& search, bool complete, Parts parts) {
  const SearchSpecification& specification = search.specification();
  const Scenario& workload = specification.workload;
  const Ranking& ranking = search.ranking();
  SearchResult result{
      .title = fmt::format("{} on {}", workload.model.name, workload.cluster.name()),
      .path = workload.path,
      .model = workload.model.name,
      .cluster = workload.cluster.name(),
      .device = workload.cluster.device().name,
      .not_validated = unvalidated(workload.cluster),
      .complete = complete,
      .counts = search.counts(),
      .capacity = workload.cluster.device().memory,
      .node_gpus = workload.cluster.node_gpus(),
      .seed = workload.options.seed,
      .price_per_gpu_hour = specification.price_per_gpu_hour,
      .margin = margin_text(search),
      .best = ranked_all(search, ranking.best(), parts),
      .within_margin = ranked_all(search, ranking.within_margin(), parts),
      .comparison = {},
      .memory_front = front(search, ranking.memory_front()),
      .gpus_front = {},
      .cost_front = {},
      .nothing_fits = {}};
  if (parts == Parts::shown && result.best.size() > 1)
    result.comparison = compare(result.best[0], result.best[1]);
  if (specification.space.gpus.size() > 1) result.gpus_front = front(search, ranking.by_gpus());
  if (specification.price_per_gpu_hour) result.cost_front = front(search, ranking.cost_front());
  if (const auto favourite = ranking.favourite(); favourite && !complete)
    result.could_be_faster =
        std::max(0.0, 1 - to_seconds(search.least_of_open().value_or(favourite->step_time)) /
                              to_seconds(favourite->step_time));
  if (!result.favourite() && complete) result.nothing_fits = nothing_fits_text(search);
  return result;
}

}  // namespace

std::vector<std::string> differences(const Layout& from, const Layout& to) {
  std::vector<std::string> found;
  add_difference(found, "tensor_parallel", from.tensor_parallel, to.tensor_parallel);
  add_difference(found, "context_parallel", from.context_parallel, to.context_parallel);
  if (from.context_parallel > 1 && to.context_parallel > 1)
    add_difference(found, "context_exchange", word(from.context_exchange),
                   word(to.context_exchange));
  add_difference(found, "expert_parallel", from.expert_parallel, to.expert_parallel);
  add_difference(found, "expert_tensor_parallel", from.expert_tensor_parallel,
                 to.expert_tensor_parallel);
  add_difference(found, "pipeline_parallel", from.pipeline_parallel, to.pipeline_parallel);
  add_difference(found, "data_parallel", from.data_parallel, to.data_parallel);
  add_difference(found, "virtual_stages", from.virtual_stages, to.virtual_stages);
  add_difference(found, "schedule", word(from.schedule), word(to.schedule));
  add_difference(found, "micro_batch", from.micro_batch, to.micro_batch);
  add_difference(found, "zero_stage", from.zero_stage, to.zero_stage);
  add_difference(found, "shard_group", from.shard_group, to.shard_group);
  add_difference(found, "prefetch_layers", from.prefetch_layers, to.prefetch_layers);
  add_difference(found, "reshard_after_forward", from.reshard_after_forward,
                 to.reshard_after_forward);
  add_difference(found, "sequence_parallel", from.sequence_parallel, to.sequence_parallel);
  add_difference(found, "recompute", word(from.recompute), word(to.recompute));
  add_difference(found, "recompute_every", from.recompute_every, to.recompute_every);
  add_difference(found, "recompute_layers", from.recompute_layers, to.recompute_layers);
  add_difference(found, "offload", word(offload_parts(from)), word(offload_parts(to)));
  add_difference(found, "placement", order_text(from.placement), order_text(to.placement));
  return found;
}

const RankedLayout* SearchResult::favourite() const {
  if (!best.empty()) return &best.front();
  return within_margin.empty() ? nullptr : &within_margin.front();
}

void weigh_errors(const TimeErrors* errors, std::vector<RankedLayout>& layouts) {
  const auto has_parts = [](const RankedLayout& one) { return one.traits.has_value(); };
  if (!errors || layouts.empty() || !std::ranges::all_of(layouts, has_parts)) return;
  const auto mean_time = [&](const RankedLayout& one) {
    return to_seconds(one.evaluation.step_time) * errors->mean_factor(*one.traits);
  };
  std::ranges::stable_sort(layouts, {}, mean_time);
  std::vector<JobTraits> traits;
  std::vector<Duration> times;
  for (const RankedLayout& one : layouts) {
    traits.push_back(*one.traits);
    times.push_back(one.evaluation.step_time);
  }
  const std::vector<double> regrets = errors->regrets(traits, times);
  for (std::size_t i = 0; i < layouts.size(); ++i)
    layouts[i].regret = regrets[i];
  const RankedLayout& first = layouts.front();
  for (std::size_t i = 1; i < layouts.size(); ++i)
    layouts[i].chance_behind =
        errors->chance_faster(*first.traits, first.evaluation.step_time, *layouts[i].traits,
                              layouts[i].evaluation.step_time);
}

RankedLayout outline(const Search& search, const Evaluation& evaluation) {
  const Scenario& workload = search.specification().workload;
  const Layout layout = layout_of(search.specification(), search.candidates(), evaluation.index);
  const AttentionCount count =
      workload.flops.causal_half() ? AttentionCount::causal_half : AttentionCount::full;
  const double gpu_seconds = to_seconds(evaluation.step_time) * layout.world_size();
  const FlopRate peak = mean_peak(workload.cluster, layout.world_size(), layout.compute_dtype);
  return {.evaluation = evaluation,
          .layout = layout,
          .gpus_per_node = search.candidates().all[evaluation.index].gpus_per_node,
          .tokens_per_second_per_gpu =
              static_cast<double>(tokens_of(workload.model, layout)) / gpu_seconds,
          .mfu = model_flops(workload.model, layout, count).count() / gpu_seconds /
                 peak.in_flops_per_second(),
          .breakdown = {}};
}

RankedLayout ranked(const Search& search, const Evaluation& evaluation, const Control& control) {
  const Scenario& workload = search.specification().workload;
  RankedLayout made = outline(search, evaluation);
  const Cluster cluster = cluster_of(search.specification(), search.candidates(), evaluation.index);
  std::optional<LayoutParts> parts = search.memory().step_parts.find(evaluation.index);
  if (!parts) {
    const Plan plan = make_plan(workload.model, made.layout);
    throw_if_stopped(control);
    parts = time_layout(plan, cluster, workload.options, search.memory().wirings, control).parts;
  }
  made.breakdown = parts->breakdown;
  add_interval(made, workload, cluster, parts->shares);
  return made;
}

SearchResult make_result(const Search& search, bool complete) {
  return result_of(search, complete, Parts::shown);
}

SearchResult outline_result(const Search& search, bool complete) {
  return result_of(search, complete, Parts::left_out);
}

}  // namespace sim
