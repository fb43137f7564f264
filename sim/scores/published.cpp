#include "sim/scores/published.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "sim/base/complete_file.hpp"
#include "sim/base/input_error.hpp"
#include "sim/base/near_names.hpp"
#include "sim/scores/errors/memory_error_rows.hpp"
#include "sim/scores/errors/time_error_fit.hpp"
#include "sim/scores/predict.hpp"
#include "sim/scores/row_yaml.hpp"

namespace sim {
namespace {

bool among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> chosen_names(const std::string& published,
                                      const std::vector<std::string>& names) {
  std::vector<std::string> known = measured_sets(published);
  for (const std::string& name : names)
    if (!among(known, name))
      throw InputError{SourcePosition{published, 0, 0},
                       fmt::format("there is no set '{}'; {}", name,
                                   choices_text(name, {known.begin(), known.end()}))};
  if (!names.empty()) std::erase_if(known, [&](const auto& name) { return !among(names, name); });
  return known;
}

bool is_held_out(const RowResult& row) {
  return row.row.use == RowUse::score;
}

void require_no_held_out(const SetResult& result, const std::string& bounds_path) {
  if (std::any_of(result.rows.begin(), result.rows.end(), is_held_out))
    throw InputError{SourcePosition{bounds_path, 0, 0},
                     fmt::format("has no bound for the set {}", result.set.name)};
}

bool holds(const std::string& path, const std::string& text) {
  std::ifstream file{path};
  return std::string{std::istreambuf_iterator<char>{file}, {}} == text;
}

// Why a row is no scenario file; empty: it has been written.
std::string refused(const MeasuredSet& set, const MeasuredRow& row, const std::string& folder) {
  if (!row.unreadable.empty()) return row.unreadable;
  if (!names_a_file(row.id))
    return "the row_id is no name of a file: letters, digits, '-', '_' and '.' are";
  try {
    const std::string text = row_yaml(set, row, folder);
    write_complete_file(fmt::format("{}/{}.yaml", folder, row.id),
                        [&](std::ostream& out) { out << text; });
    return {};
  } catch (const std::runtime_error& error) {
    return reason_in_a_line(error);
  }
}

}  // namespace

std::vector<MeasuredSet> load_sets(const std::string& folder,
                                   const std::vector<std::string>& names) {
  const std::string published = folder + "/published";
  std::vector<MeasuredSet> sets;
  for (const std::string& name : chosen_names(published, names))
    sets.push_back(load_measured_set(fmt::format("{}/{}/measured.yaml", published, name)));
  return sets;
}

std::vector<SetResult> validate_sets(std::span<const MeasuredSet> sets,
                                     const std::function<void(const std::string& set)>& begin,
                                     const PredictOptions& options) {
  std::vector<SetResult> results;
  results.reserve(sets.size());
  for (const MeasuredSet& set : sets) {
    if (begin) begin(set.name);
    results.push_back(validate(set, options));
  }
  return results;
}

std::vector<std::string> beyond_bounds(std::span<const SetResult> results,
                                       const std::string& folder) {
  const std::string path = folder + "/bounds.yaml";
  const std::vector<ErrorBound> bounds = load_bounds(path);
  std::vector<std::string> beyond;
  for (const SetResult& result : results) {
    const auto bound = std::find_if(bounds.begin(), bounds.end(), [&](const ErrorBound& one) {
      return one.set == result.set.name;
    });
    if (bound == bounds.end()) {
      require_no_held_out(result, path);
      continue;
    }
    const std::vector<std::string> of_set = exceeded(result.score, *bound);
    beyond.insert(beyond.end(), of_set.begin(), of_set.end());
  }
  return beyond;
}

std::vector<std::string> beyond_bounds(std::span<const GroupRank> ranks, const std::string& folder,
                                       bool some) {
  std::vector<std::string> beyond;
  for (const ErrorBound& bound : load_bounds(folder + "/bounds.yaml")) {
    const auto of_set = [&](const GroupRank& rank) { return rank.set == bound.set; };
    if (some && std::none_of(ranks.begin(), ranks.end(), of_set)) continue;
    const std::vector<std::string> short_ones = short_of(ranks, bound);
    beyond.insert(beyond.end(), short_ones.begin(), short_ones.end());
  }
  return beyond;
}

std::vector<std::string> beyond_bounds(std::span<const Coverage> coverage,
                                       const std::string& folder) {
  const IntervalBounds bounds = load_interval_bounds(folder + "/bounds.yaml");
  std::vector<std::string> beyond;
  int rows = 0, held = 0;
  const auto check = [&](const std::string& of, int of_rows, int within, double least) {
    if (within < least * of_rows)
      beyond.push_back(fmt::format("{}: {} of {} rows are within their intervals, at least {:g}%",
                                   of, within, of_rows, 100 * least));
  };
  for (const Coverage& of : coverage) {
    check(of.set, of.rows, of.held, bounds.covered_of_set);
    rows += of.rows;
    held += of.held;
  }
  check("all sets", rows, held, bounds.covered);
  return beyond;
}

std::vector<std::string> beyond_bounds(const UnnamedErrorFit& fit, const std::string& folder) {
  const IntervalBounds bounds = load_interval_bounds(folder + "/bounds.yaml");
  std::vector<std::string> beyond;
  for (const std::vector<Coverage>* coverage : {&fit.left_out, &fit.held_out}) {
    int rows = 0, held = 0;
    for (const Coverage& of : *coverage) {
      rows += of.rows;
      held += of.held;
    }
    if (held < bounds.unnamed_least * rows || held > bounds.unnamed_most * rows)
      beyond.push_back(fmt::format(
          "frameworks not named, sets {}: {} of {} rows are within their intervals; allowed: {:g} "
          "to {:g}%",
          coverage == &fit.left_out ? "left out" : "held out", held, rows,
          100 * bounds.unnamed_least, 100 * bounds.unnamed_most));
  }
  return beyond;
}

std::vector<std::string> beyond_bounds(std::span<const AnchoredGroup> groups,
                                       const std::string& folder) {
  const IntervalBounds bounds = load_interval_bounds(folder + "/bounds.yaml");
  const AnchoredSum sum = sum_of(groups);
  std::vector<std::string> beyond;
  if (sum.median_with > bounds.anchored_error * sum.median_without)
    beyond.push_back(fmt::format("the median error of anchored runs is {:.2f}%, without {:.2f}%",
                                 100 * sum.median_with, 100 * sum.median_without));
  if (sum.within < bounds.anchored_within)
    beyond.push_back(
        fmt::format("{:.1f}% of anchored runs are within their intervals, at least "
                    "{:g}%",
                    100 * sum.within, 100 * bounds.anchored_within));
  return beyond;
}

bool has_memory_error_of(const std::string& folder, std::span<const SetResult> results) {
  return holds(folder + "/memory-error.yaml", memory_error_yaml(memory_excesses(results)));
}

TimeErrorFit time_error_of(std::span<const SetResult> results) {
  return fit_time_error(error_rows(results),
                        {.unmeasured = spread_of_devices(), .unlike = spread_beyond()});
}

bool has_time_error_of(const std::string& folder, const TimeErrorFit& fit) {
  return holds(folder + "/time-error.yaml", time_error_file(fit));
}

bool has_unnamed_error_of(const std::string& folder, const UnnamedErrorFit& fit) {
  return holds(folder + "/unnamed-error.yaml", unnamed_error_file(fit));
}

// Runs each set that a peer was compared on once.
std::vector<PeerResult> compare_with_peers(const std::string& folder) {
  std::vector<SetResult> results;
  std::vector<PeerResult> beside;
  for (PeerFigures& peer : load_peers(folder + "/peers.yaml")) {
    const auto same = [&](const SetResult& result) { return result.set.name == peer.set; };
    if (!peer.set.empty() && std::none_of(results.begin(), results.end(), same))
      results.push_back(validate(load_sets(folder, {peer.set}).front()));
    OwnScore own = score_beside(peer, results);
    beside.push_back({.peer = std::move(peer), .own = own});
  }
  return beside;
}

EmittedRows emit_rows(const MeasuredSet& set, const std::string& folder) {
  EmittedRows emitted;
  for (const MeasuredRow& row : set.rows) {
    std::string why = refused(set, row, folder);
    if (why.empty())
      ++emitted.written;
    else
      emitted.left_out.push_back({row.id, std::move(why)});
  }
  return emitted;
}

}  // namespace sim
