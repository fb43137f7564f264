#include "sim/scores/errors/unnamed_error_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/check.hpp"
#include "sim/config/data_files.hpp"
#include "sim/config/data_folder.hpp"

namespace sim {
namespace {

// A row, as the model of the other sets has it but for what is not known of its framework.
struct UnnamedOff {
  std::string set, trainer;
  bool held_out = false;
  double off = 0;       // ln(measured / forecast), less the mean that the model has
  double variance = 0;  // of the model
  double multiple = 0;  // that the other sets give
};

struct Normal {
  double mean = 0, deviation = 0;
};

bool is_held(const UnnamedOff& row, const Normal& error) {
  const double half = row.multiple * std::sqrt(row.variance + error.deviation * error.deviation);
  return std::abs(row.off - error.mean) <= half;
}

using OffsByName = std::map<std::string, std::vector<const UnnamedOff*>>;

OffsByName by_trainer(std::span<const UnnamedOff> rows, const std::string& without) {
  OffsByName trainers;
  for (const UnnamedOff& row : rows)
    if (row.trainer != without) trainers[row.trainer].push_back(&row);
  return trainers;
}

// The share of rows within, every trainer alike.
double share_held(const OffsByName& trainers, const Normal& error) {
  double share = 0;
  for (const auto& [trainer, rows] : trainers) {
    const auto held =
        std::ranges::count_if(rows, [&](const UnnamedOff* row) { return is_held(*row, error); });
    share += static_cast<double>(held) / static_cast<double>(rows.size() * trainers.size());
  }
  return share;
}

// The mean of the sets' means.
double mean_of_sets(const std::vector<const UnnamedOff*>& rows) {
  std::map<std::string, std::pair<double, int>> sets;
  for (const UnnamedOff* row : rows) {
    sets[row->set].first += row->off;
    ++sets[row->set].second;
  }
  double sum = 0;
  for (const auto& [set, of] : sets)
    sum += of.first / of.second;
  return sum / static_cast<double>(sets.size());
}

Normal error_without(std::span<const UnnamedOff> rows, const std::string& trainer, double level) {
  const OffsByName trainers = by_trainer(rows, trainer);
  Normal error;
  for (const auto& [name, of] : trainers)
    error.mean += mean_of_sets(of) / static_cast<double>(trainers.size());
  double least = 0, most = 10;
  for (int i = 0; i < 40; ++i) {
    error.deviation = (least + most) / 2;
    (share_held(trainers, error) < level ? least : most) = error.deviation;
  }
  error.deviation = most;
  return error;
}

std::vector<UnnamedOff> offs_of(std::span<const ErrorRow> rows, std::span<const ErrorRow> named,
                                const TimeErrorFit& fit) {
  std::map<std::string, TimeErrors> models;
  std::vector<UnnamedOff> made;
  for (const ErrorRow& row : rows) {
    const auto of_set = std::ranges::find(fit.coverage, row.set, &Coverage::set);
    const bool is_new = of_set == fit.coverage.end();
    if (!models.contains(row.set))
      models.emplace(row.set, is_new ? fit.model : without_set(named, row.set, fit.model));
    const TimeErrors::Moments of = models.at(row.set).moments(row.traits);
    made.push_back({row.set, row.trainer, row.use == RowUse::score, row.log_error - of.mean,
                    of.variance, is_new ? fit.model.multiple : of_set->multiple});
  }
  return made;
}

// Where a set has held-out rows, those count; else all. `errors`: by trainer; "": all others.
Coverage coverage_of_set(const std::string& set, std::span<const UnnamedOff> rows,
                         const std::map<std::string, Normal>& errors) {
  const auto counts = [&](const UnnamedOff& row) { return row.set == set && row.held_out; };
  const bool any_held_out = std::ranges::any_of(rows, counts);
  Coverage made{.set = set};
  std::vector<double> widths;
  for (const UnnamedOff& row : rows) {
    if (row.set != set || row.held_out != any_held_out) continue;
    const auto of_trainer = errors.find(row.trainer);
    const Normal& error = of_trainer == errors.end() ? errors.at("") : of_trainer->second;
    ++made.rows;
    if (is_held(row, error)) ++made.held;
    widths.push_back(row.multiple * std::sqrt(row.variance + error.deviation * error.deviation));
    made.multiple = row.multiple;
  }
  made.median_half_width = quantile(widths, 0.5);
  return made;
}

std::vector<std::string> names_of(std::span<const UnnamedOff> rows) {
  std::vector<std::string> names;
  for (const UnnamedOff& row : rows)
    if (std::ranges::find(names, row.set) == names.end()) names.push_back(row.set);
  return names;
}

std::string coverage_yaml(const std::vector<Coverage>& coverage) {
  std::string text;
  for (const Coverage& of : coverage)
    text += fmt::format("  - {{set: {}, rows: {}, within: {}, half_width: {:.3f}}}\n", of.set,
                        of.rows, of.held, of.median_half_width);
  return text;
}

}  // namespace

UnnamedRows unnamed_rows(std::span<const SetResult> results) {
  UnnamedRows made{.left_out = error_rows(results), .held_out = {}};
  for (ErrorRow& row : made.left_out)
    row.trainer = word(row.traits.framework);
  for (const std::string& path : data_tables("validation/unnamed")) {
    const SetResult table =
        validate(load_unnamed_table(path, data_folder()), PredictOptions{.traits = true});
    for (ErrorRow& row : error_rows(std::span{&table, 1})) {
      row.trainer = row.set;
      (row.use == RowUse::score ? made.held_out : made.left_out).push_back(std::move(row));
    }
  }
  return made;
}

UnnamedErrorFit fit_unnamed_error(const UnnamedRows& rows, std::span<const ErrorRow> named,
                                  const TimeErrorFit& fit) {
  const std::vector<UnnamedOff> left_out = offs_of(rows.left_out, named, fit);
  const std::vector<UnnamedOff> held_out = offs_of(rows.held_out, named, fit);
  const OffsByName trainers = by_trainer(left_out, "");
  SIM_CHECK(trainers.size() >= 3, trainers.size());
  const Normal error = error_without(left_out, "", fit.model.level);
  std::map<std::string, Normal> errors{{"", error}};
  for (const auto& [trainer, of] : trainers)
    errors.emplace(trainer, error_without(left_out, trainer, fit.model.level));
  UnnamedErrorFit made;
  for (const std::string& set : names_of(left_out))
    made.left_out.push_back(coverage_of_set(set, left_out, errors));
  for (const std::string& set : names_of(held_out))
    made.held_out.push_back(coverage_of_set(set, held_out, errors));
  made.error = {.mean = error.mean,
                .deviation = error.deviation,
                .rows = static_cast<int>(left_out.size()),
                .sets = static_cast<int>(made.left_out.size())};
  return made;
}

std::string unnamed_error_file(const UnnamedErrorFit& fit) {
  return unnamed_error_yaml(fit.error) +
         "# Of sets that were left out in turn, then of sets that nothing rests on: rows, how "
         "many\n"
         "# lie within the interval, and the median of half its width.\n"
         "coverage:\n" +
         coverage_yaml(fit.left_out) + coverage_yaml(fit.held_out);
}

std::string unnamed_coverage_table(const UnnamedErrorFit& fit) {
  std::string text = coverage_table(fit.left_out);
  if (!fit.held_out.empty()) text += "\nheld out altogether\n" + coverage_table(fit.held_out);
  return text;
}

}  // namespace sim
