// Why a run takes as long as it does: what a traced run says of itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/explain/collective_table.hpp"
#include "sim/explain/kernel_table.hpp"
#include "sim/explain/step_parts.hpp"
#include "sim/explain/waterfall.hpp"

namespace sim {

// Seconds of a step in the mean over ranks and steps, without first ones. The states sum to `step`.
struct MeanParts {
  double step = 0;
  std::array<double, step_state_count> by_state{};
  double communication = 0;
  std::vector<std::pair<std::string, double>> exposed{};  // by group, longest first
  double operator[](StepState state) const { return by_state[static_cast<std::size_t>(state)]; }
  double exposed_communication() const {
    return (*this)[StepState::transfer] + (*this)[StepState::peer];
  }
  double idle() const;
};

// A rank that others wait for: per step, the time that they wait in sum over them, and what it is
// in for longer than the mean of the others: compute, a copy, or a cause of idling.
struct LateRank {
  RankId rank{};
  double seconds = 0;
  std::size_t ranks = 0;  // that waited for it
  std::optional<StepState> more{};
  double more_seconds = 0;  // of a step
};

// Of the steps that count, over all ranks: each takes as long as its longest rank.
struct StepVariation {
  std::size_t steps = 0;
  Duration median{}, least_tenth{}, most_tenth{};  // p50, p10, p90
};

struct Explanation {
  std::string maker{}, device{};
  bool on_host = false;  // operators of the CPU, no kernels
  int world_size = 0;
  std::vector<RankId> ranks{};
  StepsBy by = StepsBy::whole;
  std::vector<RankStep> steps{};  // all: rank after rank
  MeanParts mean{};
  StepVariation variation{};
  std::size_t first_steps = 0;  // left out of means
  double first_factor = 0;      // the longest of them over the median
  FlopRate peak{};              // of the device in 16 bits; 0: not known
  KernelTables kernels{};
  std::vector<CollectiveRow> collectives{};
  std::vector<LateRank> late{};  // most first
  bool arrivals_told = false;    // waiting for other ranks is told apart from transfer
  std::vector<std::string> notes{};
  std::optional<Waterfall> waterfall{};  // where there is a forecast
};

// Throws InputError for a run without activities of a device. With `forecast`, of the same job with
// the traced ranks, it says why the run is not as fast.
Explanation explain(const TracedRun& run, const Record* forecast = nullptr);

std::string explanation_table(const Explanation& explanation, bool color);
std::string explanation_markdown(const Explanation& explanation);
std::string explanation_csv(const Explanation& explanation);
std::string explanation_json(const Explanation& explanation);

}  // namespace sim
