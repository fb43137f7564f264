// The answer of `stepcast budget`: a run of the scenario's steps in time, money and energy.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/economics/budget.hpp"
#include "sim/economics/checkpoint.hpp"
#include "sim/economics/monte_carlo.hpp"
#include "sim/economics/strategies.hpp"
#include "sim/report/report.hpp"
#include "sim/uncertainty/normal.hpp"

namespace sim {

// The run on one kind of capacity: rented for good, or spot.
struct RunForecast {
  RunModel model;
  Seconds mtbf{};        // between stops of any kind
  Seconds expected{};    // wall time in closed form; infinite: it never ends
  Distribution wall;     // of the played runs; empty where `expected` is beyond `hopeless`
  StepError step_error;  // of the forecast step: the wall time is off by the same factor
  Seconds lost{}, down{}, waited{}, slow{};  // means; waited: of `down`, for a node
  double failures = 0, preemptions = 0, corruptions = 0;

  // Less than this share of the time is work: no run is played.
  static constexpr double hopeless = 0.01;
  double expected_goodput() const { return model.work / expected; }
  double goodput() const { return model.work / wall.mean; }
  bool ends() const { return expected_goodput() >= hopeless; }
  // The distribution of the wall time, with what failures do and with the error of the step.
  // REQUIRES: ends().
  double probability_within(Seconds limit) const;
  Seconds quantile(double probability) const;
};

struct Costs {
  std::optional<double> rent;  // mean
  double low = 0, high = 0;    // of the rent: its 95% interval, by RunForecast::quantile
};

struct BudgetForecast {
  std::string scenario, model, cluster, device;
  int gpus = 0, nodes = 0;
  int spare_gpus = 0, spare_nodes = 0;  // beside them, and paid for
  Layout layout;
  bool counts_samples = false;
  bool fits = true;
  std::string why_not;  // where memory does not suffice
  Duration step{};
  std::optional<TimeInterval> interval{};  // of the step, and so of the whole run
  double mfu = 0;
  std::int64_t steps = 0;
  std::int64_t tokens_per_step = 0;
  double tokens = 0;  // of the whole run
  CheckpointSize checkpoint;
  CheckpointTimes times;
  CopyTimes copies;
  std::vector<double> elastic_speeds;  // NodePool::speeds
  RunForecast rented;
  std::optional<RunForecast> spot;
};

// REQUIRES: `budget` is the scenario's. Simulates the step, unless memory does not suffice.
// Throws InputError where playing the runs would take too long.
BudgetForecast forecast_budget(const Scenario& scenario, const Budget& budget,
                               const Control& control = {});

// The run on rented capacity under the rules of `budget`, whose copies and speeds `forecast` has.
RunModel rented_model(const BudgetForecast& forecast, const Budget& budget);

// GPU-hours and energy, those of the spares among them.
double gpu_hours(const BudgetForecast& forecast, Seconds wall);
double energy_kwh(const BudgetForecast& forecast, const Budget& budget, Seconds wall);
Costs costs(const BudgetForecast& forecast, const RunForecast& run,
            const std::optional<double>& price);

// Steps of the work with this many tokens each.
std::int64_t steps_of(const RunWork& work, std::int64_t tokens_per_step);

}  // namespace sim
