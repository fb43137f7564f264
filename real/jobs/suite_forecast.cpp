#include "real/jobs/suite_forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "real/calibrate/run_suite.hpp"
#include "real/cuda/environment.hpp"
#include "real/jobs/training_run.hpp"
#include "sim/base/input_error.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/layout/layout_text.hpp"
#include "sim/memory/arena.hpp"
#include "sim/scores/score.hpp"
#include "sim/timeline/breakdown.hpp"
#include "sim/timeline/compare.hpp"

namespace real {
namespace {

sim::Breakdown mean_parts(const sim::Record& record) {
  std::vector<std::pair<sim::Breakdown, std::uint64_t>> parts;
  for (const sim::RecordedTrack& track : record.tracks) {
    const sim::RankTrack spans{
        .rank = track.rank, .represents = track.represents, .spans = track.spans};
    parts.emplace_back(
        sim::break_down(spans, record.programs[track.program], record.end, record.pipeline),
        track.represents);
  }
  return sim::weighted_mean(parts);
}

sim::Bytes planned_memory(const sim::Plan& plan) {
  sim::Bytes most{};
  for (const sim::Program& program : plan.programs)
    most = std::max(most, sim::arena_layout(program).size);
  return most;
}

// Everything but computing, mean over ranks.
double waiting_share(const sim::Breakdown& parts) {
  const double total = sim::to_seconds(parts.total());
  return total > 0 ? 1 - sim::to_seconds(parts.compute) / total : 0;
}

// Step and parts as they would have been in the phase of the machine that was calibrated.
void set_drift(const std::optional<sim::ReferenceTimes>& calibrated, const RunFacts& facts,
               const std::vector<double>& steps, sim::RealResult& result, sim::RealRow& row) {
  if (!calibrated)
    result.without_drift = "the calibration has no reference; calibrate again";
  else if (facts.references.whole.empty())
    result.without_drift = "the records have no reference; run again";
  if (!calibrated || facts.references.whole.empty()) return;
  row.drift = sim::take_out_drift({.steps = steps,
                                   .product = facts.references.product,
                                   .copy = facts.references.copy,
                                   .whole = facts.references.whole},
                                  *calibrated, waiting_share(row.predicted_parts));
  row.measured = sim::duration_from_seconds(row.drift->measured);
  sim::Breakdown& parts = row.measured_parts;
  for (sim::Duration* part :
       {&parts.compute, &parts.exposed_tensor, &parts.exposed_context, &parts.exposed_expert,
        &parts.exposed_data, &parts.exposed_pipeline, &parts.bubble, &parts.host})
    *part = sim::duration_from_seconds(sim::to_seconds(*part) / row.drift->recorded);
}

}  // namespace

SuiteForecast forecast(const sim::RealSuite& suite, const sim::SuiteScenario& wanted) {
  sim::Scenario scenario =
      as_executed(sim::load_scenario(wanted.base, sim::overrides_of(suite, wanted)));
  if (scenario.layout.world_size() != suite.ranks)
    throw sim::InputError{sim::SourcePosition{suite.path, 0, 0},
                          fmt::format("{} has {} ranks, the suite {}", wanted.name,
                                      scenario.layout.world_size(), suite.ranks)};
  // Ranks on one machine, whose own speed its device file has: no spread over like devices.
  scenario.options.device_spread = 0;
  scenario.options.fold = false;
  scenario.options.record_all = true;
  if (scenario.layout.trains_apart())
    throw sim::InputError{sim::SourcePosition{suite.path, 0, 0},
                          fmt::format("{}: layout.local_steps: a suite compares single steps, and "
                                      "has no meetings",
                                      wanted.name)};
  if (scenario.layout.has_servers())
    throw sim::InputError{sim::SourcePosition{suite.path, 0, 0},
                          fmt::format("{}: layout.servers: a suite compares single steps, without "
                                      "parameter servers",
                                      wanted.name)};
  sim::Plan plan = sim::make_plan(scenario.model, scenario.layout);
  // As run_suite() runs it.
  if (suite.backend == sim::RealBackend::cuda) scenario.options.graphs = wants_graphs(plan);
  const sim::Simulation simulation = sim::simulate(plan, scenario.cluster, scenario.options);
  sim::RecordOrigin origin;
  origin.scenario = wanted.name;
  origin.machine = scenario.cluster.name();
  sim::Record record = sim::make_record(plan, simulation.timeline, origin);
  sim::RealRow row;
  row.name = wanted.name;
  row.family = fmt::format("{}, {} x {} tokens", scenario.model.name, scenario.layout.global_batch,
                           scenario.layout.sequence_length);
  row.layout = sim::layout_text(scenario.layout, sim::LayoutForm::terms);
  row.predicted = simulation.timeline.end.time_since_epoch();
  row.predicted_parts = mean_parts(record);
  row.planned_memory = planned_memory(plan);
  return {.scenario = std::move(scenario),
          .plan = std::move(plan),
          .record = std::move(record),
          .row = std::move(row)};
}

void add_measurement(const std::string& record_path,
                     const std::optional<sim::ReferenceTimes>& calibrated, SuiteForecast& forecast,
                     sim::RealResult& result) {
  sim::RealRow& row = forecast.row;
  if (row.failed.empty() && !std::filesystem::exists(record_path)) row.failed = "no record";
  if (row.failed.empty()) {
    const sim::Record record = sim::read_record(record_path);
    if (record.origin.steps.empty())
      throw sim::InputError{sim::SourcePosition{record_path, 0, 0}, "it has no measured steps"};
    row.steps = record.origin.steps;
    std::vector<double> seconds;
    for (const sim::Duration step : row.steps)
      seconds.push_back(sim::to_seconds(step));
    row.as_timed = row.measured = sim::duration_from_seconds(sim::quantile(seconds, 0.5));
    if (row.measured <= sim::Duration{})
      throw sim::InputError{sim::SourcePosition{record_path, 0, 0}, "its steps took no time"};
    row.measured_parts = mean_parts(record);
    for (const sim::RecordedTrack& track : record.tracks)
      row.used_memory = std::max(row.used_memory, track.peak_memory);
    const RunFacts facts = facts_of(record, record_path);
    set_drift(calibrated, facts, seconds, result, row);
    row.first_loss = facts.first_loss;
    row.last_loss = facts.last_loss;
    row.device_memory = facts.device_memory;
    row.difference = sim::same_work(forecast.record, record).first_difference;
    if (result.date.empty()) result.date = record.origin.date;
    if (result.machine.empty()) result.machine = record.origin.machine;
  }
  result.rows.push_back(std::move(row));
}

std::vector<std::string> calibration_lines(const std::vector<SuiteForecast>& forecasts) {
  if (forecasts.empty()) return {};
  const sim::Scenario& scenario = forecasts.front().scenario;
  return {fmt::format("{} ({})", scenario.cluster_path, scenario.cluster.name()),
          fmt::format("{}: {}", scenario.cluster.device().name, scenario.cluster.device().origin)};
}

}  // namespace real
