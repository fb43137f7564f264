// The shipped sets of measured runs: which of them, their forecasts, and whether the errors keep
// within what validation/bounds.yaml records.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sim/rows/measured.hpp"
#include "sim/scores/errors/anchored.hpp"
#include "sim/scores/errors/unnamed_error_fit.hpp"
#include "sim/scores/layout_ranking.hpp"
#include "sim/scores/other_simulators.hpp"
#include "sim/scores/score.hpp"

namespace sim {

// `folder` below is the shipped folder `validation`. `names`: names of sets; none: all.

// The sets, in the order of their names. Throws InputError for one that there is not.
std::vector<MeasuredSet> load_sets(const std::string& folder,
                                   const std::vector<std::string>& names);

// Forecasts every row of the sets; `begin` is told the name of each before its turn.
std::vector<SetResult> validate_sets(std::span<const MeasuredSet> sets,
                                     const std::function<void(const std::string& set)>& begin = {},
                                     const PredictOptions& options = {});

// beyond_bounds() says what exceeds the bounds, one sentence each; empty: nothing. A set with a
// held-out row that has no bound throws InputError.
std::vector<std::string> beyond_bounds(std::span<const SetResult> results,
                                       const std::string& folder);
// The same of the ranking of layouts. `some`: only some of the sets were ranked.
std::vector<std::string> beyond_bounds(std::span<const GroupRank> ranks, const std::string& folder,
                                       bool some);

// The same of the intervals of sets that were left out, and of anchored jobs.
std::vector<std::string> beyond_bounds(std::span<const Coverage> coverage,
                                       const std::string& folder);
// The same of frameworks that are not named: of sets left out and of those held out.
std::vector<std::string> beyond_bounds(const UnnamedErrorFit& fit, const std::string& folder);
std::vector<std::string> beyond_bounds(std::span<const AnchoredGroup> groups,
                                       const std::string& folder);

// Whether `folder`/memory-error.yaml is what these rows say. REQUIRES: the results of all sets.
bool has_memory_error_of(const std::string& folder, std::span<const SetResult> results);
// The same of `folder`/time-error.yaml.
bool has_time_error_of(const std::string& folder, const TimeErrorFit& fit);
// The same of `folder`/unnamed-error.yaml.
bool has_unnamed_error_of(const std::string& folder, const UnnamedErrorFit& fit);
// REQUIRES: the results of all sets, with traits.
TimeErrorFit time_error_of(std::span<const SetResult> results);

// Other simulators on the rows of `folder`/peers.yaml, beside this one.
std::vector<PeerResult> compare_with_peers(const std::string& folder);

// Rows as scenario files.
struct EmittedRows {
  int written = 0;
  struct LeftOut {
    std::string row, why;
  };
  std::vector<LeftOut> left_out;
};
// Writes `folder`/ROW_ID.yaml for every row that can be simulated.
EmittedRows emit_rows(const MeasuredSet& set, const std::string& folder);

}  // namespace sim
