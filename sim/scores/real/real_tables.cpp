#include "sim/scores/real/real_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "sim/scores/cell_text.hpp"

namespace sim {
namespace {

double in_ms(Duration time) {
  return to_seconds(time) * 1e3;
}
double in_mib(Bytes bytes) {
  return static_cast<double>(bytes.count()) / (1024.0 * 1024);
}
std::string figure(std::optional<double> value) {
  return value ? fmt::format("{:.3f}", *value) : "-";
}

// "12.3 / 12.9": forecast and measurement.
std::string pair_of(Duration predicted, Duration measured) {
  return fmt::format("{:.1f} / {:.1f}", in_ms(predicted), in_ms(measured));
}
Duration idle(const Breakdown& parts) {
  return parts.bubble + parts.host;
}

struct Column {
  const char* title;
  const char* markdown;  // title where there is room
  std::size_t width;
  std::string (*text)(const RealRow& row);
  bool category = false;                // a part of the step
  bool drift = false;                   // of the reference beside the steps
  Duration Breakdown::*rare = nullptr;  // shown only where a row has some of it
};

// The columns of scored rows; all times in ms.
constexpr std::size_t name_width = 26;
const Column columns[] = {
    {"predicted", "predicted ms", 11,
     [](const RealRow& r) { return fmt::format("{:.2f}", in_ms(r.predicted)); }},
    {"measured", "measured ms", 10,
     [](const RealRow& r) { return fmt::format("{:.2f}", in_ms(r.measured)); }},
    {"error", "error", 8,
     [](const RealRow& r) { return fmt::format("{:+.1f}%", r.step_error() * 100); }},
    {"drift", "drift", 8,
     [](const RealRow& r) {
       return r.drift ? fmt::format("{:+.1f}%", (r.drift->slowdown - 1) * 100) : std::string{"-"};
     },
     false, true},
    {"left", "drift left", 7,
     [](const RealRow& r) {
       return r.drift ? fmt::format("{:.1f}%", r.drift->left * 100) : std::string{"-"};
     },
     false, true},
    {"compute", "compute ms", 16,
     [](const RealRow& r) { return pair_of(r.predicted_parts.compute, r.measured_parts.compute); },
     true},
    {"tensor", "exposed tensor ms", 14,
     [](const RealRow& r) {
       return pair_of(r.predicted_parts.exposed_tensor, r.measured_parts.exposed_tensor);
     },
     true},
    {"context", "exposed context ms", 14,
     [](const RealRow& r) {
       return pair_of(r.predicted_parts.exposed_context, r.measured_parts.exposed_context);
     },
     true, false, &Breakdown::exposed_context},
    {"expert", "exposed expert ms", 14,
     [](const RealRow& r) {
       return pair_of(r.predicted_parts.exposed_expert, r.measured_parts.exposed_expert);
     },
     true, false, &Breakdown::exposed_expert},
    {"data", "exposed data ms", 14,
     [](const RealRow& r) {
       return pair_of(r.predicted_parts.exposed_data, r.measured_parts.exposed_data);
     },
     true},
    {"pipeline", "exposed pipeline ms", 14,
     [](const RealRow& r) {
       return pair_of(r.predicted_parts.exposed_pipeline, r.measured_parts.exposed_pipeline);
     },
     true},
    {"idle", "idle ms", 14,
     [](const RealRow& r) { return pair_of(idle(r.predicted_parts), idle(r.measured_parts)); },
     true},
    {"memory MiB", "memory MiB", 16,
     [](const RealRow& r) {
       return fmt::format("{:.1f} / {:.1f}", in_mib(r.planned_memory), in_mib(r.used_memory));
     }},
    {"same work", "same work", 10,
     [](const RealRow& r) { return std::string{r.difference.empty() ? "yes" : "NO"}; }},
};

std::string heading(const RealResult& result) {
  std::string text =
      fmt::format("{}: {}\n{} backend, {} ranks; {}; {}\n", result.suite.name, result.suite.title,
                  word(result.suite.backend), result.suite.ranks, result.machine, result.date);
  for (const std::string& line : result.calibration)
    text += fmt::format("calibration: {}\n", line);
  return text;
}

// Nothing for a category that cannot be compared.
std::vector<const Column*> shown_columns(const RealResult& result) {
  const bool shared = shared_cores(result).has_value();
  const auto has = [&](Duration Breakdown::*part) {
    return std::ranges::any_of(result.rows, [&](const RealRow& row) {
      return row.predicted_parts.*part > Duration{} || row.measured_parts.*part > Duration{};
    });
  };
  std::vector<const Column*> shown;
  for (const Column& column : columns)
    if ((!shared || !column.category) && (!column.drift || result.score.drift) &&
        (column.rare == nullptr || has(column.rare)))
      shown.push_back(&column);
  return shown;
}

std::string sharing_note(const RealResult& result) {
  const std::optional<int> cores = shared_cores(result);
  if (!cores) return {};
  return fmt::format(
      "{} ranks share {} cores: while one waits another computes, so the step as a whole is "
      "compared, not its parts\n",
      result.suite.ranks, *cores);
}

std::string verdict(const RealResult& result) {
  const RealScore& score = result.score;
  std::string text = fmt::format("{} of {} scenarios measured", score.scored, score.rows);
  if (score.scored == 0) return text + '\n';
  text += fmt::format("; step time: median error {}, worst {} ({}), bias {:+.1f}%\n",
                      percent_text(score.median_step_error), percent_text(score.worst_step_error),
                      score.worst_row, score.bias * 100);
  if (score.drift)
    text += fmt::format(
        "drift of the machine since its calibration: {:+.1f}% (median; {:+.1f}% to {:+.1f}%), "
        "taken "
        "out by the reference; {:.1f}% left (median)\n",
        *score.drift * 100, score.least_drift * 100, score.most_drift * 100,
        *score.drift_left * 100);
  else if (!result.without_drift.empty())
    text += fmt::format("drift of the machine since its calibration: not taken out: {}\n",
                        result.without_drift);
  text += fmt::format("memory: worst error {}; same operators, order and bytes: {} of {}\n",
                      percent_text(score.worst_memory_error), score.same_work, score.scored);
  return text;
}

std::string favourite_text(const FamilyScore& family) {
  return family.favourite == family.best
             ? fmt::format("{} is the true best", family.favourite)
             : fmt::format("{}, {:.1f}% slower than {}", family.favourite,
                           family.favourite_loss * 100, family.best);
}

// Failures and differences, below the rows.
std::string remarks(const RealResult& result, const char* prefix) {
  std::string text;
  for (const RealRow& row : result.rows) {
    if (!row.failed.empty()) text += fmt::format("{}{}: {}\n", prefix, row.name, row.failed);
    if (row.scored() && !row.difference.empty())
      text += fmt::format("{}{}: {}\n", prefix, row.name, row.difference);
  }
  for (const std::string& problem : too_noisy(result.score, result.suite.bounds))
    text += fmt::format("{}no verdict: {}\n", prefix, problem);
  for (const std::string& problem : exceeded(result.score, result.suite.bounds))
    text += fmt::format("{}bound exceeded: {}\n", prefix, problem);
  return text;
}

}  // namespace

std::string real_table(const RealResult& result) {
  const std::vector<const Column*> shown = shown_columns(result);
  std::string text = heading(result) + sharing_note(result);
  text += fmt::format("forecast / measurement; times in ms, mean over ranks\n{:<{}}", "scenario",
                      name_width);
  for (const Column* column : shown)
    text += fmt::format("{:>{}}", column->title, column->width);
  text += '\n';
  for (const RealRow& row : result.rows) {
    text += fmt::format("{:<{}}", row.name, name_width);
    if (!row.scored()) {
      text += "  not measured\n";
      continue;
    }
    for (const Column* column : shown)
      text += fmt::format("{:>{}}", column->text(row), column->width);
    text += '\n';
  }
  text += verdict(result);
  for (const FamilyScore& family : result.score.families)
    text += fmt::format("{}: {} layouts, Spearman {}, Kendall {}; favourite: {}\n", family.family,
                        family.layouts, figure(family.spearman), figure(family.kendall),
                        favourite_text(family));
  return text + remarks(result, "");
}

std::string real_markdown(const RealResult& result) {
  std::string text =
      fmt::format("### {}\n{}\n\n| scenario | layout |", result.suite.name, result.suite.title);
  std::string rule = "|---|---|";
  const std::vector<const Column*> shown = shown_columns(result);
  for (const Column* column : shown) {
    text += fmt::format(" {} |", column->markdown);
    rule += "--:|";
  }
  text += '\n' + rule + '\n';
  for (const RealRow& row : result.rows) {
    text += fmt::format("| {} | {} |", row.name, row.layout);
    for (const Column* column : shown)
      text += fmt::format(" {} |", row.scored() ? column->text(row) : "-");
    text += '\n';
  }
  text += fmt::format("\n{}, {}. ", result.machine, result.date) + verdict(result) +
          sharing_note(result);
  if (!result.score.families.empty())
    text += "\n| family | layouts | Spearman | Kendall | favourite |\n|---|--:|--:|--:|---|\n";
  for (const FamilyScore& family : result.score.families)
    text += fmt::format("| {} | {} | {} | {} | {} |\n", family.family, family.layouts,
                        figure(family.spearman), figure(family.kendall), favourite_text(family));
  const std::string remarked = remarks(result, "- ");
  return remarked.empty() ? text : text + '\n' + remarked;
}

}  // namespace sim
