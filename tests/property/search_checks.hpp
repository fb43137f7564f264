// What every search keeps: pruning loses nothing, and no layout takes less than its bounds.
#pragma once

#include <algorithm>
#include <vector>

#include "sim/search/result.hpp"
#include "tests/catch.hpp"

namespace sim::test {

struct Outcome {
  std::vector<Evaluation> best, within, memory, gpus, cost;
  SearchCounts counts;
  bool operator==(const Outcome& other) const {
    return best == other.best && within == other.within && memory == other.memory &&
           gpus == other.gpus && cost == other.cost;
  }
};

inline Outcome outcome_of(SearchSpecification asked, bool prune) {
  asked.prune = prune;
  Search search{std::move(asked)};
  REQUIRE(run_search(search));
  const Ranking& ranking = search.ranking();
  return {ranking.best(),    ranking.within_margin(), ranking.memory_front(),
          ranking.by_gpus(), ranking.cost_front(),    search.counts()};
}

struct MostMemory {
  Bytes device{}, host{};
};

// memory_of() is over all stages: an evaluation looks no further than the first one that needs too
// much.
inline MostMemory memory_of(const SearchSpecification& asked, const Candidates& listed,
                            std::uint32_t index) {
  const Plan plan = make_plan(asked.workload.model, layout_of(asked, listed, index));
  MostMemory most;
  for (const StageMemory& stage : stage_memory(plan, cluster_of(asked, listed, index))) {
    most.device = std::max(most.device, stage.total);
    most.host = std::max(most.host, stage.host.memory);
  }
  return most;
}

// Checks the bounds of every layout of the space; `take` has those that fit.
template <class Take>
void check_bounds(const SearchSpecification& asked, Take take) {
  const Candidates listed = list_candidates(asked);
  const Bounds bounds{asked, listed};
  std::vector<Bound> coarse(listed.all.size());
  for (std::uint32_t i = 0; i < listed.pipelines.size(); ++i)
    bounds.coarse(i, coarse);
  for (std::uint32_t i = 0; i < listed.all.size(); ++i) {
    const Evaluation exact = evaluate(asked, listed, i);
    INFO(describe(layout_of(asked, listed, i)));
    REQUIRE(exact.least_memory <= exact.memory);
    const MostMemory memory = memory_of(asked, listed, i);
    REQUIRE(coarse[i].memory <= memory.device);
    REQUIRE(coarse[i].host <= memory.host);
    if (!exact.fits) continue;
    REQUIRE(coarse[i].step_time <= exact.step_time);
    REQUIRE(bounds.fine(i).step_time <= exact.step_time);
    take(exact);
  }
}

}  // namespace sim::test
