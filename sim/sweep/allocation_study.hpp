// The cost of an allocation: against the packed one, over drawn allocations, in other orders of its
// ranks, and under static ECMP. Every figure is a forecast of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/sweep/point.hpp"
#include "sim/sweep/rank_order.hpp"
#include "sim/topology/allocation.hpp"

namespace sim {

struct AllocationQuestion {
  int draws = 0;                                     // allocations to draw, with seeds from 1 on
  AllocationKind kind = AllocationKind::fragmented;  // of the draws
  double occupancy = 0;                              // of the draws
  int swaps = 0;       // pairs of nodes at different leaves that a local search of the order swaps
  int ecmp_seeds = 0;  // hashes of static ECMP to try, with seeds from 1 on
};

// Least to most of several steps; the quantiles are those of the sorted times, rounded down.
struct StepSpread {
  std::vector<Duration> steps;  // by seed
  Duration least{}, p10{}, median{}, p90{}, most{};
};

struct OrderedStep {
  NamedOrder order;
  PointResult step;
};

// A kind of links of the fabric, by what one of them carries.
struct FabricLoad {
  std::string link;  // of the busiest
  std::uint64_t alike = 1;
  Bytes carried{};
  double use = 0;  // of its capacity, over the step
};

struct AllocationStudy {
  std::string path;
  std::vector<std::string> overrides;
  AllocationQuestion question;
  int nodes = 0, machine_nodes = 0, leaves = 0, packed_leaves = 0;
  int gpus_per_node = 0;
  std::string fabric;
  PointResult packed, own;
  std::vector<FabricLoad> loads;        // busiest first, of `own`
  std::vector<OrderedStep> orders;      // fastest first; the local search's among them
  std::vector<std::string> best_nodes;  // names, in the fastest order
  std::optional<StepSpread> drawn;
  // `own` with static ECMP over its seeds, and its limit, traffic spread evenly over all paths.
  std::optional<StepSpread> ecmp;
  std::optional<PointResult> spread;
  int hash_flows = 1;

  const PointResult& best() const { return orders.empty() ? own : orders.front().step; }
};

// The same on any number of threads; `done` hears of each forecast. Throws InputError; Stopped.
AllocationStudy study_allocation(const ScenarioInput& scenario,
                                 const std::vector<std::string>& overrides,
                                 const AllocationQuestion& question,
                                 const std::function<void()>& done = {},
                                 const Control& control = {});

std::string allocation_table(const AllocationStudy& study);
std::string allocation_json(const AllocationStudy& study);
std::string allocation_csv(const AllocationStudy& study);
std::string allocation_markdown(const AllocationStudy& study);

}  // namespace sim
