#include "sim/scores/errors/time_error_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/config/data_files.hpp"
#include "sim/config/data_folder.hpp"
#include "sim/scores/score.hpp"
#include "sim/uncertainty/mixed_model.hpp"

namespace sim {
namespace {

constexpr int rounds_of_all = 300;
constexpr int rounds_without_one = 100;

struct Design {
  MixedData data;  // a group of effects per source of error
  std::vector<std::string> categories;
};

// The number of `of`, the next one if it is new.
std::size_t number_of(std::vector<std::string>& names, const std::string& of) {
  const auto found = std::find(names.begin(), names.end(), of);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  names.push_back(of);
  return names.size() - 1;
}

// Rows that have little of a part, and are off for another reason, would make it off by any amount.
// So what the sets say of a part counts half; the other half is that its rate is off as much as
// that of a device without a measured step.
std::vector<VariancePrior> part_priors(double deviation, std::size_t sets) {
  std::vector<VariancePrior> priors(error_source_count);
  for (const ErrorSource part : {ErrorSource::memory_kernels, ErrorSource::host,
                                 ErrorSource::tensor, ErrorSource::data, ErrorSource::pipeline})
    priors[static_cast<std::size_t>(part)] = {static_cast<double>(sets), deviation * deviation};
  return priors;
}

// The effect that a source has on a row is that of its machine; of job and layout it is their own.
std::string owner_of(ErrorSource source, const JobTraits& traits) {
  if (source == ErrorSource::job) return traits.job;
  if (source == ErrorSource::layout) return traits.job + ": " + traits.layout;
  return {};
}

Design design_of(std::span<const ErrorRow> rows, const std::string& without,
                 double deviation_of_parts) {
  Design design;
  design.data.groups = error_source_count;
  std::vector<std::string> sets;
  std::map<std::tuple<std::size_t, std::size_t, std::string>, std::size_t> known;
  const auto effect = [&](std::size_t group, std::size_t block, const std::string& of) {
    const auto [found, is_new] =
        known.emplace(std::tuple{group, block, of}, design.data.effects.size());
    if (is_new) design.data.effects.push_back({group, block});
    return found->second;
  };
  for (const ErrorRow& row : rows) {
    if (row.set == without) continue;
    const std::size_t set = number_of(sets, row.set);
    std::vector<Coefficient>& coefficients = design.data.rows.emplace_back();
    const SourceVector of_row = source_coefficients(row.traits);
    for (const auto& source : words_of(ErrorSource{})) {
      const auto group = static_cast<std::size_t>(source.value);
      coefficients.push_back({effect(group, set, owner_of(source.value, row.traits)),
                              of_row[static_cast<Eigen::Index>(group)]});
    }
    for (const std::string& category : categories_of(row.traits))
      static_cast<void>(number_of(design.categories, category));
    design.data.values.push_back(row.log_error);
  }
  design.data.blocks = sets.size();
  design.data.priors = part_priors(deviation_of_parts, sets.size());
  return design;
}

// The slope of the errors of one layout over its numbers of GPUs, and the variance of that slope by
// the rest of the rows. Nothing where they are of one number.
struct Growth {
  double slope = 0, variance = 0;
};
std::optional<Growth> growth_of(const std::vector<const ErrorRow*>& ladder, double rest_variance) {
  const auto count = static_cast<double>(ladder.size());
  double mean_scale = 0, mean_error = 0, squares = 0, product = 0;
  for (const ErrorRow* row : ladder) {
    mean_scale += scale_coefficient(row->traits.gpus) / count;
    mean_error += row->log_error / count;
  }
  for (const ErrorRow* row : ladder) {
    const double off = scale_coefficient(row->traits.gpus) - mean_scale;
    squares += off * off;
    product += off * (row->log_error - mean_error);
  }
  if (squares < 1e-9) return std::nullopt;
  return Growth{.slope = product / squares, .variance = rest_variance / squares};
}

// TimeErrorModel::growth: of each set the root of the mean square of its ladders' slopes, less what
// the rest of the rows makes of it; the mean over the sets.
double growth_over_ladders(std::span<const ErrorRow> rows, const std::string& without,
                           double rest_variance) {
  std::map<std::string, std::map<std::string, std::vector<const ErrorRow*>>> ladders;
  for (const ErrorRow& row : rows)
    if (row.set != without)
      ladders[row.set][owner_of(ErrorSource::layout, row.traits)].push_back(&row);
  double deviations = 0, sets = 0;
  for (const auto& [set, of_set] : ladders) {
    double sum = 0, count = 0;
    for (const auto& [layout, ladder] : of_set) {
      const std::optional<Growth> growth = growth_of(ladder, rest_variance);
      if (!growth) continue;
      sum += growth->slope * growth->slope - growth->variance;
      ++count;
    }
    if (count == 0) continue;
    deviations += std::sqrt(std::max(0.0, sum / count));
    ++sets;
  }
  return sets == 0 ? 0 : deviations / sets;
}

TimeErrorModel model_of(const Design& design, const MixedFit& fit) {
  TimeErrorModel model;
  for (std::size_t source = 0; source < error_source_count; ++source)
    model.deviation[static_cast<Eigen::Index>(source)] = std::sqrt(fit.variance[source]);
  model.rest = std::sqrt(fit.residual);
  model.categories = design.categories;
  model.rows = static_cast<int>(design.data.values.size());
  model.sets = static_cast<int>(design.data.blocks);
  return model;
}

MixedFit start_of(const TimeErrorModel& model) {
  MixedFit start;
  for (std::size_t source = 0; source < error_source_count; ++source)
    start.variance.push_back(std::pow(model.deviation[static_cast<Eigen::Index>(source)], 2));
  start.residual = model.rest * model.rest;
  return start;
}

// How many deviations a row of a set is off, by the model of the other sets.
struct Off {
  std::size_t set = 0;
  bool held_out = false;
  double deviations = 0;  // without a sign
  double deviation = 0;
};

// The least multiple that holds a share `level` of the rows of all sets but `without`. A row counts
// by 1 / sqrt(rows of its set): between every set alike, as the next job is of another one (Dunn,
// Wasserman & Ramdas 2022, J. Am. Stat. Assoc. 118, 2491-2502), and every row alike.
double multiple_for(std::span<const Off> rows, std::size_t without, double level) {
  std::map<std::size_t, int> count;
  for (const Off& row : rows)
    ++count[row.set];
  std::vector<std::pair<double, double>> weighed;
  double all = 0;
  for (const Off& row : rows) {
    if (row.set == without) continue;
    weighed.emplace_back(row.deviations, 1 / std::sqrt(count[row.set]));
    all += weighed.back().second;
  }
  SIM_CHECK(!weighed.empty(), rows.size());
  std::sort(weighed.begin(), weighed.end());
  double sum = 0;
  for (const auto& [deviations, weight] : weighed) {
    sum += weight;
    if (sum >= level * all) return deviations;
  }
  return weighed.back().first;
}

constexpr std::size_t none_left_out = static_cast<std::size_t>(-1);

Coverage coverage_of(const std::string& set, std::size_t index, std::span<const Off> rows,
                     double level) {
  const bool any_held_out = std::any_of(
      rows.begin(), rows.end(), [&](const Off& row) { return row.set == index && row.held_out; });
  const double multiple = multiple_for(rows, index, level);
  Coverage made{.set = set};
  std::vector<double> widths;
  for (const Off& row : rows) {
    if (row.set != index || row.held_out != any_held_out) continue;
    ++made.rows;
    if (row.deviations <= multiple) ++made.held;
    widths.push_back(multiple * row.deviation);
  }
  made.median_half_width = quantile(widths, 0.5);
  made.multiple = multiple;
  return made;
}

std::vector<std::string> names_of_sets(std::span<const ErrorRow> rows) {
  std::vector<std::string> names;
  for (const ErrorRow& row : rows)
    static_cast<void>(number_of(names, row.set));
  return names;
}

}  // namespace

TimeErrorModel without_set(std::span<const ErrorRow> rows, const std::string& set,
                           const TimeErrorModel& start) {
  const Design design = design_of(rows, set, start.unmeasured);
  const MixedFit from = start_of(start);
  TimeErrorModel model = model_of(design, fit_mixed(design.data, rounds_without_one, &from));
  model.growth = growth_over_ladders(rows, set, model.rest_variance());
  model.unmeasured = start.unmeasured;
  model.unlike = start.unlike;
  model.multiple = start.multiple;
  model.level = start.level;
  return model;
}

TimeErrorFit fit_time_error(std::span<const ErrorRow> rows, const OutsideSpread& outside,
                            double level) {
  const Design design = design_of(rows, "", outside.unmeasured);
  TimeErrorFit made{.model = model_of(design, fit_mixed(design.data, rounds_of_all)),
                    .coverage = {}};
  made.model.level = level;
  made.model.growth = growth_over_ladders(rows, "", made.model.rest_variance());
  made.model.unmeasured = outside.unmeasured;
  made.model.unlike = outside.unlike;
  const std::vector<std::string> sets = names_of_sets(rows);
  std::vector<Off> off;
  for (std::size_t s = 0; s < sets.size(); ++s) {
    const TimeErrors others{without_set(rows, sets[s], made.model)};
    for (const ErrorRow& row : rows) {
      if (row.set != sets[s]) continue;
      const TimeErrors::Moments of = others.moments(row.traits);
      const double deviation = std::sqrt(of.variance);
      off.push_back(
          {s, row.use == RowUse::score, std::abs(row.log_error - of.mean) / deviation, deviation});
    }
  }
  made.model.multiple = multiple_for(off, none_left_out, level);
  for (std::size_t s = 0; s < sets.size(); ++s)
    made.coverage.push_back(coverage_of(sets[s], s, off, level));
  return made;
}

namespace {

// AMD's 16-bit shares are of single products (mamf-finder), of no step.
bool has_step_in_16_bits(const Device& device) {
  const Generation it = device.generation;
  return device.not_validated.empty() && it != Generation::cpu && it != Generation::cdna2 &&
         it != Generation::cdna3 && it != Generation::cdna4;
}

}  // namespace

double spread_of_devices() {
  std::vector<double> shares;
  for (const std::string& name : data_files("topologies/devices")) {
    const Device device = load_device(find_data_file("topologies/devices", name));
    const GemmModel* rate = device.gemm_model(DType::bf16);
    if (!rate || !has_step_in_16_bits(device)) continue;
    shares.push_back(std::log(rate->attained * rate->sustained));
  }
  SIM_CHECK(shares.size() > 1, shares.size());
  double mean = 0, squares = 0;
  for (const double share : shares)
    mean += share / static_cast<double>(shares.size());
  for (const double share : shares)
    squares += (share - mean) * (share - mean);
  return std::sqrt(squares / static_cast<double>(shares.size() - 1));
}

double spread_beyond() {
  std::vector<double> mean_squares;
  for (const std::string& path : data_tables("validation/beyond")) {
    double squares = 0, rows = 0;
    for (const RowResult& row : validate(load_table_set(path, data_folder())).rows) {
      if (!row.prediction || !row.row.has_time()) continue;
      squares += std::pow(std::log1p(row.error()), 2);
      ++rows;
    }
    SIM_CHECK(rows > 0, path);
    mean_squares.push_back(squares / rows);
  }
  SIM_CHECK(!mean_squares.empty(), mean_squares.size());
  return std::sqrt(quantile(mean_squares, 0.5));
}

std::string time_error_file(const TimeErrorFit& fit) {
  std::string text = time_error_yaml(fit.model);
  text +=
      "# With each set left out in turn: its held-out rows (else all), how many of them lie "
      "within\n"
      "# the interval that the other sets give, and the median of half the interval's width.\n"
      "coverage:\n";
  for (const Coverage& of : fit.coverage)
    text += fmt::format("  - {{set: {}, rows: {}, within: {}, half_width: {:.3f}}}\n", of.set,
                        of.rows, of.held, of.median_half_width);
  return text;
}

std::string coverage_table(std::span<const Coverage> coverage) {
  std::string text = fmt::format("{:<24}{:>8}{:>8}{:>9}{:>18}\n", "set left out", "rows", "within",
                                 "share", "median half width");
  int rows = 0, held = 0;
  for (const Coverage& of : coverage) {
    text += fmt::format("{:<24}{:>8}{:>8}{:>8.0f}%{:>17.1f}%\n", of.set, of.rows, of.held,
                        100.0 * of.held / of.rows, 100 * of.median_half_width);
    rows += of.rows;
    held += of.held;
  }
  return text + fmt::format("{:<24}{:>8}{:>8}{:>8.1f}%\n", "all", rows, held,
                            rows > 0 ? 100.0 * held / rows : 0);
}

}  // namespace sim
