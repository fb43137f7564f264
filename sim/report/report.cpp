#include "sim/report/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/base/quantity.hpp"
#include "sim/base/rounding.hpp"
#include "sim/plan/sharding/expert_shares.hpp"
#include "sim/plan/sharding/flop_count.hpp"
#include "sim/report/memory_hints.hpp"
#include "sim/report/memory_kinds.hpp"
#include "sim/report/server_parts.hpp"
#include "sim/scenario/node_use.hpp"
#include "sim/scenario/read/read_anchor.hpp"
#include "sim/schedule/closed_form.hpp"
#include "sim/uncertainty/time_error.hpp"

namespace sim {
namespace {

constexpr std::size_t shown_links = 10;

void add_identity(Report& report, const Scenario& scenario, const Plan& plan) {
  report.scenario = scenario.name;
  report.model = scenario.model.name;
  report.cluster = scenario.cluster.name();
  report.device = scenario.cluster.device().name;
  report.not_validated = unvalidated(scenario.cluster);
  report.ranks = plan.world_size();
  report.room = room_of(scenario.cluster);
  report.allocation = allocation_text(scenario.cluster);
  report.gpus_per_node = std::min(report.ranks, scenario.cluster.gpus_per_node());
  report.nodes = divide_up(report.ranks, report.gpus_per_node);
  report.crossing = crossing_groups(plan, report.room, report.gpus_per_node);
  report.even_gpus_per_node = even_gpus_per_node(plan.layout, report.room, report.gpus_per_node);
  report.layout = plan.layout;
  report.counts_samples = scenario.model.is_layer_list;
  report.parameters = plan.parameters;
  report.tokens = plan.tokens;
  report.loads = plan.loads;
}

std::string device_origins(const Cluster& cluster) {
  if (cluster.pools() == 1) return cluster.device().origin;
  std::string text;
  for (std::size_t pool = 0; pool < cluster.pools(); ++pool) {
    const Cluster view = cluster.of_pool(pool);
    text += (pool > 0 ? "; " : "") + view.device().name + ": " + view.device().origin;
  }
  return text;
}

void add_rates(Report& report, const Scenario& scenario, const Plan& plan) {
  const double seconds = to_seconds(report.step_time);
  if (seconds <= 0) return;
  const auto gpus = static_cast<double>(report.ranks);
  report.tokens_per_second = static_cast<double>(plan.tokens) / seconds;
  report.tokens_per_second_per_gpu = report.tokens_per_second / gpus;
  const bool half = scenario.flops.causal_half();
  const AttentionCount count = half ? AttentionCount::causal_half : AttentionCount::full;
  const BatchLoads* loads = plan.loads ? &*plan.loads : nullptr;
  const double model_rate =
      model_flops(scenario.model, plan.layout, count, loads).count() / seconds / gpus;
  const double hardware_rate =
      hardware_flops(scenario.model, plan.layout, count, loads).count() / seconds / gpus;
  report.model_rate_per_gpu = FlopRate::per_second(model_rate);
  report.hardware_rate_per_gpu = FlopRate::per_second(hardware_rate);
  report.peak_rate = mean_peak(scenario.cluster, plan.world_size(), scenario.layout.compute_dtype);
  report.mfu = model_rate / report.peak_rate.in_flops_per_second();
  report.hfu = hardware_rate / report.peak_rate.in_flops_per_second();
  report.counted_flops = scenario.model.is_layer_list ? CountedFlops::listed
                         : half                       ? CountedFlops::causal_half
                                                      : CountedFlops::full;
}

void add_pools(Report& report, const Plan& plan, const Cluster& cluster, const Timeline& timeline) {
  if (cluster.pools() == 1) return;
  const bool has_pipeline = plan.layout.pipeline_parallel > 1;
  std::vector<std::vector<std::pair<Breakdown, std::uint64_t>>> parts(cluster.pools());
  for (const RankTrack& track : timeline.tracks)
    parts[cluster.pool_of({track.rank.value})].emplace_back(
        break_down(track, plan.program(track.rank), timeline.end, has_pipeline), track.represents);
  for (std::size_t pool = 0; pool < parts.size(); ++pool) {
    if (parts[pool].empty()) continue;
    std::uint64_t gpus = 0;
    for (const auto& [breakdown, ranks] : parts[pool])
      gpus += ranks;
    report.pools.push_back({.name = cluster.pool_name(pool),
                            .device = cluster.of_pool(pool).device().name,
                            .gpus = static_cast<int>(gpus),
                            .breakdown = weighted_mean(parts[pool])});
  }
}

void add_breakdown(Report& report, const Plan& plan, const Timeline& timeline) {
  const bool has_pipeline = plan.layout.pipeline_parallel > 1;
  using Parts = std::vector<std::pair<Breakdown, std::uint64_t>>;
  Parts all;
  std::vector<Parts> stages(static_cast<std::size_t>(plan.layout.pipeline_parallel));
  for (const RankTrack& track : timeline.tracks) {
    const Program& program = plan.program(track.rank);
    const Breakdown parts = break_down(track, program, timeline.end, has_pipeline);
    all.emplace_back(parts, track.represents);
    stages.at(static_cast<std::size_t>(program.stage)).emplace_back(parts, track.represents);
  }
  report.breakdown = weighted_mean(all);
  if (report.meetings) report.breakdown.exposed_data += report.meetings->per_step;
  if (report.servers) add_servers(report.breakdown, *report.servers);
  report.shares = step_shares(plan, timeline, report.breakdown);
  for (const Parts& stage : stages) {
    report.stage_breakdown.push_back(weighted_mean(stage));
    if (report.meetings) report.stage_breakdown.back().exposed_data += report.meetings->per_step;
    if (report.servers) add_servers(report.stage_breakdown.back(), *report.servers);
  }
  const double step = to_seconds(report.step_time);
  report.bubble_share = step > 0 ? to_seconds(report.breakdown.bubble) / step : 0;
  report.bubble_closed_form = bubble_closed_form(plan.layout).share;
}

// The busiest links, those of one kind that carry the same as one row. At most four rows of a kind,
// so that the fabric shows beside the NVLinks.
void add_links(Report& report, const Cluster& cluster, const Timeline& timeline) {
  constexpr int most_of_a_kind = 4;
  std::map<LinkKind, int> rows_of_kind;
  std::map<std::tuple<LinkKind, double, Bytes>, std::size_t> row_of;
  for (const LinkLoad& load : timeline.links) {
    const Link& link = cluster.link(load.link);
    const std::tuple alike{link.kind, link.capacity.in_bytes_per_second(), load.carried};
    if (const auto known = row_of.find(alike); known != row_of.end()) {
      LinkLoad& row = report.busiest_links[known->second];
      row.represents += load.represents;
      row.busy = std::max(row.busy, load.busy);
      continue;
    }
    if (report.busiest_links.size() == shown_links || rows_of_kind[link.kind] == most_of_a_kind)
      continue;
    ++rows_of_kind[link.kind];
    row_of.emplace(alike, report.busiest_links.size());
    report.busiest_links.push_back(load);
    report.link_names.push_back(cluster.link_name(load.link));
    report.link_capacities.push_back(link.capacity);
  }
}

void add_interval(Report& report, const Scenario& scenario) {
  const TimeErrors* errors = time_errors_of(scenario.anchored);
  if (!errors || report.step_time <= Duration{}) return;
  report.interval = errors->interval(traits_of(scenario, report.shares));
}

std::optional<AttentionWindow> window_of(const Scenario& scenario) {
  if (!scenario.model.shape) return std::nullopt;
  const TransformerShape& shape = *scenario.model.shape;
  const std::int64_t sequence = scenario.layout.sequence_length;
  if (!is_shorter(shape.window, sequence)) return std::nullopt;
  const auto full = static_cast<std::int64_t>(shape.full_attention.layers.size());
  return AttentionWindow{.tokens = shape.window,
                         .sequence = sequence,
                         .layers = shape.layers - full,
                         .of_layers = shape.layers,
                         .skipped = is_flash(scenario.layout.attention)};
}

// That of the host where something runs on it.
std::vector<std::string> cluster_sources(const Scenario& scenario) {
  std::vector<std::string> sources = scenario.cluster.sources();
  if (scenario.layout.uses_host() || scenario.layout.has_servers() || scenario.layout.outer_on_host)
    sources.push_back("host: " + scenario.cluster.host().source);
  return sources;
}

std::vector<std::string> model_notes_of(const Scenario& scenario) {
  std::vector<std::string> notes = scenario.model.notes;
  const std::int64_t length = scenario.layout.sequence_length;
  if (scenario.model.max_sequence > 0 && length > scenario.model.max_sequence)
    notes.push_back(fmt::format("sequences of {} tokens; {} is published for up to {}", length,
                                scenario.model.name, scenario.model.max_sequence));
  return notes;
}

Provenance provenance_of(const Scenario& scenario) {
  const SimulationOptions& options = scenario.options;
  return {.scenario_path = scenario.path,
          .model_path = scenario.model_path,
          .model_source = scenario.model.source,
          .cluster_path = scenario.cluster_path,
          .model_notes = model_notes_of(scenario),
          .cluster_sources = cluster_sources(scenario),
          .device_origin = device_origins(scenario.cluster),
          .window = window_of(scenario),
          .collectives = options.collectives,
          .folded = options.fold,
          .jitter = options.jitter,
          .device_spread = options.device_spread,
          .stragglers = options.stragglers,
          .faults = scenario.faults};
}

const char* plural(std::uint64_t count) {
  return count == 1 ? "" : "s";
}

}  // namespace

FlopRate mean_peak(const Cluster& cluster, int ranks, DType dtype) {
  if (cluster.pools() == 1) return cluster.device().peak(dtype);
  double sum = 0;
  for (std::uint32_t rank = 0; rank < static_cast<std::uint32_t>(ranks); ++rank)
    sum += cluster.of_pool(cluster.pool_of({rank})).device().peak(dtype).in_flops_per_second();
  return FlopRate::per_second(sum / ranks);
}

void add_servers(Breakdown& parts, const ServerRun& run) {
  const Duration all = parts.total();
  const double share = all > Duration{} ? to_seconds(run.compute) / to_seconds(all) : 0;
  for (Duration Breakdown::*part :
       {&Breakdown::compute, &Breakdown::exposed_tensor, &Breakdown::exposed_context,
        &Breakdown::exposed_expert, &Breakdown::exposed_pipeline, &Breakdown::bubble,
        &Breakdown::host})
    parts.*part = Duration{static_cast<std::int64_t>(static_cast<double>((parts.*part).count()) *
                                                     std::min(share, 1.0))};
  parts.exposed_data = {};
  parts.exposed_data = run.step - parts.total();
}

bool Report::fits() const {
  return std::all_of(memory.begin(), memory.end(), [](const StageMemory& m) { return m.fits(); });
}

bool Report::memory_in_doubt() const {
  const StageMemory& worst = worst_memory();
  return fits() && memory_error &&
         worst.needed() > most_within(memory_error->fraction, worst.capacity);
}

std::optional<double> Report::fits_chance() const {
  if (!memory_error || memory_error->excess.empty()) return std::nullopt;
  const StageMemory& worst = worst_memory();
  return chance_to_fit(*memory_error, static_cast<double>(worst.capacity.count()) /
                                              static_cast<double>(worst.needed().count()) -
                                          1);
}

bool Report::fits_by_retries() const {
  return fits() && std::any_of(memory.begin(), memory.end(),
                               [](const StageMemory& m) { return m.fits_by_retries(); });
}

std::optional<MemoryRange> Report::memory_range() const {
  if (!memory_error || memory_error->excess.empty()) return std::nullopt;
  return range_of(*memory_error, worst_memory().total);
}

std::optional<ExpertLoadFacts> expert_load_of(const Scenario& scenario, const Layout& layout) {
  if (!layout.has_uneven_experts()) return std::nullopt;
  const ExpertShares shares = expert_shares(layout, scenario.model);
  return ExpertLoadFacts{.fullest = shares.paced.come,
                         .held = shares.held.come,
                         .rank = shares.fullest_rank,
                         .ranks = layout.expert_parallel,
                         .dropped = shares.dropped,
                         .rows = expert_load_rows(layout, scenario.model).size(),
                         .from = layout.expert_load.exists()
                                     ? "as measured"
                                     : fmt::format("drawn with cv {} and seed {}",
                                                   layout.expert_load_cv, layout.expert_load_seed)};
}

Report make_memory_report(const Scenario& scenario, const Plan& plan, PlanMemory& memory) {
  Report report;
  add_identity(report, scenario, plan);
  report.expert_load = expert_load_of(scenario, plan.layout);
  report.software = software_of(scenario);
  report.import_notes = scenario.notes;
  report.followed = scenario.followed;
  report.memory = memory.stages(scenario.cluster);
  const auto worst =
      std::max_element(report.memory.begin(), report.memory.end(),
                       [](const auto& a, const auto& b) { return a.total < b.total; });
  report.worst_stage = static_cast<int>(worst - report.memory.begin());
  if (const std::optional<MemoryErrors> errors = shipped_memory_errors())
    report.memory_error =
        errors->of(scenario.framework.name, plan.layout.schedule,
                   memory_kinds(scenario.framework.name, plan.layout, scenario.model));
  return report;
}

Report make_report(const Scenario& scenario, const Plan& plan, const Simulation& simulation,
                   PlanMemory& memory, BesideStep beside) {
  Report report = make_memory_report(scenario, plan, memory);
  const Timeline& timeline = simulation.timeline;
  report.meetings = std::move(beside.meetings);
  report.servers = std::move(beside.servers);
  report.step_time = timeline.end.time_since_epoch();
  if (report.meetings) report.step_time += report.meetings->per_step;
  if (report.servers) {
    report.step_time = report.servers->step;
    if (report.servers->busiest_share > 0)
      report.servers_link = scenario.cluster.link_name(report.servers->busiest);
  }
  report.engine = timeline.engine;
  report.seed = scenario.options.seed;
  report.stats = simulation.stats;
  add_rates(report, scenario, plan);
  add_breakdown(report, plan, timeline);
  add_pools(report, plan, scenario.cluster, timeline);
  report.collectives = timeline.collectives;
  if (report.meetings)
    report.collectives.insert(report.collectives.end(), report.meetings->collectives.begin(),
                              report.meetings->collectives.end());
  add_links(report, scenario.cluster, timeline);
  report.provenance = provenance_of(scenario);
  add_interval(report, scenario);
  return report;
}

namespace {

std::string host_hints(const Layout& layout, bool disk) {
  std::vector<std::string> hints;
  if (layout.offloads_activations() && !disk)
    hints.emplace_back("fewer of layout.offload.layers, or layout.recompute: full");
  if (layout.offloads() && !layout.offloads_parameters())
    hints.push_back(fmt::format("layout.offload.fraction below {:.2f}", layout.offload_fraction));
  if (layout.offloads()) hints.emplace_back("more data-parallel ranks with ZeRO");
  if (layout.offloads() && !disk) {
    std::string targets = layout.offload_optimizer == OffloadTarget::cpu ? "optimizer" : "";
    if (layout.offload_parameters == OffloadTarget::cpu)
      targets += targets.empty() ? "parameters" : " and parameters";
    if (!targets.empty()) hints.push_back(fmt::format("or layout.offload.{}: nvme", targets));
  }
  return fmt::format("{}", fmt::join(hints, ", "));
}

// The device has room; the host, or its disk, has not.
std::string host_does_not_fit_text(const Report& report) {
  std::string text;
  for (const StageMemory& stage : report.memory) {
    if (stage.fits_host()) continue;
    if (report.layout.outer_on_host) {
      text += fmt::format(
          "does not fit: the outer state of stage {} needs {:.1f} GiB of {:.1f} GiB of host memory "
          "on each node\n  try: layout.local_steps.on_host: false, or more "
          "layout.local_steps.ranks\n",
          stage.stage, stage.host.memory.gib(), stage.host_capacity.gib());
      break;
    }
    const bool disk = stage.disk_capacity > Bytes{} && stage.host.disk > stage.disk_capacity;
    const Layout& layout = report.layout;
    text += fmt::format(
        "does not fit: {} of stage {} needs {:.1f} GiB of {:.1f} GiB of {} on each "
        "node\n  try: {}\n",
        layout.offloads() && !layout.offloads_parameters() && !layout.offloads_activations()
            ? "the offloaded optimizer"
            : "what is offloaded",
        stage.stage, (disk ? stage.host.disk : stage.host.memory).gib(),
        (disk ? stage.disk_capacity : stage.host_capacity).gib(), disk ? "NVMe" : "host memory",
        host_hints(layout, disk));
    break;
  }
  return text;
}

}  // namespace

std::string does_not_fit_text(const Report& report, const Scenario& scenario) {
  return does_not_fit_text(report, scenario, scenario.cluster);
}

std::string does_not_fit_text(const Report& report, const Scenario& scenario,
                              const Cluster& cluster) {
  const StageMemory& worst = report.worst_memory();
  if (worst.total <= worst.capacity) return host_does_not_fit_text(report);
  std::string text = fmt::format(
      "does not fit: stage {} needs {:.1f} GiB of {:.1f} GiB on {} ({:.1f} GiB too much)\n",
      worst.stage, worst.total.gib(), worst.capacity.gib(), report.device,
      (worst.total - worst.capacity).gib());
  std::vector<std::size_t> order(buffer_category_count);
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return worst.use.at_peak[a] > worst.use.at_peak[b];
  });
  const auto largest = static_cast<BufferCategory>(order[0]);
  text +=
      fmt::format("  largest: {} {:.1f} GiB, then {} {:.1f} GiB\n", word(largest),
                  worst.use.at_peak[order[0]].gib(), word(static_cast<BufferCategory>(order[1])),
                  worst.use.at_peak[order[1]].gib());
  const auto over = static_cast<std::uint64_t>(
      std::count_if(report.memory.begin(), report.memory.end(),
                    [](const StageMemory& stage) { return !stage.fits(); }));
  text += fmt::format("  {} of {} stage{} too large\n", over, report.memory.size(),
                      plural(report.memory.size()));
  constexpr double worth_saying = 0.05;
  if (const std::optional<double> chance = report.fits_chance(); chance && *chance >= worth_saying)
    text += fmt::format("  this is within the error of the forecast: {:.0f} % of such runs fit\n",
                        100 * *chance);
  for (const std::string& hint :
       memory_hints(scenario.model, scenario.framework.name, report.layout, cluster))
    text += "  try: " + hint + '\n';
  return text;
}

}  // namespace sim
