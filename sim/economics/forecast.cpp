#include "sim/economics/forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/input_error.hpp"
#include "sim/forecast/forecast.hpp"

namespace sim {
namespace {

Seconds rate_sum(std::initializer_list<std::pair<Seconds, double>> parts) {
  double rate = 0;
  for (const auto& [every, count] : parts)
    rate += count / every.count();
  return Seconds{1 / rate};
}

// The work between two checkpoints. Not shorter than a step, nor than a write takes.
Seconds interval_of(const CheckpointRules& rules, const RunModel& run, Seconds step) {
  const Seconds mtbf = time_between_storage_restores(run);
  const Seconds chosen = rules.rule == IntervalRule::given   ? rules.interval
                         : rules.rule == IntervalRule::young ? young_interval(run.stall, mtbf)
                                                             : daly_interval(run.stall, mtbf);
  return std::max({chosen, step, run.lag});
}

void set_segments(const CheckpointRules& rules, Seconds step, std::int64_t steps, RunModel& run) {
  const double wanted = std::ceil(run.work / interval_of(rules, run, step) * (1 - 1e-12));
  // A write must fit into a segment; where it is longer than all the work, there is one.
  const double most = run.lag > Seconds{0} ? std::max(1.0, std::floor(run.work / run.lag)) : wanted;
  run.segments = static_cast<std::int64_t>(
      std::clamp(std::min(wanted, most), 1.0, static_cast<double>(steps)));
}

RunForecast play_runs(const RunModel& model, const Budget& budget, const StepError& error) {
  RunForecast result;
  result.model = model;
  result.mtbf = time_between_stops(model);
  result.expected = expected_wall_time(model);
  result.step_error = error;
  if (!result.ends()) return result;
  constexpr double most_events = 3e8;  // a minute on one core
  const double events = expected_events(model, budget.runs);
  if (events > most_events)
    throw InputError{
        SourcePosition{"budget", 0, 0},
        fmt::format("runs: {} runs with {:.2g} stops each would take too long to play; at most {}",
                    budget.runs, events / budget.runs,
                    std::floor(most_events / (events / budget.runs)))};
  const std::vector<Played> played = play(model, budget.runs, budget.seed);
  result.wall = wall_times(played);
  const auto runs = static_cast<double>(played.size());
  for (const Played& one : played) {
    result.lost += one.lost / runs;
    result.down += one.down / runs;
    result.waited += one.waited / runs;
    result.slow += one.slow / runs;
    result.failures += static_cast<double>(one.failures) / runs;
    result.preemptions += static_cast<double>(one.preemptions) / runs;
    result.corruptions += static_cast<double>(one.corruptions) / runs;
  }
  return result;
}

// All but the segments.
RunModel model_of(const BudgetForecast& forecast, const Budget& budget) {
  const Seconds step{to_seconds(forecast.step)};
  const double gpus = forecast.gpus;
  const double nodes = forecast.nodes;
  const PartFailures& parts = budget.failures;
  RunModel run;
  run.work = step * static_cast<double>(forecast.steps);
  run.stall = forecast.times.stall;
  run.lag = forecast.times.lag;
  const FlapRules& flaps = budget.flaps;
  run.failures.every = rate_sum({{parts.gpu, gpus},
                                 {parts.node, nodes},
                                 {parts.network, nodes},
                                 {parts.software, nodes},
                                 {flaps.node, nodes * flaps.fails}});
  run.flap_stalls = nodes * (1 - flaps.fails) * (flaps.stall / flaps.node);
  const Seconds load = budget.restart.load.value_or(forecast.times.load);
  run.software_restart = budget.restart.detect + budget.restart.reschedule + load;
  run.failures.restart = run.software_restart;
  if (budget.spares.nodes) run.failures.restart = budget.restart.detect + budget.spares.swap + load;
  if (run.failures.every != never)
    run.software = nodes * (run.failures.every / parts.software) +
                   nodes * flaps.fails * (run.failures.every / flaps.node);
  run.weibull_shape = budget.weibull_shape;
  run.slow = budget.slow_node;
  run.slow.every = budget.slow_node.every / nodes;
  return run;
}

// Everything that depends on the interval of the checkpoints in the storage.
void add_checkpoints(const BudgetForecast& forecast, const Budget& budget, RunModel& run) {
  const Seconds step{to_seconds(forecast.step)};
  const auto add_tier = [&] {
    add_memory_tier(forecast.copies, budget.memory.place, budget.restart, forecast.times.load, step,
                    forecast.nodes, run);
  };
  // Which stops need the storage follows from the tier, and its parts from the segments.
  const Seconds stall = run.stall;
  add_tier();
  run.stall = stall;
  const Seconds least =
      step * static_cast<double>(std::max<std::int64_t>(1, forecast.copies.every));
  set_segments(budget.checkpoint, least, forecast.steps, run);
  add_tier();
  add_corruption(budget.corruption, forecast.gpus, run);
}

void add_runs(BudgetForecast& forecast, const Budget& budget) {
  const StepError error = forecast.interval ? StepError::of(*forecast.interval) : StepError{};
  forecast.rented = play_runs(rented_model(forecast, budget), budget, error);
  if (budget.preemption_every == never) return;
  RunModel spot = model_of(forecast, budget);
  // Nobody has to find out that a node was taken away.
  spot.preemptions = {.every = budget.preemption_every / forecast.nodes,
                      .restart = budget.preemption_wait + budget.restart.reschedule +
                                 budget.restart.load.value_or(forecast.times.load)};
  add_checkpoints(forecast, budget, spot);
  forecast.spot = play_runs(spot, budget, error);
}

}  // namespace

RunModel rented_model(const BudgetForecast& forecast, const Budget& budget) {
  RunModel run = model_of(forecast, budget);
  add_checkpoints(forecast, budget, run);
  add_pool(budget, forecast.elastic_speeds, run);
  return run;
}

// Failures per hour and the work between two checkpoints are the same for a longer step, so that
// all of the wall time is longer by its factor.
double RunForecast::probability_within(Seconds limit) const {
  double sum = 0;
  for (const Seconds played : wall.sorted)
    sum += step_error.chance_within(limit / played);
  return sum / static_cast<double>(wall.sorted.size());
}

Seconds RunForecast::quantile(double probability) const {
  if (step_error.deviation == 0) return wall.quantile(probability) * std::exp(step_error.mean);
  // Between the quantile of the error alone and the shortest and the longest run.
  const double error =
      std::exp(step_error.mean + step_error.deviation * normal_quantile(probability));
  Seconds low = wall.sorted.front() * error, high = wall.sorted.back() * error;
  for (int halving = 0; halving < 60 && low < high; ++halving) {
    const Seconds middle = low + (high - low) / 2;
    (probability_within(middle) < probability ? low : high) = middle;
  }
  return high;
}

std::int64_t steps_of(const RunWork& work, std::int64_t tokens_per_step) {
  if (work.steps) return *work.steps;
  const auto batch = static_cast<double>(tokens_per_step);
  const double steps =
      work.tokens ? *work.tokens / batch : *work.minimum_steps * (1 + *work.critical_batch / batch);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(steps)));
}

