#include "sim/engine/jobs.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/engine/executor.hpp"
#include "sim/engine/fold.hpp"
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

JobsSimulator::JobsSimulator(std::span<const Job> jobs, const Control& control)
    : jobs_{jobs.begin(), jobs.end()} {
  SIM_CHECK(!jobs.empty());
  for (const Job& job : jobs) {
    SIM_CHECK(job.options->collectives == CollectiveModel::fluid, "collectives message by message");
    systems_.push_back({wire(*job.plan, *job.cluster, *job.options, control), job.cluster});
    programs_.push_back(static_cast<std::uint32_t>(job.plan->programs.size()));
  }
  system_ = fold(joined(systems_), control);
  find_own_links(system_);
}

std::vector<StepEnds> JobsSimulator::run(std::span<const JobStart> starts,
                                         const Control& control) const {
  SIM_CHECK(jobs_.size() == starts.size(), jobs_.size(), starts.size());
  AllPrograms all;
  for (std::size_t j = 0; j < jobs_.size(); ++j) {
    Plan plan = plan_of_steps(*jobs_[j].plan, starts[j]);
    Prepared prepared = prepare(plan, *jobs_[j].cluster, systems_[j].system, *jobs_[j].options);
    append(all, std::move(plan), std::move(prepared));
  }
  const std::vector<std::uint32_t> recorded = first_slots(system_, programs_);
  Executor executor{{.system = system_,
                     .programs = all.programs,
                     .indexes = all.prepared.indexes,
                     .index_of = all.prepared.index_of,
                     .lanes = all.prepared.lanes,
                     .jump = false},
                    recorded};
  executor.run(control);
  std::vector<StepEnds> ends;
  std::uint32_t before = 0;  // programs of the jobs before
  for (std::size_t j = 0; j < jobs_.size(); before += programs_[j++]) {
    const std::uint32_t program = system_.slots[recorded[j]].program;
    ends.push_back(ends_of(executor.take_spans(j), jobs_[j].plan->programs[program - before],
                           starts[j].steps));
  }
  return ends;
}

std::vector<StepEnds> simulate_jobs(std::span<const Job> jobs, std::span<const JobStart> starts,
                                    const Control& control) {
  return JobsSimulator{jobs, control}.run(starts, control);
}

}  // namespace sim
