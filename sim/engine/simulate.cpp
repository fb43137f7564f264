#include "sim/engine/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/work.hpp"
#include "sim/engine/executor.hpp"
#include "sim/engine/fold.hpp"
#include "sim/engine/own_links.hpp"
#include "sim/engine/prepared.hpp"
#include "sim/engine/simulator.hpp"
#include "sim/engine/system.hpp"
#include "sim/engine/unfolded.hpp"
#include "sim/engine/wirings.hpp"

namespace sim {
namespace {

// One slot per program, or every slot.
std::vector<std::uint32_t> recorded_slots(const System& system, bool all) {
  std::vector<std::uint32_t> recorded;
  std::vector<char> seen(system.variants.size(), 0);
  for (std::uint32_t s = 0; s < system.slots.size(); ++s)
    if (all || !std::exchange(seen[system.slots[s].variant], char{1})) recorded.push_back(s);
  return recorded;
}

// How many ranks each recorded slot stands for.
std::vector<std::uint32_t> represented(const System& system,
                                       std::span<const std::uint32_t> recorded, bool all) {
  std::vector<std::uint32_t> counts;
  for (const std::uint32_t slot : recorded) {
    std::uint32_t count = system.slots[slot].represents;
    if (!all) {
      count = 0;
      for (const RankSlot& other : system.slots)
        if (other.variant == system.slots[slot].variant) count += other.represents;
    }
    counts.push_back(count);
  }
  return counts;
}

std::string algorithm_text(const CommCost& cost) {
  std::string text{word(cost.algorithm)};
  text += '/';
  text += word(cost.protocol);
  if (cost.measured) text += " (measured)";
  return text;
}

// How often a program issues each of its collectives.
std::vector<std::uint64_t> calls_of(const Program& program) {
  std::vector<std::uint64_t> calls(program.collectives.size(), 0);
  for (std::size_t op = 0; op < program.size(); ++op)
    if (program.kind[op] == OpKind::collective) ++calls[program.work[op]];
  return calls;
}

// How often one rank issues each request of the table: by the stage that issues it most.
std::vector<std::uint64_t> most_calls(const Plan& plan, const System& system) {
  std::vector<std::uint64_t> most(system.requests.size(), 0);
  for (std::size_t p = 0; p < plan.programs.size(); ++p) {
    const std::vector<std::uint64_t> calls = calls_of(plan.programs[p]);
    for (std::size_t work = 0; work < calls.size(); ++work) {
      std::uint64_t& count = most[system.requests.of_collective[p][work]];
      count = std::max(count, calls[work]);
    }
  }
  return most;
}

std::vector<CollectiveSummary> summarise(const Plan& plan, const System& system,
                                         const Executor& executor) {
  const std::vector<std::uint64_t> calls = most_calls(plan, system);
  std::vector<CollectiveSummary> summaries;
  for (std::size_t request = 0; request < system.requests.collectives.size(); ++request) {
    const Collective& collective = system.requests.collectives[request];
    for (std::size_t shape = 0; shape < system.group_shapes.size(); ++shape) {
      const std::size_t cell = shape * system.requests.size() + request;
      const CommTotals& totals = executor.totals(cell);
      if (totals.calls == 0) continue;
      summaries.push_back({.kind = collective.kind,
                           .group = collective.group,
                           .algorithm = algorithm_text(system.costs[cell]),
                           .ranks = system.group_shapes[shape].ranks,
                           .count = calls[request],
                           .bytes = collective.bytes,
                           .mean_time = totals.time / static_cast<std::int64_t>(totals.calls)});
    }
  }
  return summaries;
}

std::vector<LinkLoad> link_loads(const System& system, const Executor& executor) {
  const std::vector<Bytes> carried = executor.carried();
  const std::vector<Duration> busy = executor.busy();
  std::vector<LinkLoad> loads;
  for (std::uint32_t r = 0; r < system.resources.size(); ++r)
    if (carried[r] > Bytes{})
      loads.push_back({.link = system.resources[r].link,
                       .represents = system.resources[r].represents,
                       .carried = carried[r],
                       .busy = busy[r]});
  std::sort(loads.begin(), loads.end(), [](const LinkLoad& a, const LinkLoad& b) {
    return a.busy != b.busy ? a.busy > b.busy : a.link < b.link;
  });
  return loads;
}

System wire_and_fold(const Plan& plan, const Cluster& cluster, const SimulationOptions& options,
                     const Control& control) {
  System system = wire(plan, cluster, options, control);
  return folds(options) ? fold(system, control) : system;
}

// Whether a system wired for one of them serves the other once it is priced again.
bool same_wiring(const SimulationOptions& a, const SimulationOptions& b) {
  return a.collectives == b.collectives && a.tensor_choice == b.tensor_choice &&
         a.data_choice == b.data_choice && a.most_blocks == b.most_blocks && folds(a) == folds(b) &&
         a.stragglers == b.stragglers && a.link_contention == b.link_contention &&
         a.measured == b.measured;
}

ExecutorInput executor_input(const Plan& plan, const System& system, const Prepared& prepared,
                             const SimulationOptions& options) {
  return {.system = system,
          .programs = plan.programs,
          .indexes = prepared.indexes,
          .index_of = prepared.index_of,
          .lanes = prepared.lanes,
          .jitter = options.jitter,
          .seed = options.seed,
          .jump = options.jump,
          .limit = options.limit};
}

Simulation run_system(const Plan& plan, const Cluster& cluster, System system,
                      const SimulationOptions& options, const Control& control) {
  // Messages one by one go over a channel's links several at a time.
  if (options.collectives == CollectiveModel::fluid) find_own_links(system);
  const Prepared prepared = prepare(plan, cluster, system, options);
  const bool all = folds(options) || options.record_all;
  const std::vector<std::uint32_t> recorded =
      options.record_spans ? recorded_slots(system, all) : std::vector<std::uint32_t>{};
  std::optional<StepwiseRuns> stepwise;
  if (options.collectives == CollectiveModel::stepwise) stepwise.emplace(system, cluster, options);
  Executor executor{executor_input(plan, system, prepared, options), recorded,
                    stepwise ? &*stepwise : nullptr};
  executor.run(control);
  count_work(Work::events_simulated, executor.events() - executor.jumped_events());
  count_work(Work::events_jumped, executor.jumped_events());

  Simulation simulation;
  Timeline& timeline = simulation.timeline;
  timeline.engine = "simulated";
  timeline.end = executor.end();
  if (!options.record_spans) return simulation;
  const std::vector<std::uint32_t> counts = represented(system, recorded, all);
  for (std::size_t i = 0; i < recorded.size(); ++i)
    timeline.tracks.push_back({.rank = system.slots[recorded[i]].rank,
                               .represents = counts[i],
                               .spans = executor.take_spans(i)});
  timeline.links = link_loads(system, executor);
  timeline.collectives = summarise(plan, system, executor);
  simulation.stats = {.rank_classes = system.slots.size(),
                      .activities = executor.activities(),
                      .events = executor.events(),
                      .jumped_events = executor.jumped_events()};
  return simulation;
}

}  // namespace

Simulation simulate(const Plan& plan, const Cluster& cluster, const SimulationOptions& options,
                    const Control& control) {
  return run_system(plan, cluster, wire_and_fold(plan, cluster, options, control), options,
                    control);
}

Simulation simulate(const Plan& plan, const Cluster& cluster, const SimulationOptions& options,
                    Wirings& wirings, const Control& control) {
  if (!folds(options)) return simulate(plan, cluster, options, control);
  return run_system(plan, cluster, wirings.folded(plan, cluster, options, control), options,
                    control);
}

Simulator::Simulator(const Plan& plan, const Cluster& cluster, const SimulationOptions& options,
                     const Control& control)
    : plan_{plan}, cluster_{cluster}, options_{options} {
  // A resource that is free loads no link, and another run may want to pay for it.
  options_.free_compute = options_.free_memory_traffic = options_.free_tensor = false;
  options_.free_context = options_.free_expert = false;
  options_.free_data = options_.free_pipeline = options_.free_host = false;
  system_ = wire_and_fold(plan, cluster, options_, control);
}

Simulation Simulator::run(const SimulationOptions& options, const Control& control) const {
  if (!same_wiring(options_, options)) return simulate(plan_, cluster_, options, control);
  System system = system_;
  price(system, cluster_, options);
  return run_system(plan_, cluster_, std::move(system), options, control);
}

}  // namespace sim
