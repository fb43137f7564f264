#include "sim/validation/tables.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace sim {
namespace {

using Json = nlohmann::ordered_json;

std::string percent(std::optional<double> value) {
  return value ? fmt::format("{:.1f}%", *value * 100) : "-";
}

struct RowText {
  std::string id, use, predicted, measured, error, memory, fits;
};

RowText text_of(const RowResult& result) {
  RowText text{.id = result.row.id,
               .use = std::string{word(result.row.use)},
               .predicted = "-",
               .measured = "out of memory",
               .error = "-",
               .memory = "-",
               .fits = "-"};
  const bool ran = result.row.outcome == Outcome::ran;
  if (ran) text.measured = fmt::format("{:.4f}", to_seconds(result.row.measured));
  if (!result.prediction) return text;
  text.predicted = fmt::format("{:.4f}", to_seconds(result.prediction->time));
  if (ran) text.error = fmt::format("{:+.1f}%", result.error() * 100);
  text.memory = fmt::format("{:.1f}", result.prediction->peak_memory.gib());
  text.fits = result.prediction->fits ? "yes" : "no";
  return text;
}

std::string score_line(const SetScore& score) {
  std::string text =
      fmt::format("{} rows, {} scored, {} skipped", score.rows, score.scored, score.skipped);
  if (score.scored > 0) {
    text += fmt::format("; absolute error: average {}, median {}, p90 {}, worst {}",
                        percent(score.average_abs_error), percent(score.median_abs_error),
                        percent(score.p90_abs_error), percent(score.worst_abs_error));
    if (score.rank_correlation)
      text += fmt::format("; rank correlation {:.3f}", *score.rank_correlation);
  }
  text += fmt::format("; memory told rightly for {} of {}", score.fits_right,
                      score.rows - score.skipped);
  return text;
}

Json number_or_null(std::optional<double> value) {
  return value ? Json(*value) : Json(nullptr);
}

Json json_of(const SetResult& result) {
  const SetScore& score = result.score;
  return {{"name", result.set.name},
          {"rows", score.rows},
          {"scored", score.scored},
          {"skipped", score.skipped},
          {"average_abs_error", number_or_null(score.average_abs_error)},
          {"median_abs_error", number_or_null(score.median_abs_error)},
          {"p90_abs_error", number_or_null(score.p90_abs_error)},
          {"worst_abs_error", number_or_null(score.worst_abs_error)},
          {"rank_correlation", number_or_null(score.rank_correlation)},
          {"fits_right", score.fits_right}};
}

Json json_of(const RowResult& result) {
  const bool ran = result.row.outcome == Outcome::ran;
  Json row = {{"row_id", result.row.id},
              {"use", word(result.row.use)},
              {"predicted_s", nullptr},
              {"measured_s", ran ? Json(to_seconds(result.row.measured)) : Json(nullptr)},
              {"error", nullptr},
              {"predicted_peak_mem_bytes", nullptr},
              {"fits", nullptr}};
  if (!result.prediction) {
    row["skipped"] = result.skipped;
    return row;
  }
  row["predicted_s"] = to_seconds(result.prediction->time);
  if (ran) row["error"] = result.error();
  row["predicted_peak_mem_bytes"] = result.prediction->peak_memory.count();
  row["fits"] = result.prediction->fits;
  return row;
}

std::string csv_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

std::string validation_table(std::span<const SetResult> results) {
  std::string text;
  for (const SetResult& result : results) {
    if (!text.empty()) text += '\n';
    text += fmt::format("{}: {}\n{}\n", result.set.name, result.set.title, result.set.source);
    text += fmt::format("{:<30}{:>6}{:>14}{:>15}{:>9}{:>12}{:>6}\n", "row", "use", "predicted s",
                        "measured s", "error", "memory GiB", "fits");
    for (const RowResult& row : result.rows) {
      const RowText cells = text_of(row);
      text += fmt::format("{:<30}{:>6}{:>14}{:>15}{:>9}{:>12}{:>6}\n", cells.id, cells.use,
                          cells.predicted, cells.measured, cells.error, cells.memory, cells.fits);
      if (!row.prediction) text += fmt::format("  skipped: {}\n", row.skipped);
    }
    text += score_line(result.score) + '\n';
  }
  return text;
}

std::string validation_markdown(std::span<const SetResult> results) {
  std::string text =
      "| set | rows | scored | skipped | average | median | p90 | worst | rank correlation |\n"
      "|---|--:|--:|--:|--:|--:|--:|--:|--:|\n";
  for (const SetResult& result : results) {
    const SetScore& score = result.score;
    text +=
        fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", result.set.name, score.rows,
                    score.scored, score.skipped, percent(score.average_abs_error),
                    percent(score.median_abs_error), percent(score.p90_abs_error),
                    percent(score.worst_abs_error),
                    score.rank_correlation ? fmt::format("{:.3f}", *score.rank_correlation) : "-");
  }
  for (const SetResult& result : results) {
    text +=
        fmt::format("\n### {}\n{}. {}\n\n", result.set.name, result.set.title, result.set.source);
    text += "| row | use | predicted s | measured s | error | memory GiB | fits |\n";
    text += "|---|---|--:|--:|--:|--:|---|\n";
    for (const RowResult& row : result.rows) {
      const RowText cells = text_of(row);
      text += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", cells.id, cells.use,
                          row.prediction ? cells.predicted : "skipped: " + row.skipped,
                          cells.measured, cells.error, cells.memory, cells.fits);
    }
  }
  return text;
}

std::string validation_csv(std::span<const SetResult> results) {
  std::string text =
      "set,row_id,use,predicted_s,measured_s,error,predicted_peak_mem_bytes,fits,"
      "skipped\n";
  for (const SetResult& result : results) {
    for (const RowResult& row : result.rows) {
      const bool ran = row.row.outcome == Outcome::ran;
      text += fmt::format("{},{},{},", result.set.name, row.row.id, word(row.row.use));
      if (row.prediction) text += fmt::format("{}", to_seconds(row.prediction->time));
      text += ',';
      if (ran) text += fmt::format("{}", to_seconds(row.row.measured));
      text += ',';
      if (ran && row.prediction) text += fmt::format("{}", row.error());
      text += ',';
      if (row.prediction)
        text += fmt::format("{},{},", row.prediction->peak_memory.count(), row.prediction->fits);
      else
        text += ",," + csv_quoted(row.skipped);
      text += '\n';
    }
  }
  return text;
}

std::string validation_json(std::span<const SetResult> results) {
  Json sets = Json::array();
  Json rows = Json::array();
  for (const SetResult& result : results) {
    sets.push_back(json_of(result));
    for (const RowResult& row : result.rows)
      rows.push_back(json_of(row));
  }
  return Json{{"sets", std::move(sets)}, {"rows", std::move(rows)}}.dump(2) + "\n";
}

}  // namespace sim
