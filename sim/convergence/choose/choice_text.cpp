// The best scheme at each point, as text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/convergence/choose/choose.hpp"
#include "sim/report/numbers.hpp"
#include "sim/report/text_grid.hpp"
#include "sim/sweep/plot.hpp"

namespace sim {
namespace {

double part_of(Duration part, Duration whole) {
  return whole > Duration{} ? in_seconds(part) / in_seconds(whole) : 0;
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::string evidence_text(const Learning& learning) {
  switch (learning.evidence) {
    case Evidence::same:
      return "same sums";
    case Evidence::measured:
      return fmt::format("x{:.2f} +- {:.2f} steps", learning.factor, learning.deviation);
    case Evidence::none:
      break;
  }
  return fmt::format("none: {}", learning.why);
}

// Time to the target beside that of the scenario as it is.
std::string gain_text(const ChoiceAtPoint& point, std::size_t scheme) {
  const SchemeForecast& base = point.schemes.front();
  if (!base.possible()) return "as it is does not fit";
  if (scheme == 0) return "1";
  return fmt::format("x{:.2f}",
                     in_seconds(base.to_target) / in_seconds(point.schemes[scheme].to_target));
}

GridCell name_cell(const Choice& choice, std::optional<std::size_t> scheme) {
  return scheme ? GridCell{choice.candidates[*scheme].name} : GridCell{"none fits"};
}

// A row per point of the grid.
TextGrid best_grid(const Choice& choice) {
  TextGrid grid;
  for (const Axis& axis : choice.axes)
    grid.columns.push_back({axis.key, axis.key});
  for (const GridColumn& column : std::vector<GridColumn>{{"as it is", "base_step_s"},
                                                          {"exposed comm.", "base_exposed_share"},
                                                          {"best", "best"},
                                                          {"its step", "best_step_s"},
                                                          {"faster to the loss", "gain"},
                                                          {"evidence", "evidence"},
                                                          {"fastest of all", "fastest"}})
    grid.columns.push_back(column);
  for (const ChoiceAtPoint& point : choice.points) {
    const SchemeForecast& base = point.schemes.front();
    std::vector<GridCell> row;
    for (const std::string& value : point.values)
      row.emplace_back(value);
    row.emplace_back(base.step.told() ? precise(base.step.step_time) : "-",
                     fmt::format("{}", in_seconds(base.step.step_time)));
    row.emplace_back(percent(part_of(base.step.communication(), base.step.step_time)),
                     fmt::format("{}", part_of(base.step.communication(), base.step.step_time)));
    row.push_back(name_cell(choice, point.best));
    const std::size_t best = point.best.value_or(0);
    const SchemeForecast& chosen = point.schemes[best];
    row.emplace_back(point.best ? precise(chosen.step.step_time) : "",
                     fmt::format("{}", in_seconds(chosen.step.step_time)));
    row.emplace_back(point.best ? gain_text(point, best) : "");
    row.emplace_back(point.best ? evidence_text(choice.learning[best]) : "");
    row.push_back(name_cell(choice, point.fastest));
    grid.rows.push_back(std::move(row));
  }
  return grid;
}

// A row per scheme and point.
TextGrid all_grid(const Choice& choice) {
  TextGrid grid;
  for (const Axis& axis : choice.axes)
    grid.columns.push_back({axis.key, axis.key});
  for (const GridColumn& column : std::vector<GridColumn>{{"scheme", "scheme"},
                                                          {"step time", "step_time_s"},
                                                          {"exposed comm.", "exposed_share"},
                                                          {"steps", "factor"},
                                                          {"evidence", "evidence"},
                                                          {"time to the loss", "to_target_s"},
                                                          {"memory", "memory_bytes"},
                                                          {"why not", "problem"}})
    grid.columns.push_back(column);
  for (const ChoiceAtPoint& point : choice.points) {
    for (std::size_t i = 0; i < point.schemes.size(); ++i) {
      const SchemeForecast& one = point.schemes[i];
      const Learning& learning = choice.learning[i];
      std::vector<GridCell> row;
      for (const std::string& value : point.values)
        row.emplace_back(value);
      row.emplace_back(choice.candidates[i].name);
      const bool told = one.step.told();
      row.emplace_back(told ? precise(one.step.step_time) : "",
                       told ? fmt::format("{}", in_seconds(one.step.step_time)) : "");
      const double exposed = part_of(one.step.communication(), one.step.step_time);
      row.emplace_back(told ? percent(exposed) : "", told ? fmt::format("{}", exposed) : "");
      const bool known = learning.evidence != Evidence::none;
      row.emplace_back(known ? fmt::format("x{:.2f}", learning.factor) : "?",
                       known ? fmt::format("{}", learning.factor) : "");
      row.emplace_back(std::string{word(learning.evidence)});
      row.emplace_back(told && known ? precise(one.to_target) : "",
                       told && known ? fmt::format("{}", in_seconds(one.to_target)) : "");
      row.emplace_back(told ? fmt::format("{:.1f} GiB", one.step.memory.gib()) : "",
                       told ? std::to_string(one.step.memory.count()) : "");
      row.emplace_back(!told ? one.step.problem : one.step.fits() ? "" : "does not fit");
      grid.rows.push_back(std::move(row));
    }
  }
  return grid;
}

// Where the best of neighbours differs, and what the scenario as it is waits for on either side.
std::string changes_text(const Choice& choice) {
  std::string text;
  const std::size_t row = choice.axes.empty() ? 1 : choice.axes.back().values.size();
  for (std::size_t i = 1; i < choice.points.size(); ++i) {
    const ChoiceAtPoint &from = choice.points[i - 1], &to = choice.points[i];
    if (i % row == 0 || from.best == to.best || !from.best || !to.best) continue;
    const auto exposed = [](const ChoiceAtPoint& point) {
      const PointResult& base = point.schemes.front().step;
      return percent(part_of(base.communication(), base.step_time));
    };
    text += fmt::format(
        "from {} to {}: {} becomes {}; as it is, exposed communication goes from {} to {} of the "
        "step\n",
        fmt::join(from.values, ", "), fmt::join(to.values, ", "),
        choice.candidates[*from.best].name, choice.candidates[*to.best].name, exposed(from),
        exposed(to));
  }
  return text;
}

bool nothing_special(const Choice& choice) {
  for (const ChoiceAtPoint& point : choice.points) {
    if (!point.best || !point.schemes.front().possible()) return false;
    const Duration best = point.schemes[*point.best].to_target;
    if (in_seconds(point.schemes.front().to_target) > 1.02 * in_seconds(best)) return false;
  }
  return true;
}

// By reason; and what is not possible anywhere.
std::string without_evidence(const Choice& choice) {
  std::map<std::string, std::vector<std::string>> names;
  for (std::size_t i = 0; i < choice.candidates.size(); ++i) {
    const std::string& name = choice.candidates[i].name;
    const bool never =
        std::none_of(choice.points.begin(), choice.points.end(),
                     [&](const ChoiceAtPoint& point) { return point.schemes[i].possible(); });
    const PointResult& first = choice.points.front().schemes[i].step;
    if (never)
      names["not possible: " + (first.told() ? "does not fit" : first.problem)].push_back(name);
    else if (choice.learning[i].evidence == Evidence::none)
      names["no evidence: " + choice.learning[i].why].push_back(name);
  }
  std::string text;
  for (const auto& [why, of] : names)
    text += fmt::format("{}: {}\n", fmt::join(of, ", "), why);
  return text;
}

std::string notes(const Choice& choice) {
  std::string text = changes_text(choice);
  if (nothing_special(choice))
    text += "do nothing special: nowhere is another scheme with evidence 2 % faster\n";
  text += without_evidence(choice);
  if (choice.measured_on.empty())
    text +=
        "no file of statistical factors is given (--factors): schemes that change what is learned "
        "have no evidence\n";
  for (const std::string& file : choice.measured_on)
    text += fmt::format("steps to {}; a larger model may need other ones\n", file);
  return text;
}

nlohmann::ordered_json json_of(const Choice& choice, const ChoiceAtPoint& point) {
  nlohmann::ordered_json made;
  for (std::size_t i = 0; i < choice.axes.size(); ++i)
    made["at"][choice.axes[i].key] = point.values[i];
  made["best"] = nullptr;
  made["fastest"] = nullptr;
  if (point.best) made["best"] = choice.candidates[*point.best].name;
  if (point.fastest) made["fastest"] = choice.candidates[*point.fastest].name;
  for (std::size_t i = 0; i < point.schemes.size(); ++i) {
    const SchemeForecast& one = point.schemes[i];
    nlohmann::ordered_json scheme{{"name", choice.candidates[i].name}};
    if (one.step.told()) {
      scheme["step_time_s"] = in_seconds(one.step.step_time);
      scheme["exposed_communication_s"] = in_seconds(one.step.communication());
      scheme["memory_bytes"] = one.step.memory.count();
      scheme["fits"] = one.step.fits();
      if (choice.learning[i].evidence != Evidence::none)
        scheme["to_target_s"] = in_seconds(one.to_target);
    } else {
      scheme["problem"] = one.step.problem;
    }
    made["schemes"].push_back(std::move(scheme));
  }
  return made;
}

}  // namespace

std::string choice_table(const Choice& choice) {
  return grid_table(best_grid(choice)) + "\n" + notes(choice);
}

std::string choice_markdown(const Choice& choice) {
  return grid_markdown(best_grid(choice)) + "\n" + notes(choice);
}

std::string choice_csv(const Choice& choice) {
  return grid_csv(all_grid(choice));
}

std::string choice_json(const Choice& choice) {
  nlohmann::ordered_json json;
  json["scenario"] = choice.scenario;
  json["measured_on"] = choice.measured_on;
  for (std::size_t i = 0; i < choice.candidates.size(); ++i) {
    const Learning& learning = choice.learning[i];
    nlohmann::ordered_json scheme{{"name", choice.candidates[i].name},
                                  {"set", choice.candidates[i].set},
                                  {"evidence", word(learning.evidence)}};
    if (learning.evidence == Evidence::none) {
      scheme["why"] = learning.why;
    } else {
      scheme["factor"] = learning.factor;
      scheme["factor_deviation"] = learning.deviation;
    }
    json["schemes"].push_back(std::move(scheme));
  }
  for (const ChoiceAtPoint& point : choice.points)
    json["points"].push_back(json_of(choice, point));
  return json.dump(2) + "\n";
}

// In a cell the best scheme; its colour is how much faster than the scenario as it is.
std::string choice_svg(const Choice& choice) {
  HeatMap map{
      .title = choice.scenario,
      .x_title = choice.axes.empty() ? "" : choice.axes.back().key,
      .y_title = choice.axes.size() < 2 ? "" : choice.axes.front().key,
      .value_title = "times faster to the loss than as it is",
      .x_names = choice.axes.empty() ? std::vector<std::string>{""} : choice.axes.back().values,
      .y_names = choice.axes.size() < 2 ? std::vector<std::string>{""} : choice.axes.front().values,
      .values = {},
      .texts = {}};
  for (const ChoiceAtPoint& point : choice.points) {
    const SchemeForecast& base = point.schemes.front();
    const bool known = point.best && base.possible();
    map.values.push_back(known ? in_seconds(base.to_target) /
                                     in_seconds(point.schemes[*point.best].to_target)
                               : std::numeric_limits<double>::quiet_NaN());
    map.texts.push_back(point.best ? choice.candidates[*point.best].name : "none fits");
  }
  return heat_map_svg(map);
}

}  // namespace sim
