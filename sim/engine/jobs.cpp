#include "sim/engine/jobs.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/engine/executor.hpp"
#include "sim/engine/fold.hpp"
#include "sim/engine/joined.hpp"
#include "sim/engine/own_links.hpp"
#include "sim/engine/prepared.hpp"
#include "sim/engine/repeated.hpp"

namespace sim {
namespace {

Plan plan_of_steps(const Plan& plan, const JobStart& start) {
  Plan all = plan;
  for (Program& program : all.programs)
    program = repeated(program, start.steps, start.delay);
  return all;
}

// The jobs' programs and what is looked up of them, one job after another.
struct AllPrograms {
  std::vector<Program> programs;
  Prepared prepared;
};

void append(AllPrograms& all, Plan&& plan, Prepared&& prepared) {
  const auto first = static_cast<std::uint32_t>(all.prepared.indexes.size());
  std::move(plan.programs.begin(), plan.programs.end(), std::back_inserter(all.programs));
  std::move(prepared.indexes.begin(), prepared.indexes.end(),
            std::back_inserter(all.prepared.indexes));
  for (const std::uint32_t index : prepared.index_of)
    all.prepared.index_of.push_back(first + index);
  std::move(prepared.lanes.begin(), prepared.lanes.end(), std::back_inserter(all.prepared.lanes));
}

// The first slot of each job.
std::vector<std::uint32_t> first_slots(const System& system,
                                       std::span<const std::uint32_t> programs_of_job) {
  std::vector<std::uint32_t> slots;
  std::uint32_t end = 0;
  for (const std::uint32_t programs : programs_of_job) {
    const std::uint32_t begin = std::exchange(end, end + programs);
    std::uint32_t slot = 0;
    while (system.slots[slot].program < begin || system.slots[slot].program >= end)
      ++slot;
    slots.push_back(slot);
  }
  return slots;
}

StepEnds ends_of(const std::vector<Span>& spans, const Program& one_step, int steps) {
  StepEnds ends;
  for (int step = 0; step < steps; ++step) {
    TimePoint end{};
    for (std::size_t op = begin_of_step(one_step, step); op < begin_of_step(one_step, step + 1);
         ++op)
      end = std::max(end, spans[op].end);
    ends.push_back(end);
  }
  return ends;
}

}  // namespace

std::vector<StepEnds> simulate_jobs(std::span<const Job> jobs, std::span<const JobStart> starts,
                                    const Control& control) {
  SIM_CHECK(jobs.size() == starts.size() && !jobs.empty(), jobs.size(), starts.size());
  std::vector<JobSystem> systems;
  AllPrograms all;
  std::vector<std::uint32_t> programs;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const Job& job = jobs[j];
    SIM_CHECK(job.options->collectives == CollectiveModel::fluid, "collectives message by message");
    systems.push_back({wire(*job.plan, *job.cluster, *job.options, control), job.cluster});
    Plan plan = plan_of_steps(*job.plan, starts[j]);
    Prepared prepared = prepare(plan, *job.cluster, systems.back().system, *job.options);
    programs.push_back(static_cast<std::uint32_t>(plan.programs.size()));
    append(all, std::move(plan), std::move(prepared));
  }
  System system = fold(joined(systems), control);
  find_own_links(system);
  const std::vector<std::uint32_t> recorded = first_slots(system, programs);
  Executor executor{{.system = system,
                     .programs = all.programs,
                     .indexes = all.prepared.indexes,
                     .index_of = all.prepared.index_of,
                     .lanes = all.prepared.lanes,
                     .jump = false},
                    recorded};
  executor.run(control);
  std::vector<StepEnds> ends;
  std::uint32_t before = 0;  // programs of the jobs before
  for (std::size_t j = 0; j < jobs.size(); before += programs[j++]) {
    const std::uint32_t program = system.slots[recorded[j]].program;
    ends.push_back(
        ends_of(executor.take_spans(j), jobs[j].plan->programs[program - before], starts[j].steps));
  }
  return ends;
}

}  // namespace sim
