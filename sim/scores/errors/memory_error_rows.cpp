#include "sim/scores/errors/memory_error_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "sim/base/check.hpp"
#include "sim/report/memory_error.hpp"

namespace sim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double told_quantile = 0.9;
constexpr std::size_t least_rows = 20;  // for a figure of one's own: two rows decide it
constexpr int most_rounds = 5000;
constexpr double settled = 1e-9;

bool can_be(const MemoryExcess& value, double at) {
  return value.is_known() ? at == value.up_to : value.above < at && at <= value.up_to;
}

// The upper ends of the intervals that can hold mass: those with a lower end and no other upper end
// between.
std::vector<double> places_of_mass(std::span<const MemoryExcess> values) {
  std::set<double> uppers;
  for (const MemoryExcess& value : values)
    uppers.insert(value.up_to);
  std::vector<double> places;
  double before = -infinity;
  for (const double upper : uppers) {
    const bool begins = std::any_of(values.begin(), values.end(), [&](const MemoryExcess& value) {
      return value.is_known() ? value.up_to == upper : value.above >= before && value.above < upper;
    });
    if (begins) places.push_back(upper);
    before = upper;
  }
  return places;
}

// Places from `first` up to `end`, without it.
struct PlaceRange {
  std::size_t first = 0, end = 0;
};

// One round of self-consistency: each value spreads over where it can be, in proportion to `mass`.
std::vector<double> spread(std::span<const PlaceRange> possible, const std::vector<double>& mass) {
  std::vector<double> up_to(mass.size() + 1, 0), change(mass.size() + 1, 0);
  std::partial_sum(mass.begin(), mass.end(), up_to.begin() + 1);
  for (const PlaceRange& places : possible) {
    const double sum = up_to[places.end] - up_to[places.first];
    if (sum <= 0) continue;
    change[places.first] += 1 / sum;
    change[places.end] -= 1 / sum;
  }
  std::vector<double> next(mass.size(), 0);
  double factor = 0;
  for (std::size_t place = 0; place < mass.size(); ++place) {
    factor += change[place];
    next[place] = mass[place] * factor / static_cast<double>(possible.size());
  }
  return next;
}

double largest_change(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

std::vector<MemoryExcess> chosen(std::span<const MemoryExcess> values, const std::string& without,
                                 std::optional<FrameworkName> framework,
                                 std::optional<Schedule> schedule) {
  std::vector<MemoryExcess> kept;
  for (const MemoryExcess& value : values)
    if (value.set != without && value.framework == framework.value_or(value.framework) &&
        value.schedule == schedule.value_or(value.schedule))
      kept.push_back(value);
  return kept;
}

// Beyond any bound: ten times the forecast.
std::string excess_text(const std::vector<double>& excess) {
  constexpr double most = 10;
  std::string text;
  for (const double value : excess)
    text += fmt::format("{}{:.4f}", text.empty() ? "" : ", ", std::min(value, most));
  return text;
}

// A line of the file where there are enough rows for it; else nothing.
std::string entry(std::span<const MemoryExcess> values, const std::string& without,
                  std::optional<FrameworkName> framework, std::optional<Schedule> schedule) {
  const std::vector<MemoryExcess> own = chosen(values, without, framework, schedule);
  if (own.size() < least_rows && framework) return {};
  if (own.empty()) return {};
  const double told = quantiles_within(own, {&told_quantile, 1}).front();
  if (!std::isfinite(told)) return {};
  const auto known = std::count_if(own.begin(), own.end(),
                                   [](const MemoryExcess& value) { return value.is_known(); });
  std::string text = "  - {";
  if (!without.empty()) text += fmt::format("without: {}, ", without);
  if (framework) text += fmt::format("framework: {}, ", word(*framework));
  if (schedule) text += fmt::format("schedule: {}, ", word(*schedule));
  // Rounded up, so that what is told is never less than what was found.
  return text + fmt::format("error: {:.4f}, rows: {}, measured: {}, excess: [{}]}}\n",
                            std::max(0.0, std::ceil(told * 1e4 - 1e-6)) / 1e4, own.size(), known,
                            excess_text(quantiles_within(own, excess_shares)));
}

// entries() has one for all values; then one for each framework with rows in `of`, and one for each
// of its schedules.
std::string entries(std::span<const MemoryExcess> values, const std::string& without,
                    std::span<const MemoryExcess> of) {
  std::string text = entry(values, without, {}, {});
  for (const auto& framework : words_of(FrameworkName{})) {
    if (chosen(of, {}, framework.value, {}).empty()) continue;
    text += entry(values, without, framework.value, {});
    const std::size_t all = chosen(values, without, framework.value, {}).size();
    for (const auto& schedule : words_of(Schedule{}))
      if (chosen(values, without, framework.value, schedule.value).size() < all)
        text += entry(values, without, framework.value, schedule.value);
  }
  return text;
}

std::vector<MemoryExcess> of_set(std::span<const MemoryExcess> values, const std::string& set) {
  std::vector<MemoryExcess> kept;
  for (const MemoryExcess& value : values)
    if (value.set == set) kept.push_back(value);
  return kept;
}

}  // namespace

