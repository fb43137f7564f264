// How many GPUs finish a run in time: replicas are added or taken away, and the step is simulated
// anew for each number.
#pragma once

#include <string>
#include <vector>

#include "sim/economics/forecast.hpp"

namespace sim {

// One number of GPUs that was looked at.
struct FinishCandidate {
  int gpus = 0;
  int data_parallel = 0;
  std::int64_t global_batch = 0;
  std::string refused;  // why it cannot run; empty: it can
  BudgetForecast forecast;
  double probability = 0;  // to finish in time, on rented capacity
};

struct FinishAnswer {
  std::vector<FinishCandidate> looked_at;  // ascending GPUs
  int chosen = -1;                         // index into looked_at; -1: none finishes in time
  std::size_t legal = 0;                   // numbers of replicas that the layout allows
  int most_gpus = 0;                       // the largest of them
  std::string why_not;
};

// The fewest GPUs of a legal layout that finish within budget.finish_in with probability
// budget.confidence. More GPUs are taken to be no slower, so numbers are looked at by bisection; a
// number whose memory does not suffice counts as too few. Every number draws the same random
// numbers. REQUIRES: budget.finish_in.
FinishAnswer gpus_to_finish(const Scenario& scenario, const std::vector<std::string>& overrides,
                            const Budget& budget, const Control& control = {});

}  // namespace sim
