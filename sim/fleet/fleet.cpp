#include "sim/fleet/fleet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "sim/base/input_error.hpp"
#include "sim/base/random.hpp"
#include "sim/engine/jobs.hpp"
#include "sim/fleet/shared_links.hpp"

namespace sim {
namespace {

constexpr std::uint64_t phase_stream = 0x666c656574;  // "fleet"
// Steps of the slowest job that count, behind one that does not: jobs come into step with each
// other meanwhile.
constexpr int counted_steps = 6;
constexpr std::int64_t most_steps = 2000;
constexpr std::size_t most_links = 3;

// A job with its plan and its step alone.
struct RunningJob {
  const FleetJob* job = nullptr;
  Plan plan;
  Duration alone{};
  std::vector<double> shares;  // busy_shares()
};

void check_jobs(const Fleet& fleet) {
  const FleetJob& first = fleet.jobs.front();
  std::set<int> taken;
  for (const FleetJob& job : fleet.jobs) {
    const Scenario& scenario = job.scenario;
    const auto refuse = [&](const std::string& what) {
      throw InputError{{.file = fleet.path}, fmt::format("job '{}': {}", job.name, what)};
    };
    if (scenario.cluster_path != first.scenario.cluster_path ||
        !(scenario.changes == first.scenario.changes))
      refuse(
          fmt::format("its cluster is {}, and that of '{}' is {}; allowed: one cluster, with the "
                      "same changes, for all jobs",
                      scenario.cluster_path, first.name, first.scenario.cluster_path));
    if (scenario.options.collectives != CollectiveModel::fluid)
      refuse("simulation.collectives is stepwise; allowed: fluid");
    if (scenario.cluster.places().empty() && fleet.jobs.size() > 1)
      refuse("it has the whole machine; say which nodes it has by node_list");
    for (const int place : scenario.cluster.places())
      if (!taken.insert(place).second)
        refuse(fmt::format("{} is another job's, too", scenario.cluster.node_name(place)));
  }
}

// Steps that a job takes in the time of so many of the slowest one's.
int steps_within(Duration step, Duration slowest, const std::string& name) {
  const std::int64_t steps = (counted_steps + 2) * slowest / step + 2;
  if (steps > most_steps)
    throw InputError{{},
                     fmt::format("a step of job '{}' is {} times shorter than that of another; "
                                 "allowed: up to {} times",
                                 name, slowest / step, most_steps / (counted_steps + 2))};
  return static_cast<int>(steps);
}

// The mean step between the time at which all jobs have taken one, and that at which the first is
// through.
Duration mean_step(const StepEnds& ends, TimePoint begin, TimePoint end) {
  const auto first = std::lower_bound(ends.begin(), ends.end(), begin);
  const auto last = std::upper_bound(ends.begin(), ends.end(), end) - 1;
  if (first >= last) return ends.size() > 1 ? ends[1] - ends[0] : ends[0] - TimePoint{};
  return (*last - *first) / (last - first);
}

std::vector<Duration> mean_steps(const std::vector<StepEnds>& ends) {
  TimePoint begin{}, end = ends.front().back();
  for (const StepEnds& job : ends) {
    begin = std::max(begin, job.front());
    end = std::min(end, job.back());
  }
  std::vector<Duration> steps;
  for (const StepEnds& job : ends)
    steps.push_back(mean_step(job, begin, end));
  return steps;
}

// The slow-downs of the jobs beside each other.
std::vector<Slowdown> beside(const std::vector<const RunningJob*>& jobs, const Fleet& fleet,
                             const Control& control) {
  std::vector<Job> running;
  Duration slowest{};
  for (const RunningJob* one : jobs) {
    running.push_back({&one->plan, &one->job->scenario.cluster, &one->job->scenario.options});
    slowest = std::max(slowest, one->alone);
  }
  const JobsSimulator simulator{running, control};
  std::vector<Slowdown> slowdowns(jobs.size());
  for (int phase = 0; phase < fleet.phases; ++phase) {
    throw_if_stopped(control);
    std::vector<JobStart> starts;
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      const double at = uniform(fleet.seed, phase_stream + static_cast<std::uint64_t>(phase), j);
      starts.push_back({.delay = duration_from_seconds(at * to_seconds(jobs[j]->alone)),
                        .steps = steps_within(jobs[j]->alone, slowest, jobs[j]->job->name)});
    }
    const std::vector<Duration> steps = mean_steps(simulator.run(starts, control));
    for (std::size_t j = 0; j < jobs.size(); ++j)
      slowdowns[j].drawn.push_back(to_seconds(steps[j]) / to_seconds(jobs[j]->alone));
  }
  for (Slowdown& slowdown : slowdowns)
    std::sort(slowdown.drawn.begin(), slowdown.drawn.end());
  return slowdowns;
}

RunningJob alone(const FleetJob& job, const Control& control) {
  const Scenario& scenario = job.scenario;
  RunningJob running;
  running.job = &job;
  running.plan = make_plan(scenario.model, scenario.layout);
  const Simulation step = simulate(running.plan, scenario.cluster, scenario.options, control);
  running.shares = busy_shares(running.plan, scenario, step.timeline, control);
  // As beside others: in the middle of a run, whose steps may overlap at their ends.
  const Job one{&running.plan, &scenario.cluster, &scenario.options};
  const JobStart start{.delay = {}, .steps = counted_steps};
  running.alone = mean_steps(simulate_jobs({&one, 1}, {&start, 1}, control)).front();
  return running;
}

}  // namespace

FleetForecast forecast_fleet(const Fleet& fleet, const Control& control) {
  check_jobs(fleet);
  std::vector<RunningJob> running;
  for (const FleetJob& job : fleet.jobs)
    running.push_back(alone(job, control));
  FleetForecast forecast{.name = fleet.name,
                         .cluster = fleet.jobs.front().scenario.cluster.name(),
                         .phases = fleet.phases,
                         .seed = fleet.seed,
                         .jobs = {},
                         .pairs = {}};
  std::vector<const RunningJob*> all;
  for (const RunningJob& one : running)
    all.push_back(&one);
  std::vector<Slowdown> together = beside(all, fleet, control);
  for (std::size_t j = 0; j < running.size(); ++j) {
    const Scenario& scenario = fleet.jobs[j].scenario;
    forecast.jobs.push_back({.name = fleet.jobs[j].name,
                             .gpus = running[j].plan.world_size(),
                             .nodes = scenario.cluster.nodes(),
                             .alone = running[j].alone,
                             .beside_all = together[j]});
  }
  for (std::size_t a = 0; a < running.size(); ++a)
    for (std::size_t b = a + 1; b < running.size(); ++b) {
      JobPair pair{.first = a, .second = b, .of_first = {}, .of_second = {}, .links = {}};
      pair.links = shared_links(fleet.jobs[a].scenario.cluster, running[a].shares,
                                running[b].shares, most_links);
      std::vector<Slowdown> two =
          running.size() == 2 ? together : beside({&running[a], &running[b]}, fleet, control);
      pair.of_first = std::move(two[0]);
      pair.of_second = std::move(two[1]);
      forecast.pairs.push_back(std::move(pair));
    }
  return forecast;
}

}  // namespace sim
