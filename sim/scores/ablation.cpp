#include "sim/scores/ablation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace sim {
namespace {

using Json = nlohmann::ordered_json;

bool has_rows_to_score(const MeasuredSet& set) {
  return std::any_of(set.rows.begin(), set.rows.end(), [](const MeasuredRow& row) {
    return row.use == RowUse::score && row.has_time();
  });
}

AblationColumn column_without(Mechanism mechanism, std::span<const MeasuredSet* const> sets) {
  AblationColumn column;
  column.without = mechanism;
  std::vector<RowResult> together;
  for (const MeasuredSet* set : sets) {
    SetResult result = validate(*set, {.without = mechanism});
    column.sets.push_back(result.score);
    std::move(result.rows.begin(), result.rows.end(), std::back_inserter(together));
  }
  column.together = score(together);
  return column;
}

std::string bare_percent(std::optional<double> value) {
  return value ? fmt::format("{:.1f}", *value * 100) : "-";
}

// "median / p90 / worst"
std::string errors_of(const SetScore& score) {
  return fmt::format("{} / {} / {}", bare_percent(score.median_abs_error),
                     bare_percent(score.p90_abs_error), bare_percent(score.worst_abs_error));
}

std::string_view heading(const AblationColumn& column) {
  return column.without == Mechanism::none ? "everything" : word(column.without);
}

const SetScore& cell(const AblationColumn& column, std::size_t set) {
  return set < column.sets.size() ? column.sets[set] : column.together;
}

std::string name_of(const Ablation& ablation, std::size_t set) {
  return set < ablation.sets.size() ? ablation.sets[set] : "all";
}

Json json_of(const SetScore& score) {
  const auto or_null = [](std::optional<double> value) { return value ? Json(*value) : Json(); };
  return {{"scored", score.scored},
          {"average_abs_error", or_null(score.average_abs_error)},
          {"median_abs_error", or_null(score.median_abs_error)},
          {"p90_abs_error", or_null(score.p90_abs_error)},
          {"worst_abs_error", or_null(score.worst_abs_error)},
          {"rank_correlation", or_null(score.rank_correlation)}};
}

}  // namespace

Ablation ablate(std::span<const MeasuredSet> sets) {
  Ablation ablation;
  std::vector<const MeasuredSet*> scored;
  for (const MeasuredSet& set : sets) {
    if (!has_rows_to_score(set)) continue;
    scored.push_back(&set);
    ablation.sets.push_back(set.name);
  }
  for (const auto& mechanism : words_of(Mechanism{}))
    ablation.columns.push_back(column_without(mechanism.value, scored));
  return ablation;
}

// A mechanism per line: there are more of them than fit side by side.
std::string ablation_table(const Ablation& ablation) {
  std::string text = "absolute error of scored rows in percent: median / p90 / worst\n";
  for (std::size_t set = 0; set <= ablation.sets.size(); ++set) {
    text += fmt::format("\n{} ({} scored)\n", name_of(ablation, set),
                        cell(ablation.columns.front(), set).scored);
    for (const AblationColumn& column : ablation.columns)
      text += fmt::format("  {:<28}{:>22}\n",
                          column.without == Mechanism::none
                              ? "everything"
                              : fmt::format("without {}", heading(column)),
                          errors_of(cell(column, set)));
  }
  return text;
}

std::string ablation_markdown(const Ablation& ablation) {
  std::string text = "| without |";
  std::string rule = "|---|";
  for (std::size_t set = 0; set <= ablation.sets.size(); ++set) {
    text += fmt::format(" {} |", name_of(ablation, set));
    rule += "--:|";
  }
  text += '\n' + rule + '\n';
  for (const AblationColumn& column : ablation.columns) {
    text += fmt::format("| {} |", column.without == Mechanism::none ? "nothing" : heading(column));
    for (std::size_t set = 0; set <= ablation.sets.size(); ++set)
      text += fmt::format(" {} |", errors_of(cell(column, set)));
    text += '\n';
  }
  return text;
}

std::string ablation_csv(const Ablation& ablation) {
  std::string text =
      "set,without,scored,average_abs_error,median_abs_error,p90_abs_error,worst_abs_error\n";
  const auto number = [](std::optional<double> value) {
    return value ? fmt::format("{}", *value) : std::string{};
  };
  for (std::size_t set = 0; set <= ablation.sets.size(); ++set) {
    for (const AblationColumn& column : ablation.columns) {
      const SetScore& score = cell(column, set);
      text +=
          fmt::format("{},{},{},{},{},{},{}\n", name_of(ablation, set), word(column.without),
                      score.scored, number(score.average_abs_error), number(score.median_abs_error),
                      number(score.p90_abs_error), number(score.worst_abs_error));
    }
  }
  return text;
}

std::string ablation_json(const Ablation& ablation) {
  Json columns = Json::array();
  for (const AblationColumn& column : ablation.columns) {
    Json sets = Json::object();
    for (std::size_t set = 0; set < ablation.sets.size(); ++set)
      sets[ablation.sets[set]] = json_of(column.sets[set]);
    columns.push_back(
        {{"without", word(column.without)}, {"sets", sets}, {"all", json_of(column.together)}});
  }
  return Json{{"ablation", std::move(columns)}}.dump(2) + "\n";
}

}  // namespace sim
