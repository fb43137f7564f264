// Layout studies as a test of search: where someone measured many layouts of one job, how high does
// the forecast rank the one that was truly fastest?
//
// A group is the rows of a set that differ in what `stepcast search` chooses (parallel sizes,
// stages, schedule, micro-batch, sharding, sequence parallelism, recomputation) and in nothing
// else: model, GPUs, batch, sequence, precision and attention kernel are the same. Layouts that ran
// out of memory belong to it: a search has to see that they do not fit. Its rows are ranked as a
// search would, by forecast time among those forecast to fit. Ranks are of groups, not of rows: no
// row to score is shown.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/report/memory_error.hpp"
#include "sim/scores/score.hpp"

namespace sim {

inline constexpr std::size_t least_layouts = 5;  // of a group
inline constexpr int favourites = 3;             // that a user would try

struct LayoutGroup {
  std::string set;
  std::string job;                // "LLaMA-13B, 64 GPUs, batch 2048, ..."
  std::vector<std::size_t> rows;  // of the set
};
// Groups of at least `least_layouts` layouts that ran, in the order of their first rows.
std::vector<LayoutGroup> layout_groups(const MeasuredSet& set);

struct GroupRank {
  std::string set, job;
  int layouts = 0, ran = 0;
  // rank: the place of the truly fastest, from 1; nothing: it was forecast not to fit, or not at
  // all.
  std::optional<int> rank;
  // How much slower than the fastest, as measured: the first in our order that ran, and the best of
  // our first three. Nothing: none of those ran.
  std::optional<double> first_behind, favourites_behind;
  bool first_fails = false;  // the first in our order ran out of memory
  // The same among those that leave the memory margin, as a search ranks them; those within it
  // stand beside. Nothing: no margin is known.
  struct WithMargin {
    double margin = 0;  // of what a layout needs
    std::optional<int> rank;
    std::optional<double> first_behind, favourites_behind;
    bool first_fails = false;
  };
  std::optional<WithMargin> with_margin{};
  bool in_favourites() const { return rank && *rank <= favourites; }
};
// `rows` are the predictions of the rows of the group; of those that fit only those that leave
// `margin` of what they need are ranked.
GroupRank rank_of_best(const LayoutGroup& group, std::span<const RowResult> rows,
                       double margin = 0);
// Forecasts the rows of all groups of the set. The margin is that of the rows of other sets.
std::vector<GroupRank> rank_groups(const MeasuredSet& set,
                                   const std::optional<MemoryErrors>& errors);

// short_of() says what falls short of the bound of this set, one sentence each; empty: nothing.
std::vector<std::string> short_of(std::span<const GroupRank> ranks, const ErrorBound& bound);

std::string favourites_table(std::span<const GroupRank> ranks);
std::string favourites_markdown(std::span<const GroupRank> ranks);
std::string favourites_csv(std::span<const GroupRank> ranks);
std::string favourites_json(std::span<const GroupRank> ranks);

}  // namespace sim
