// Why a run takes as long as it does: what a traced run says of itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/explain/step_parts.hpp"
#include "sim/explain/tables/collective_table.hpp"
#include "sim/explain/tables/kernel_table.hpp"
#include "sim/explain/tables/late_ranks.hpp"
#include "sim/explain/tables/roofline.hpp"
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

// The steps that count, over all ranks: each takes as long as its longest rank.
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
  Roofline roofline{};
  std::vector<CollectiveRow> collectives{};
  std::vector<LateRank> late{};  // most first
  bool arrivals_told = false;    // waiting for other ranks is told apart from transfer
  std::vector<std::string> notes{};
  std::optional<Waterfall> waterfall{};  // where there is a forecast
};

// Throws InputError for a run without activities of a device. With `forecast`, of the same job with
// the traced ranks, it says why the run is not as fast. `device`: that of the roofline, where the
// trace names none that is known.
Explanation explain(const TracedRun& run, const Record* forecast = nullptr,
                    const Device* device = nullptr);

std::string explanation_table(const Explanation& explanation, bool color);
std::string explanation_markdown(const Explanation& explanation);
std::string explanation_csv(const Explanation& explanation);
std::string explanation_json(const Explanation& explanation);

}  // namespace sim
