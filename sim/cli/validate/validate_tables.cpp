// stepcast validate rows|curves|emit: tables of anybody's, and rows as scenarios.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "sim/cli/validate/validate.hpp"
#include "sim/scores/curves.hpp"
#include "sim/scores/published.hpp"
#include "sim/scores/tables.hpp"

namespace sim {
namespace {

struct TableRequest {
  std::string rows;               // a table of runs
  std::string curves, index;      // of collectives
  std::string folder;             // for scenarios of rows
  std::vector<std::string> sets;  // whose rows, where no table is named; none: all
  std::string picture;
  OutputFormat output = OutputFormat::table;
};

void emit(const MeasuredSet& set, const std::string& folder) {
  const EmittedRows emitted = emit_rows(set, folder);
  for (const auto& [row, why] : emitted.left_out)
    print_note(fmt::format("left out: {}: {}", row, why));
  print_note(fmt::format("{}: {} scenarios in {}", set.name, emitted.written, folder));
}

ExitCode show_rows(const TableRequest& request) {
  const std::vector<SetResult> results{validate(load_table_set(request.rows, data_folder()))};
  print_validation(request.output, results, request.picture);
  const SetScore& score = results.front().score;
  if (score.unreadable > 0)
    print_note(fmt::format("stepcast validate: {} of {} rows cannot be read and are left out",
                           score.unreadable, score.rows));
  const bool forecast = score.skipped < score.rows;
  if (!forecast) print_note("stepcast validate: no row could be forecast");
  return score.unreadable > 0 || !forecast ? ExitCode::invalid_input : ExitCode::done;
}

ExitCode show_curves(const TableRequest& request) {
  std::vector<CurveResult> results;
  for (Curve& curve : read_curves(CsvTable::load(request.curves), CsvTable::load(request.index)))
    results.push_back(predict_curve(std::move(curve), data_folder()));
  print_result(
      in_format(request.output, results, curve_table, curve_json, curve_csv, curve_markdown));
  return ExitCode::done;
}

ExitCode emit_scenarios(const TableRequest& request) {
  std::filesystem::create_directories(request.folder);
  if (!request.rows.empty()) {
    emit(load_table_set(request.rows, data_folder()), request.folder);
    return ExitCode::done;
  }
  for (const MeasuredSet& set : load_sets(data_folder() + "/validation", request.sets))
    emit(set, request.folder);
  return ExitCode::done;
}

Command rows_command() {
  const auto request = std::make_shared<TableRequest>();
  return {.name = "rows",
          .help = "a table of your measured runs",
          .options = {{.name = "FILE.csv",
                       .into = &request->rows,
                       .help = "one run per row; validation/ROWS.md has the columns",
                       .required = true},
                      {.name = "--picture",
                       .into = &request->picture,
                       .form = "FILE.svg",
                       .help = "write predicted against measured as a picture (SVG)",
                       .writes = Output::file},
                      output_option(request->output)},
          .footer =
              "Exit code 3: rows cannot be read, or none can be forecast; the others are "
              "scored.\n"
              "Example: stepcast validate rows runs.csv --picture runs.svg",
          .run = [request] { return show_rows(*request); }};
}

Command curves_command() {
  const auto request = std::make_shared<TableRequest>();
  return {.name = "curves",
          .help = "measured curves of collectives",
          .options = {{.name = "CURVES.csv",
                       .into = &request->curves,
                       .help = "the points; validation/CURVES.md has the columns",
                       .required = true},
                      {.name = "INDEX.csv",
                       .into = &request->index,
                       .help = "what each curve was measured on",
                       .required = true},
                      output_option(request->output)},
          .footer =
              "Example: stepcast validate curves validation/curves/curves.csv "
              "validation/curves/index.csv",
          .run = [request] { return show_curves(*request); }};
}

Command emit_command() {
  const auto request = std::make_shared<TableRequest>();
  return {.name = "emit",
          .help = "write rows as scenarios, and simulate nothing",
          .options = {{.name = "DIR",
                       .into = &request->folder,
                       .help = "the folder of ROW_ID.yaml",
                       .required = true},
                      {.name = "--set",
                       .into = &request->sets,
                       .form = "NAME",
                       .help = "only this set (may be repeated)",
                       .repeated = true},
                      {.name = "--rows",
                       .into = &request->rows,
                       .form = "FILE.csv",
                       .help = "a table of runs instead of the sets",
                       .excludes = {"--set"}}},
          .footer = "Example: stepcast validate emit rows/ --set torchtitan",
          .run = [request] { return emit_scenarios(*request); }};
}

}  // namespace

std::vector<Command> table_commands() {
  return {rows_command(), curves_command(), emit_command()};
}

}  // namespace sim
