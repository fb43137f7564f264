#include "sim/scores/tables.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "sim/rows/csv.hpp"
#include "sim/scores/cell_text.hpp"
#include "sim/scores/json_cell.hpp"

namespace sim {
namespace {

using Json = nlohmann::ordered_json;

struct RowText {
  std::string id, use, predicted, measured, error, memory, fits;
};

RowText text_of(const RowResult& result) {
  RowText text{.id = result.row.id,
               .use = std::string{word(result.row.use)},
               .predicted = "-",
               .measured = "-",
               .error = "-",
               .memory = "-",
               .fits = "-"};
  const bool timed = result.row.has_time();
  if (timed) text.measured = fmt::format("{:.4f}", to_seconds(result.row.measured));
  if (result.row.outcome == Outcome::out_of_memory) text.measured = "out of memory";
  if (!result.prediction) return text;
  if (result.prediction->time > Duration{})
    text.predicted = fmt::format("{:.4f}", to_seconds(result.prediction->time));
  if (timed) text.error = fmt::format("{:+.1f}%", result.error() * 100);
  text.memory = fmt::format("{:.1f}", result.prediction->peak_memory.gib());
  text.fits = result.prediction->fits ? "yes" : "no";
  return text;
}

std::string score_line(const SetScore& score) {
  std::string text =
      fmt::format("{} rows, {} scored, {} skipped", score.rows, score.scored, score.skipped);
  if (score.unreadable > 0) text += fmt::format(", {} of them unreadable", score.unreadable);
  if (score.scored > 0) {
    text += fmt::format("; absolute error: average {}, median {}, p90 {}, worst {}",
                        percent_text(score.average_abs_error), percent_text(score.median_abs_error),
                        percent_text(score.p90_abs_error), percent_text(score.worst_abs_error));
    if (score.rank_correlation)
      text += fmt::format("; rank correlation {:.3f}", *score.rank_correlation);
  }
  if (score.memory_scored > 0)
    text += fmt::format("; memory of {}: median error {}, worst {}", score.memory_scored,
                        percent_text(score.median_memory_error),
                        percent_text(score.worst_memory_error));
  if (score.fits_told > 0)
    text +=
        fmt::format("; fits predicted correctly for {} of {}", score.fits_right, score.fits_told);
  return text;
}

Json json_of(const SetResult& result) {
  const SetScore& score = result.score;
  return {{"name", result.set.name},
          {"rows", score.rows},
          {"scored", score.scored},
          {"skipped", score.skipped},
          {"unreadable", score.unreadable},
          {"average_abs_error", number_or_null(score.average_abs_error)},
          {"median_abs_error", number_or_null(score.median_abs_error)},
          {"p90_abs_error", number_or_null(score.p90_abs_error)},
          {"worst_abs_error", number_or_null(score.worst_abs_error)},
          {"rank_correlation", number_or_null(score.rank_correlation)},
          {"fits_right", score.fits_right},
          {"fits_told", score.fits_told},
          {"memory_scored", score.memory_scored},
          {"median_memory_error", number_or_null(score.median_memory_error)},
          {"worst_memory_error", number_or_null(score.worst_memory_error)}};
}

Json json_of(const RowResult& result) {
  const bool timed = result.row.has_time();
  Json row = {{"row_id", result.row.id},
              {"use", word(result.row.use)},
              {"predicted_s", nullptr},
              {"measured_s", timed ? Json(to_seconds(result.row.measured)) : Json(nullptr)},
              {"error", nullptr},
              {"predicted_peak_mem_bytes", nullptr},
              {"fits", nullptr}};
  if (!result.prediction) {
    row["skipped"] = result.skipped;
    return row;
  }
  if (result.prediction->time > Duration{})
    row["predicted_s"] = to_seconds(result.prediction->time);
  if (timed) row["error"] = result.error();
  if (result.row.has_memory()) row["memory_error"] = result.memory_error();
  row["predicted_peak_mem_bytes"] = result.prediction->peak_memory.count();
  row["fits"] = result.prediction->fits;
  if (!result.row.defaults.empty()) row["defaults"] = result.row.defaults;
  if (!result.row.inferred.empty()) row["inferred"] = result.row.inferred;
  if (!result.row.silent.empty()) row["silent"] = result.row.silent;
  return row;
}

// The texts of rows that were forecast, each once, with the number of its rows.
std::string counted_lines(const SetResult& result, std::string_view what,
                          std::vector<std::string> MeasuredRow::*texts) {
  std::map<std::string, int> counts;
  for (const RowResult& row : result.rows)
    if (row.prediction)
      for (const std::string& text : row.row.*texts)
        ++counts[text];
  std::string lines;
  for (const auto& [text, rows] : counts)
    lines += fmt::format("{} of {} row{}: {}\n", what, rows, rows == 1 ? "" : "s", text);
  return lines;
}

// default_lines() counts values that were taken from words, and those that stand for empty cells.
std::string default_lines(const SetResult& result) {
  return counted_lines(result, "from words", &MeasuredRow::inferred) +
         counted_lines(result, "for an empty cell", &MeasuredRow::defaults) +
         counted_lines(result, "sets nothing, in cells", &MeasuredRow::silent);
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
    text += default_lines(result) + score_line(result.score) + '\n';
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
                    score.scored, score.skipped, percent_text(score.average_abs_error),
                    percent_text(score.median_abs_error), percent_text(score.p90_abs_error),
                    percent_text(score.worst_abs_error),
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
    if (const std::string lines = default_lines(result); !lines.empty()) text += '\n' + lines;
  }
  return text;
}

std::string validation_csv(std::span<const SetResult> results) {
  std::string text =
      "set,row_id,use,predicted_s,measured_s,error,predicted_peak_mem_bytes,fits,"
      "memory_error,skipped\n";
  for (const SetResult& result : results) {
    for (const RowResult& row : result.rows) {
      const bool timed = row.row.has_time();
      text += fmt::format("{},{},{},", csv_cell(result.set.name), csv_cell(row.row.id),
                          word(row.row.use));
      if (row.prediction && row.prediction->time > Duration{})
        text += fmt::format("{}", to_seconds(row.prediction->time));
      text += ',';
      if (timed) text += fmt::format("{}", to_seconds(row.row.measured));
      text += ',';
      if (timed && row.prediction) text += fmt::format("{}", row.error());
      text += ',';
      if (row.prediction)
        text += fmt::format("{},{},", row.prediction->peak_memory.count(), row.prediction->fits);
      else
        text += ",,";
      if (row.prediction && row.row.has_memory()) text += fmt::format("{}", row.memory_error());
      text += ',';
      if (!row.prediction) text += csv_cell(row.skipped);
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
