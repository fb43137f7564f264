#include "sim/scores/errors/anchored.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/forecast/anchor.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/layout/layout_text.hpp"
#include "sim/report/text_grid.hpp"
#include "sim/scenario/read/read_anchor.hpp"

namespace sim {
namespace {

// Runs of one layout but for the number of replicas, of one source.
struct JobRows {
  std::string job, source;
  Layout layout;  // of one replica
  std::vector<const RowResult*> rows;
};

int gpus_of(const RowResult* row) {
  return row->prediction->traits->gpus;
}

Layout of_one_replica(Layout layout) {
  layout.data_parallel = 1;
  layout.global_batch = 0;
  return layout;
}

bool at_one_scale(const JobRows& job) {
  return std::all_of(job.rows.begin(), job.rows.end(), [&](const RowResult* row) {
    return gpus_of(row) == gpus_of(job.rows.front());
  });
}

std::vector<JobRows> jobs_of(const SetResult& result) {
  std::vector<JobRows> jobs;
  for (const RowResult& row : result.rows) {
    if (!row.prediction || !row.prediction->traits || !row.row.has_time()) continue;
    JobRows of{.job = row.prediction->traits->job,
               .source = row.row.cells ? std::string{(*row.row.cells)["source"]} : std::string{},
               .layout = of_one_replica(row_scenario(result.set, row.row).layout),
               .rows = {}};
    const auto same = std::find_if(jobs.begin(), jobs.end(), [&](const JobRows& other) {
      return other.job == of.job && other.source == of.source && other.layout == of.layout;
    });
    if (same != jobs.end()) {
      same->rows.push_back(&row);
    } else {
      of.rows.push_back(&row);
      jobs.push_back(std::move(of));
    }
  }
  std::erase_if(jobs, at_one_scale);
  return jobs;
}

// counted() are those on more GPUs than the anchor; the held-out ones, if there are any.
std::vector<const RowResult*> counted(const std::vector<const RowResult*>& rows, int anchor_gpus) {
  std::vector<const RowResult*> others;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(others),
               [&](const RowResult* row) { return gpus_of(row) > anchor_gpus; });
  const auto held_out = [](const RowResult* row) { return row->row.use == RowUse::score; };
  if (std::any_of(others.begin(), others.end(), held_out))
    std::erase_if(others, [&](const RowResult* row) { return !held_out(row); });
  return others;
}

// The first row of each of the fewest numbers of GPUs.
std::vector<const RowResult*> runs_on_fewest(const JobRows& job, int count) {
  std::map<int, const RowResult*> by_gpus;
  for (const RowResult* row : job.rows)
    by_gpus.emplace(gpus_of(row), row);
  std::vector<const RowResult*> found;
  for (const auto& [gpus, row] : by_gpus)
    if (static_cast<int>(found.size()) < count) found.push_back(row);
  return found;
}

// The mean of measured / forecast over the runs, of their logarithms.
double plain_factor(const std::vector<const RowResult*>& runs) {
  double sum = 0;
  for (const RowResult* row : runs)
    sum -= std::log1p(row->error());
  return std::exp(sum / static_cast<double>(runs.size()));
}

AnchoredGroup group_of(const MeasuredSet& set, const JobRows& job, const TimeErrors& others,
                       const AnchoredStudy& study, const Control& control) {
  const std::vector<const RowResult*> anchors = runs_on_fewest(job, study.runs);
  std::vector<MeasuredRun> runs;
  for (const RowResult* row : anchors)
    runs.push_back({row->row.id, row_scenario(set, row->row, study.without), row->row.measured});
  AnchoredGroup group;
  group.set = set.name;
  group.job = job.job;
  group.layout = layout_text(job.layout, LayoutForm::terms);
  group.anchor = anchors.front()->row.id;
  group.anchor_gpus = gpus_of(anchors.back());
  const std::vector<const RowResult*> rows = counted(job.rows, group.anchor_gpus);
  if (rows.empty() || static_cast<int>(anchors.size()) < study.runs) return group;
  const TimeErrors anchored = others.anchored(anchored_on(runs, others, control));
  const double factor = plain_factor(anchors);
  for (const RowResult* row : rows) {
    Scenario scenario = row_scenario(set, row->row, study.without);
    set_factors(anchored, scenario);
    const Report report = forecast(scenario, {}, control).report;
    const JobTraits traits = traits_of(scenario, report.shares);
    const double measured = to_seconds(row->row.measured);
    const double off = to_seconds(report.step_time) / measured;
    const TimeInterval interval = anchored.interval(traits);
    ++group.rows;
    if (off * interval.low <= 1 && 1 <= off * interval.high) ++group.held;
    group.most_gpus = std::max(group.most_gpus, traits.gpus);
    group.without.push_back(std::abs(row->error()));
    group.with_factor.push_back(std::abs(factor * (1 + row->error()) - 1));
    group.with.push_back(std::abs(off - 1));
    group.half_width_without.push_back(others.half_width(*row->prediction->traits));
    group.half_width_with.push_back(anchored.half_width(traits));
  }
  return group;
}

double median_of(const std::vector<double>& values) {
  return quantile(values, 0.5);
}

GridCell percent_cell(double share) {
  return {fmt::format("{:.1f} %", 100 * share), fmt::format("{:.3f}", 100 * share)};
}

std::vector<GridCell> line(const std::string& name, std::size_t groups, const AnchoredGroup& of) {
  return {name,
          std::to_string(groups),
          std::to_string(of.rows),
          percent_cell(median_of(of.without)),
          percent_cell(median_of(of.with_factor)),
          percent_cell(median_of(of.with)),
          percent_cell(median_of(of.half_width_without)),
          percent_cell(median_of(of.half_width_with)),
          percent_cell(static_cast<double>(of.held) / of.rows)};
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
    add(all.with_factor, group.with_factor);
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
  all.with_factor.clear();
  all.with.clear();
  for (const AnchoredGroup& group : groups) {
    all.without.push_back(median_of(group.without));
    all.with_factor.push_back(median_of(group.with_factor));
    all.with.push_back(median_of(group.with));
  }
  return all;
}

// A line for each set, whose groups follow each other, and two for all.
TextGrid grid_of_sets(std::span<const AnchoredGroup> groups) {
  TextGrid grid{.columns = {{"set", "set"},
                            {"jobs", "jobs"},
                            {"runs", "rows"},
                            {"median error", "median_error_percent"},
                            {"by a factor", "factor_median_error_percent"},
                            {"anchored", "anchored_median_error_percent"},
                            {"half width", "half_width_percent"},
                            {"anchored", "anchored_half_width_percent"},
                            {"within", "within_percent"}},
                .rows = {}};
  for (std::size_t first = 0; first < groups.size();) {
    std::size_t last = first;
    while (last < groups.size() && groups[last].set == groups[first].set)
      ++last;
    grid.rows.push_back(
        line(groups[first].set, last - first, pooled(groups.subspan(first, last - first))));
    first = last;
  }
  if (groups.empty()) return grid;
  grid.rows.push_back(line("all runs", groups.size(), pooled(groups)));
  grid.rows.push_back(line("median of jobs", groups.size(), of_groups(groups)));
  return grid;
}

std::string number(double share) {
  return fmt::format("{:.5f}", share);
}

TextGrid grid_of_jobs(std::span<const AnchoredGroup> groups) {
  TextGrid grid;
  for (const char* key : {"set", "job", "layout", "anchor", "anchor_gpus", "most_gpus", "rows",
                          "within", "median_error", "factor_median_error", "anchored_median_error",
                          "log_half_width", "anchored_log_half_width"})
    grid.columns.push_back({key, key});
  for (const AnchoredGroup& of : groups)
    grid.rows.push_back({of.set, of.job, of.layout, of.anchor, std::to_string(of.anchor_gpus),
                         std::to_string(of.most_gpus), std::to_string(of.rows),
                         std::to_string(of.held), number(median_of(of.without)),
                         number(median_of(of.with_factor)), number(median_of(of.with)),
                         number(median_of(of.half_width_without)),
                         number(median_of(of.half_width_with))});
  return grid;
}

}  // namespace

