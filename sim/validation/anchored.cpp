#include "sim/validation/anchored.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/forecast/anchor.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/report/text_grid.hpp"

namespace sim {
namespace {

using RowsOfJob = std::vector<const RowResult*>;

int gpus_of(const RowResult* row) {
  return row->prediction->traits->gpus;
}

std::map<std::string, RowsOfJob> jobs_of(const SetResult& result) {
  std::map<std::string, RowsOfJob> jobs;
  for (const RowResult& row : result.rows)
    if (row.prediction && row.prediction->traits && row.row.has_time())
      jobs[row.prediction->traits->job].push_back(&row);
  std::erase_if(jobs, [](const auto& entry) {
    std::set<int> scales;
    for (const RowResult* row : entry.second)
      scales.insert(gpus_of(row));
    return scales.size() < 2;
  });
  return jobs;
}

// All but `anchor`; the held-out ones, if there are any.
RowsOfJob counted(const RowsOfJob& rows, const RowResult* anchor) {
  RowsOfJob others;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(others),
               [&](const RowResult* row) { return row != anchor; });
  const auto held_out = [](const RowResult* row) { return row->row.use == RowUse::score; };
  if (std::any_of(others.begin(), others.end(), held_out))
    std::erase_if(others, [&](const RowResult* row) { return !held_out(row); });
  return others;
}

double half_width(const TimeErrors& errors, const JobTraits& traits) {
  return errors.model().multiple * std::sqrt(errors.moments(traits).variance);
}

AnchoredGroup group_of(const MeasuredSet& set, const std::string& job, const RowsOfJob& rows,
                       const TimeErrors& others, const Control& control) {
  const RowResult* const anchor = *std::min_element(
      rows.begin(), rows.end(),
      [](const RowResult* a, const RowResult* b) { return gpus_of(a) < gpus_of(b); });
  std::vector<MeasuredRun> runs;
  runs.push_back({anchor->row.id, row_scenario(set, anchor->row), anchor->row.measured});
  const TimeErrors anchored = others.anchored(anchored_on(runs, others, control));
  AnchoredGroup group;
  group.set = set.name;
  group.job = job;
  group.anchor = anchor->row.id;
  group.anchor_gpus = gpus_of(anchor);
  for (const RowResult* row : counted(rows, anchor)) {
    Scenario scenario = row_scenario(set, row->row);
    set_factors(anchored, scenario);
    const Report report = forecast(scenario, {}, control).report;
    const JobTraits traits = traits_of(scenario.model, scenario.framework.name, scenario.layout,
                                       scenario.cluster, report.shares);
    const double measured = to_seconds(row->row.measured);
    const double off = to_seconds(report.step_time) / measured;
    const TimeInterval interval = anchored.interval(traits);
    ++group.rows;
    if (off * interval.low <= 1 && 1 <= off * interval.high) ++group.held;
    group.most_gpus = std::max(group.most_gpus, traits.gpus);
    group.without.push_back(std::abs(row->error()));
    group.with.push_back(std::abs(off - 1));
    group.half_width_without.push_back(half_width(others, *row->prediction->traits));
    group.half_width_with.push_back(half_width(anchored, traits));
  }
  return group;
}

double median_of(const std::vector<double>& values) {
  return quantile(values, 0.5);
}

GridCell percent(double share) {
  return {fmt::format("{:.1f} %", 100 * share), fmt::format("{:.3f}", 100 * share)};
}

std::vector<GridCell> line(const std::string& set, const std::string& job, const std::string& gpus,
                           const AnchoredGroup& of) {
  return {set,
          job,
          gpus,
          std::to_string(of.rows),
          percent(median_of(of.without)),
          percent(median_of(of.with)),
          percent(median_of(of.half_width_without)),
          percent(median_of(of.half_width_with)),
          percent(static_cast<double>(of.held) / of.rows)};
}

// Every row alike.
AnchoredGroup pooled(std::span<const AnchoredGroup> groups) {
  AnchoredGroup all;
  const auto add = [](std::vector<double>& to, const std::vector<double>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (const AnchoredGroup& group : groups) {
    all.rows += group.rows;
    all.held += group.held;
    add(all.without, group.without);
    add(all.with, group.with);
    add(all.half_width_without, group.half_width_without);
    add(all.half_width_with, group.half_width_with);
  }
  return all;
}

// Every group alike: the medians of its medians.
AnchoredGroup of_groups(std::span<const AnchoredGroup> groups) {
  AnchoredGroup all = pooled(groups);
  all.without.clear();
  all.with.clear();
  for (const AnchoredGroup& group : groups) {
    all.without.push_back(median_of(group.without));
    all.with.push_back(median_of(group.with));
  }
  return all;
}

TextGrid grid_of(std::span<const AnchoredGroup> groups) {
  TextGrid grid{.columns = {{"set", "set"},
                            {"job", "job"},
                            {"GPUs", "gpus"},
                            {"rows", "rows"},
                            {"median error", "median_error_percent"},
                            {"anchored", "anchored_median_error_percent"},
                            {"half width", "half_width_percent"},
                            {"anchored", "anchored_half_width_percent"},
                            {"within", "within_percent"}},
                .rows = {}};
  for (const AnchoredGroup& group : groups)
    grid.rows.push_back(line(group.set, group.job,
                             fmt::format("{} to {}", group.anchor_gpus, group.most_gpus), group));
  if (groups.empty()) return grid;
  grid.rows.push_back(line("all rows", "", "", pooled(groups)));
  grid.rows.push_back(line("median of groups", "", "", of_groups(groups)));
  return grid;
}

}  // namespace

std::vector<AnchoredGroup> anchored_groups(std::span<const SetResult> results,
                                           const TimeErrorFit& fit, const Control& control) {
  const std::vector<ErrorRow> rows = error_rows(results);
  std::vector<AnchoredGroup> groups;
  for (const SetResult& result : results) {
    const std::map<std::string, RowsOfJob> jobs = jobs_of(result);
    if (jobs.empty()) continue;
    const TimeErrors others{without_set(rows, result.set.name, fit.model)};
    for (const auto& [job, of_job] : jobs) {
      throw_if_stopped(control);
      groups.push_back(group_of(result.set, job, of_job, others, control));
    }
  }
  return groups;
}

std::string anchored_groups_table(std::span<const AnchoredGroup> groups) {
  return grid_table(grid_of(groups));
}
std::string anchored_groups_csv(std::span<const AnchoredGroup> groups) {
  return grid_csv(grid_of(groups));
}
std::string anchored_groups_markdown(std::span<const AnchoredGroup> groups) {
  return grid_markdown(grid_of(groups));
}
std::string anchored_groups_json(std::span<const AnchoredGroup> groups) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const AnchoredGroup& group : groups)
    json.push_back({{"set", group.set},
                    {"job", group.job},
                    {"anchor", group.anchor},
                    {"anchor_gpus", group.anchor_gpus},
                    {"most_gpus", group.most_gpus},
                    {"rows", group.rows},
                    {"within", group.held},
                    {"median_error", median_of(group.without)},
                    {"anchored_median_error", median_of(group.with)},
                    {"log_half_width", median_of(group.half_width_without)},
                    {"anchored_log_half_width", median_of(group.half_width_with)}});
  return json.dump(2) + "\n";
}

}  // namespace sim
