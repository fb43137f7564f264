// The report of execution traces on a cluster: the step, and where the time of its ranks goes.
#pragma once

#include <string>
#include <vector>

#include "sim/chakra/et_plan.hpp"
#include "sim/engine/simulate.hpp"

namespace sim {

struct EtRankTimes {
  RankId rank{};
  Duration compute{}, exposed{}, waiting{};  // they sum to the step; waiting: nothing runs, or a
                                             // partner has not come
  bool operator==(const EtRankTimes&) const = default;
};

struct EtReport {
  std::string name, cluster;
  Duration step{};
  int world_size = 0;
  std::size_t nodes = 0;
  std::vector<EtRankTimes> ranks{};              // ascending
  std::vector<CollectiveSummary> collectives{};  // the busiest first
  std::vector<std::string> notes{};
};

// REQUIRES: every rank was simulated and has its spans.
EtReport report_of(const EtRun& run, const EtPlan& planned, const Simulation& simulated,
                   const std::string& cluster);

std::string et_table(const EtReport& report);
std::string et_json(const EtReport& report);
std::string et_csv(const EtReport& report);  // a row for each rank
std::string et_markdown(const EtReport& report);

}  // namespace sim