BudgetForecast forecast_budget(const Scenario& scenario, const Budget& budget,
                               const Control& control) {
  Forecaster forecaster;
  const Forecast memory = forecaster.memory(scenario, control);
  const Plan& plan = *memory.plan;
  Report report = memory.report;
  BudgetForecast forecast;
  forecast.scenario = report.scenario;
  forecast.model = report.model;
  forecast.cluster = report.cluster;
  forecast.device = report.device;
  forecast.gpus = report.ranks;
  forecast.nodes = report.nodes;
  forecast.layout = report.layout;
  forecast.counts_samples = report.counts_samples;
  forecast.fits = report.fits();
  if (!forecast.fits) {
    forecast.why_not = does_not_fit_text(report, scenario);
    return forecast;
  }
  report = forecaster.run(scenario, {}, control).report;
  forecast.step = duration_from_seconds(to_seconds(report.step_time) * budget.step_factor);
  forecast.interval = report.interval;
  forecast.mfu = report.mfu;
  forecast.tokens_per_step = plan.tokens;
  forecast.steps = steps_of(budget.work, plan.tokens);
  forecast.tokens = static_cast<double>(forecast.steps) * static_cast<double>(plan.tokens);
  forecast.checkpoint = checkpoint_size(plan, scenario.cluster.gpus_per_node());
  forecast.times = checkpoint_times(forecast.checkpoint, budget.checkpoint);
  forecast.copies =
      copy_times(forecast.checkpoint, budget.memory, Seconds{to_seconds(forecast.step)});
  forecast.elastic_speeds = elastic_speeds(scenario, budget.elastic, control);
  forecast.spare_nodes = budget.spares.nodes.value_or(0);
  forecast.spare_gpus = forecast.spare_nodes * scenario.cluster.gpus_per_node();
  add_runs(forecast, budget);
  return forecast;
}

double gpu_hours(const BudgetForecast& forecast, Seconds wall) {
  return (forecast.gpus + forecast.spare_gpus) * wall.count() / 3600;
}

double energy_kwh(const BudgetForecast& forecast, const Budget& budget, Seconds wall) {
  const double watts = (forecast.gpus + forecast.spare_gpus) * budget.gpu_watts +
                       (forecast.nodes + forecast.spare_nodes) * budget.node_watts;
  return budget.pue * watts / 1000 * wall.count() / 3600;
}

Costs costs(const BudgetForecast& forecast, const RunForecast& run,
            const std::optional<double>& price) {
  if (!price || run.wall.sorted.empty()) return {};
  return {.rent = *price * gpu_hours(forecast, run.wall.mean),
          .low = *price * gpu_hours(forecast, run.quantile(0.025)),
          .high = *price * gpu_hours(forecast, run.quantile(0.975))};
}

}  // namespace sim
