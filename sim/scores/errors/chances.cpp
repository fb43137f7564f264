#include "sim/scores/errors/chances.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/report/text_grid.hpp"
#include "sim/scores/layout_ranking.hpp"

namespace sim {
namespace {

constexpr int bins = 10;

struct Bin {
  int told = 0, came_true = 0;
  double chances = 0;  // their sum
};

std::vector<Bin> bins_of(const ChanceTest& test) {
  std::vector<Bin> made(bins);
  for (const ToldChance& one : test.told) {
    Bin& bin = made[static_cast<std::size_t>(
        std::clamp(static_cast<int>(one.chance * bins), 0, bins - 1))];
    ++bin.told;
    bin.came_true += one.came_true ? 1 : 0;
    bin.chances += one.chance;
  }
  return made;
}

bool is_timed(const RowResult& row) {
  return row.prediction && row.prediction->traits && row.row.has_time() &&
         row.row.outcome == Outcome::ran && row.row.use == RowUse::score;
}

void add_pairs(const SetResult& result, const LayoutGroup& group, const TimeErrors& errors,
               std::vector<ToldChance>& told) {
  std::vector<const RowResult*> rows;
  for (const std::size_t row : group.rows)
    if (is_timed(result.rows[row])) rows.push_back(&result.rows[row]);
  std::stable_sort(rows.begin(), rows.end(), [](const RowResult* a, const RowResult* b) {
    return a->prediction->time < b->prediction->time;
  });
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t k = i + 1; k < rows.size(); ++k)
      told.push_back({errors.chance_faster(*rows[i]->prediction->traits, rows[i]->prediction->time,
                                           *rows[k]->prediction->traits, rows[k]->prediction->time),
                      rows[i]->row.measured < rows[k]->row.measured});
}

void add_fits(const SetResult& result, const MemoryErrors& errors, std::vector<ToldChance>& told) {
  const bool lists_failures =
      std::any_of(result.rows.begin(), result.rows.end(),
                  [](const RowResult& row) { return row.row.outcome == Outcome::out_of_memory; });
  if (!lists_failures) return;
  for (const RowResult& row : result.rows) {
    if (!row.prediction || row.row.use != RowUse::score || row.row.outcome == Outcome::analytic)
      continue;
    const MemoryError& error =
        errors.without(result.set.name, row.prediction->framework, row.prediction->schedule);
    if (error.excess.empty()) continue;
    told.push_back({chance_to_fit(error, row.prediction->room()), row.row.outcome == Outcome::ran});
  }
}

TextGrid grid_of(std::span<const ChanceTest> tests) {
  TextGrid grid{.columns = {{"chance that", "chance_of"},
                            {"told", "told"},
                            {"times", "times"},
                            {"mean chance", "mean_chance_percent"},
                            {"came true", "came_true_percent"}},
                .rows = {}};
  const auto percent = [](double share) {
    return GridCell{fmt::format("{:.0f} %", 100 * share), fmt::format("{:.2f}", 100 * share)};
  };
  for (const ChanceTest& test : tests) {
    const std::vector<Bin> all = bins_of(test);
    for (int i = 0; i < bins; ++i) {
      const Bin& bin = all[static_cast<std::size_t>(i)];
      if (bin.told == 0) continue;
      grid.rows.push_back({test.of, fmt::format("{} to {} %", 100 * i / bins, 100 * (i + 1) / bins),
                           std::to_string(bin.told), percent(bin.chances / bin.told),
                           percent(static_cast<double>(bin.came_true) / bin.told)});
    }
  }
  return grid;
}

}  // namespace

std::vector<ChanceTest> test_chances(std::span<const SetResult> results, const TimeErrorFit& fit,
                                     const MemoryErrors* memory) {
  const std::vector<ErrorRow> rows = error_rows(results);
  ChanceTest faster{.of = "the first is faster", .told = {}}, fits{.of = "it fits", .told = {}};
  for (const SetResult& result : results) {
    const std::vector<LayoutGroup> groups = layout_groups(result.set);
    if (!groups.empty()) {
      const TimeErrors errors{without_set(rows, result.set.name, fit.model)};
      for (const LayoutGroup& group : groups)
        add_pairs(result, group, errors, faster.told);
    }
    if (memory != nullptr) add_fits(result, *memory, fits.told);
  }
  return {std::move(faster), std::move(fits)};
}

std::string chances_table(std::span<const ChanceTest> tests) {
  return grid_table(grid_of(tests));
}
std::string chances_csv(std::span<const ChanceTest> tests) {
  return grid_csv(grid_of(tests));
}
std::string chances_markdown(std::span<const ChanceTest> tests) {
  return grid_markdown(grid_of(tests));
}
std::string chances_json(std::span<const ChanceTest> tests) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ChanceTest& test : tests) {
    const std::vector<Bin> all = bins_of(test);
    for (int i = 0; i < bins; ++i)
      if (const Bin& bin = all[static_cast<std::size_t>(i)]; bin.told > 0)
        json.push_back({{"chance_of", test.of},
                        {"from", static_cast<double>(i) / bins},
                        {"to", static_cast<double>(i + 1) / bins},
                        {"times", bin.told},
                        {"mean_chance", bin.chances / bin.told},
                        {"came_true", static_cast<double>(bin.came_true) / bin.told}});
  }
  return json.dump(2) + "\n";
}

}  // namespace sim
