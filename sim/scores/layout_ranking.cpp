#include "sim/scores/layout_ranking.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace sim {
namespace {

// job_of() is what is given to a search. All other columns are its answer, or what was measured.
std::string job_of(const RunCells& cells) {
  const std::string_view gpu = cells["gpu"];
  std::string job = fmt::format("{}, {} x {}, batch {} x {}, {}", cells["model"], cells["num_gpus"],
                                gpu.substr(0, gpu.find(' ')), cells["gbs"], cells["seq_len"],
                                cells["precision"].substr(0, cells["precision"].find(' ')));
  const std::string_view attention = cells["attn_kernel"];
  if (!attention.empty()) job += fmt::format(", {}", attention);
  return job;
}

// layout_of() is what a search chooses.
std::string layout_of(const RunCells& cells) {
  std::string layout;
  for (const char* column :
       {"tp", "cp", "pp", "vpp", "dp", "ep", "etp", "pp_schedule", "mbs", "zero_stage",
        "shard_strategy", "dist_optimizer", "seq_parallel", "recompute"})
    layout += fmt::format("{}\n", cells[column]);
  return layout;
}

// layouts_that_ran() counts the layouts of the group that ran; one that was measured twice counts
// once.
std::size_t layouts_that_ran(const LayoutGroup& group, const MeasuredSet& set) {
  std::set<std::string> layouts;
  for (const std::size_t row : group.rows)
    if (set.rows[row].has_time()) layouts.insert(layout_of(*set.rows[row].cells));
  return layouts.size();
}

}  // namespace

std::vector<LayoutGroup> layout_groups(const MeasuredSet& set) {
  std::vector<LayoutGroup> groups;
  std::map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < set.rows.size(); ++i) {
    const MeasuredRow& row = set.rows[i];
    if (!row.cells || (!row.has_time() && row.outcome != Outcome::out_of_memory)) continue;
    const std::string job = job_of(*row.cells);
    const auto [place, fresh] = known.try_emplace(job, groups.size());
    if (fresh) groups.push_back({set.name, job, {}});
    groups[place->second].rows.push_back(i);
  }
  std::erase_if(groups, [&](const LayoutGroup& group) {
    return layouts_that_ran(group, set) < least_layouts;
  });
  return groups;
}

GroupRank rank_of_best(const LayoutGroup& group, std::span<const RowResult> rows, double margin) {
  GroupRank made{.set = group.set,
                 .job = group.job,
                 .layouts = static_cast<int>(rows.size()),
                 .ran = 0,
                 .rank = {},
                 .first_behind = {},
                 .favourites_behind = {}};
  const RowResult* best = nullptr;
  std::vector<const RowResult*> order;
  for (const RowResult& row : rows) {
    if (row.row.has_time()) {
      ++made.ran;
      if (!best || row.row.measured < best->row.measured) best = &row;
    }
    if (row.prediction && row.prediction->fits && (margin == 0 || row.prediction->room() >= margin))
      order.push_back(&row);
  }
  if (!best) return made;
  std::stable_sort(order.begin(), order.end(), [](const RowResult* a, const RowResult* b) {
    return a->prediction->time < b->prediction->time;
  });
  made.first_fails = !order.empty() && order.front()->row.outcome == Outcome::out_of_memory;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const RowResult& row = *order[i];
    if (&row == best) made.rank = static_cast<int>(i) + 1;
    if (!row.row.has_time()) continue;
    const double behind = to_seconds(row.row.measured) / to_seconds(best->row.measured) - 1;
    if (!made.first_behind) made.first_behind = behind;
    if (i < favourites)
      made.favourites_behind = std::min(behind, made.favourites_behind.value_or(behind));
  }
  return made;
}

namespace {

// All rows of a group are of one framework. Those without a forecast tell none.
std::optional<double> margin_of(const MeasuredSet& set, std::span<const RowResult> rows,
                                const std::optional<MemoryErrors>& errors) {
  std::optional<double> margin;
  for (const RowResult& row : rows) {
    if (!errors || !row.prediction) continue;
    const MemoryError& error =
        errors->without(set.name, row.prediction->framework, row.prediction->schedule);
    margin = std::max(error.fraction, margin.value_or(0));
  }
  return margin;
}

}  // namespace

std::vector<GroupRank> rank_groups(const MeasuredSet& set,
                                   const std::optional<MemoryErrors>& errors) {
  std::vector<GroupRank> ranks;
  for (const LayoutGroup& group : layout_groups(set)) {
    MeasuredSet part = set;
    part.rows.clear();
    for (const std::size_t row : group.rows)
      part.rows.push_back(set.rows[row]);
    const std::vector<RowResult> rows = validate(part).rows;
    GroupRank& rank = ranks.emplace_back(rank_of_best(group, rows));
    const std::optional<double> margin = margin_of(set, rows, errors);
    if (!margin) continue;
    const GroupRank leaving = rank_of_best(group, rows, *margin);
    rank.with_margin = {.margin = *margin,
                        .rank = leaving.rank,
                        .first_behind = leaving.first_behind,
                        .favourites_behind = leaving.favourites_behind,
                        .first_fails = leaving.first_fails};
  }
  return ranks;
}

std::vector<std::string> short_of(std::span<const GroupRank> ranks, const ErrorBound& bound) {
  int groups = 0, found = 0;
  for (const GroupRank& rank : ranks) {
    if (rank.set != bound.set) continue;
    ++groups;
    if (rank.in_favourites()) ++found;
  }
  std::vector<std::string> problems;
  if (groups < bound.layout_groups)
    problems.push_back(fmt::format("{}: {} groups of layouts, at least {} expected", bound.set,
                                   groups, bound.layout_groups));
  if (found < bound.best_in_favourites)
    problems.push_back(
        fmt::format("{}: the fastest is in our first {} for {} groups, at least {} expected",
                    bound.set, favourites, found, bound.best_in_favourites));
  return problems;
}

}  // namespace sim
