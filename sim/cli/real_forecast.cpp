#include "sim/cli/real_forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "real/calibrate/run_suite.hpp"
#include "real/cuda/environment.hpp"
#include "sim/base/input_error.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/plan/arena.hpp"
#include "sim/plan/layout_text.hpp"
#include "sim/timeline/breakdown.hpp"
#include "sim/timeline/compare.hpp"
#include "sim/validation/score.hpp"

namespace sim {
namespace {

Breakdown mean_parts(const Record& record) {
  std::vector<std::pair<Breakdown, std::uint64_t>> parts;
  for (const RecordedTrack& track : record.tracks) {
    const RankTrack spans{.rank = track.rank, .represents = track.represents, .spans = track.spans};
    parts.emplace_back(
        break_down(spans, record.programs[track.program], record.end, record.pipeline),
        track.represents);
  }
  return weighted_mean(parts);
}

Bytes planned_memory(const Plan& plan) {
  Bytes most{};
  for (const Program& program : plan.programs)
    most = std::max(most, arena_layout(program).size);
  return most;
}

// Everything but computing, mean over ranks.
double waiting_share(const Breakdown& parts) {
  const double total = to_seconds(parts.total());
  return total > 0 ? 1 - to_seconds(parts.compute) / total : 0;
}

// Step and parts as they would have been in the phase of the machine that was calibrated.
void set_drift(const std::optional<ReferenceTimes>& calibrated, const real::RunFacts& facts,
               const std::vector<double>& steps, RealResult& result, RealRow& row) {
  if (!calibrated)
    result.without_drift = "the calibration has no reference; calibrate again";
  else if (facts.references.whole.empty())
    result.without_drift = "the records have no reference; run again";
  if (!calibrated || facts.references.whole.empty()) return;
  row.drift = take_out_drift({.steps = steps,
                              .product = facts.references.product,
                              .copy = facts.references.copy,
                              .whole = facts.references.whole},
                             *calibrated, waiting_share(row.predicted_parts));
  row.measured = duration_from_seconds(row.drift->measured);
  Breakdown& parts = row.measured_parts;
  for (Duration* part : {&parts.compute, &parts.exposed_tensor, &parts.exposed_data,
                         &parts.exposed_pipeline, &parts.bubble, &parts.host})
    *part = duration_from_seconds(to_seconds(*part) / row.drift->recorded);
}

}  // namespace

RealForecast forecast(const RealSuite& suite, const SuiteScenario& wanted) {
  Scenario scenario = load_scenario(wanted.base, overrides_of(suite, wanted));
  if (scenario.layout.world_size() != suite.ranks)
    throw InputError{SourcePosition{suite.path, 0, 0},
                     fmt::format("{} has {} ranks, the suite {}", wanted.name,
                                 scenario.layout.world_size(), suite.ranks)};
  // Ranks on one machine, whose own speed its device file has: no spread over like devices.
  scenario.options.device_spread = 0;
  scenario.options.fold = false;
  scenario.options.record_all = true;
  Plan plan = make_plan(scenario.model, scenario.layout);
  // As run_suite() runs it.
  if (suite.backend == RealBackend::cuda) scenario.options.graphs = real::wants_graphs(plan);
  const Simulation simulation = simulate(plan, scenario.cluster, scenario.options);
  RecordOrigin origin;
  origin.scenario = wanted.name;
  origin.machine = scenario.cluster.name();
  Record record = make_record(plan, simulation.timeline, origin);
  RealRow row;
  row.name = wanted.name;
  row.family = fmt::format("{}, {} x {} tokens", scenario.model.name, scenario.layout.global_batch,
                           scenario.layout.sequence_length);
  row.layout = layout_text(scenario.layout, LayoutForm::terms);
  row.predicted = simulation.timeline.end.time_since_epoch();
  row.predicted_parts = mean_parts(record);
  row.planned_memory = planned_memory(plan);
  return {.scenario = std::move(scenario),
          .plan = std::move(plan),
          .record = std::move(record),
          .row = std::move(row)};
}

void add_measurement(const std::string& record_path,
                     const std::optional<ReferenceTimes>& calibrated, RealForecast& forecast,
                     RealResult& result) {
  RealRow& row = forecast.row;
  if (row.failed.empty() && !std::filesystem::exists(record_path)) row.failed = "no record";
  if (row.failed.empty()) {
    const Record record = read_record(record_path);
    if (record.origin.steps.empty())
      throw InputError{SourcePosition{record_path, 0, 0}, "it has no measured steps"};
    row.steps = record.origin.steps;
    std::vector<double> seconds;
    for (const Duration step : row.steps)
      seconds.push_back(to_seconds(step));
    row.as_timed = row.measured = duration_from_seconds(quantile(seconds, 0.5));
    if (row.measured <= Duration{})
      throw InputError{SourcePosition{record_path, 0, 0}, "its steps took no time"};
    row.measured_parts = mean_parts(record);
    for (const RecordedTrack& track : record.tracks)
      row.used_memory = std::max(row.used_memory, track.peak_memory);
    const real::RunFacts facts = real::facts_of(record, record_path);
    set_drift(calibrated, facts, seconds, result, row);
    row.first_loss = facts.first_loss;
    row.last_loss = facts.last_loss;
    row.device_memory = facts.device_memory;
    row.difference = same_work(forecast.record, record).first_difference;
    if (result.date.empty()) result.date = record.origin.date;
    if (result.machine.empty()) result.machine = record.origin.machine;
  }
  result.rows.push_back(std::move(row));
}

std::vector<std::string> calibration_lines(const std::vector<RealForecast>& forecasts) {
  if (forecasts.empty()) return {};
  const Scenario& scenario = forecasts.front().scenario;
  return {fmt::format("{} ({})", scenario.cluster_path, scenario.cluster.name()),
          fmt::format("{}: {}", scenario.cluster.device().name, scenario.cluster.device().origin)};
}

}  // namespace sim
