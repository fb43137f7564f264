// Several jobs at once on one fabric: each has nodes of its own, and all share the links between
// switches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/control.hpp"
#include "sim/engine/joined.hpp"
#include "sim/engine/simulate.hpp"

namespace sim {

// `cluster` has the job's nodes alone, on the fabric of all.
struct Job {
  const Plan* plan = nullptr;
  const Cluster* cluster = nullptr;
  const SimulationOptions* options = nullptr;
};

// JobStart says when a job begins, and how many steps it takes.
struct JobStart {
  Duration delay{};
  int steps = 1;
};

// The ends of all steps of a job, as one of its ranks sees them.
using StepEnds = std::vector<TimePoint>;

// JobsSimulator runs the same jobs beside each other from several starts: they are wired and folded
// once. Ranks that behave identically are simulated once, as simulate() does.
class JobsSimulator {
 public:
  // The plans, clusters and options must outlive it. REQUIRES: fluid collectives; the clusters are
  // of one file, with disjoint nodes. Throws as simulate() does.
  explicit JobsSimulator(std::span<const Job> jobs, const Control& control = {});

  // Each job takes its start's number of steps. Throws as simulate() does.
  std::vector<StepEnds> run(std::span<const JobStart> starts, const Control& control = {}) const;

 private:
  std::vector<Job> jobs_;
  std::vector<JobSystem> systems_;
  std::vector<std::uint32_t> programs_;  // how many each job has
  System system_;                        // of all, folded
};

// The same from one start.
std::vector<StepEnds> simulate_jobs(std::span<const Job> jobs, std::span<const JobStart> starts,
                                    const Control& control = {});

}  // namespace sim