std::vector<AnchoredGroup> anchored_groups(std::span<const SetResult> results,
                                           const TimeErrorFit& fit, const AnchoredStudy& study,
                                           const Control& control) {
  const std::vector<ErrorRow> rows = error_rows(results);
  std::vector<AnchoredGroup> groups;
  for (const SetResult& result : results) {
    const std::vector<JobRows> jobs = jobs_of(result);
    if (jobs.empty()) continue;
    const TimeErrors others{without_set(rows, result.set.name, fit.model)};
    for (const JobRows& job : jobs) {
      throw_if_stopped(control);
      AnchoredGroup group = group_of(result.set, job, others, study, control);
      if (group.rows > 0) groups.push_back(std::move(group));
    }
  }
  return groups;
}

AnchoredSum sum_of(std::span<const AnchoredGroup> groups) {
  const AnchoredGroup all = pooled(groups);
  return {.median_without = median_of(all.without),
          .median_with = median_of(all.with),
          .within = static_cast<double>(all.held) / all.rows};
}

std::string anchored_groups_table(std::span<const AnchoredGroup> groups) {
  return grid_table(grid_of_sets(groups));
}
std::string anchored_groups_csv(std::span<const AnchoredGroup> groups) {
  return grid_csv(grid_of_jobs(groups));
}
std::string anchored_groups_markdown(std::span<const AnchoredGroup> groups) {
  return grid_markdown(grid_of_sets(groups));
}
std::string anchored_groups_json(std::span<const AnchoredGroup> groups) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const AnchoredGroup& group : groups)
    json.push_back({{"set", group.set},
                    {"job", group.job},
                    {"layout", group.layout},
                    {"anchor", group.anchor},
                    {"anchor_gpus", group.anchor_gpus},
                    {"most_gpus", group.most_gpus},
                    {"rows", group.rows},
                    {"within", group.held},
                    {"median_error", median_of(group.without)},
                    {"factor_median_error", median_of(group.with_factor)},
                    {"anchored_median_error", median_of(group.with)},
                    {"log_half_width", median_of(group.half_width_without)},
                    {"anchored_log_half_width", median_of(group.half_width_with)}});
  return json.dump(2) + "\n";
}

}  // namespace sim