std::vector<MemoryExcess> memory_excesses(std::span<const SetResult> results) {
  std::vector<MemoryExcess> values;
  for (const SetResult& result : results) {
    if (!result.set.in_intervals) continue;
    const bool lists_failures =
        std::any_of(result.rows.begin(), result.rows.end(),
                    [](const RowResult& row) { return row.row.outcome == Outcome::out_of_memory; });
    for (const RowResult& row : result.rows) {
      if (!row.prediction || row.row.outcome == Outcome::analytic) continue;
      MemoryExcess value{.set = result.set.name,
                         .framework = row.prediction->framework,
                         .schedule = row.prediction->schedule};
      const double room = row.prediction->room();
      if (row.prediction->memory_excess) {
        value.above = value.up_to = *row.prediction->memory_excess;
        value.kinds = row.prediction->memory_kinds;
      } else if (!lists_failures) {
        continue;
      } else if (row.row.outcome == Outcome::out_of_memory) {
        value.above = room;
        value.up_to = infinity;
      } else {
        value.above = -infinity;
        value.up_to = room;
      }
      values.push_back(std::move(value));
    }
  }
  return values;
}

std::vector<double> quantiles_within(std::span<const MemoryExcess> values,
                                     std::span<const double> shares) {
  SIM_CHECK(!values.empty(), shares.size());
  const std::vector<double> places = places_of_mass(values);
  std::vector<PlaceRange> possible;
  for (const MemoryExcess& value : values) {
    const auto can = [&](double at) { return can_be(value, at); };
    const auto first = std::ranges::find_if(places, can);
    const auto end = std::find_if_not(first, places.end(), can);
    possible.push_back({static_cast<std::size_t>(first - places.begin()),
                        static_cast<std::size_t>(end - places.begin())});
  }
  std::vector<double> mass(places.size(), 1 / static_cast<double>(places.size()));
  for (int round = 0; round < most_rounds; ++round) {
    std::vector<double> next = spread(possible, mass);
    const bool done = largest_change(mass, next) < settled;
    mass = std::move(next);
    if (done) break;
  }
  constexpr double rounding = 1e-6;
  std::vector<double> found;
  double below = 0;
  for (std::size_t place = 0; place < places.size() && found.size() < shares.size(); ++place) {
    below += mass[place];
    while (found.size() < shares.size() && below >= shares[found.size()] - rounding)
      found.push_back(places[place]);
  }
  found.resize(shares.size(), places.back());
  return found;
}

std::string memory_error_yaml(std::span<const MemoryExcess> values) {
  std::set<std::string> sets, kinds;
  for (const MemoryExcess& value : values) {
    sets.insert(value.set);
    kinds.insert(value.kinds.begin(), value.kinds.end());
  }
  std::string text = fmt::format(
      "# How much more memory than forecast measured runs needed: of the forecast, the {:g}% "
      "quantile\n"
      "# over the rows of validation/published. validation/README.md defines it.\n"
      "source: stepcast validate memory-error > validation/memory-error.yaml\n"
      "errors:\n",
      told_quantile * 100);
  text += entries(values, "", values);
  text += "  # With a set left out, for forecasts of its own rows:\n";
  for (const std::string& set : sets)
    text += entries(values, set, of_set(values, set));
  if (!kinds.empty()) text += "# What of a job a run has whose memory was measured.\nkinds:\n";
  for (const std::string& kind : kinds)
    text += fmt::format("  - {}\n", kind);
  return text;
}

}  // namespace sim
