// The ranks that a trace or a picture shows.
#pragma once

#include <string>
#include <vector>

#include "sim/plan/plan.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/timeline/timeline.hpp"

namespace sim {

// "0,8,64-71" as ranks of 0 to world - 1. Throws InputError at `where`.
std::vector<RankId> parse_ranks(const std::string& text, int world, const std::string& where);

// TraceRanks is what --trace-ranks asks for.
struct TraceRanks {
  enum class Kind : std::uint8_t {
    stages,           // one_rank_per_stage()
    representatives,  // one per class of equal ranks
    all,
    listed
  };
  Kind kind = Kind::stages;
  std::vector<RankId> listed{};
  // Whether any rank may be shown: then every one must be simulated, with the same figures.
  bool any_rank() const { return kind == Kind::all || kind == Kind::listed; }
};
// "stages", "representatives", "all", or a list for parse_ranks().
TraceRanks parse_trace_ranks(const std::string& text, int world, const std::string& where);

// one_rank_per_stage() has for every pipeline stage the class that stands for most ranks, and every
// injected straggler: the other classes differ by the place of their nodes in the fabric alone.
std::vector<RankId> one_rank_per_stage(const Scenario& scenario, const Plan& plan,
                                       const Timeline& timeline);

}  // namespace sim
