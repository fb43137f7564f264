// stepcast validate mlperf: a round of MLPerf Training, forecast before its logs are opened.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "sim/cli/validate/validate.hpp"
#include "sim/config/input_log.hpp"
#include "sim/scores/mlperf/round_predictions.hpp"

namespace sim {
namespace {

struct RoundRequest {
  std::string folder, predictions;
  std::vector<std::string> submitters;  // none: all
  OutputFormat output = OutputFormat::table;
};

// The file as it is, if there is one; it is never written twice.
RoundPredictions predictions_of(const RoundRequest& request) {
  if (std::filesystem::exists(request.predictions)) {
    if (!request.submitters.empty())
      throw InputError{{request.predictions, 0, 0},
                       "exists and is scored as it is; without --submitter, or under another name"};
    print_note(fmt::format("{} exists: it is scored as it is", request.predictions));
    return read_predictions(read_input(request.predictions), request.predictions);
  }
  RoundPredictions made =
      predict_round(request.folder, submissions_of(request.folder, request.submitters));
  made.program = "stepcast " STEPCAST_VERSION;
  write_text_file(request.predictions, predictions_json(made));
  print_note(fmt::format("{} predictions in {}", made.rows.size(), request.predictions));
  return made;
}

ExitCode show_round(const RoundRequest& request) {
  const RoundScore score = score_round(request.folder, predictions_of(request));
  print_result(
      in_format(request.output, score, round_table, round_json, round_csv, round_markdown));
  for (const ScoredSubmission& row : score.rows)
    if (row.prediction.step_s) return ExitCode::done;
  print_note("stepcast validate mlperf: no submission could be forecast");
  return ExitCode::invalid_input;
}

}  // namespace

Command round_command() {
  const auto request = std::make_shared<RoundRequest>();
  return {.name = "mlperf",
          .help =
              "a round of MLPerf Training: its language models, forecast from configurations "
              "and descriptions of systems alone, then scored by the logs",
          .options = {{.name = "FOLDER",
                       .into = &request->folder,
                       .help = "as training_results_v5.1: SUBMITTER/{benchmarks,results,systems}",
                       .required = true},
                      {.name = "--predictions",
                       .into = &request->predictions,
                       .form = "FILE.json",
                       .help = "written before a log is opened; one that exists is scored instead",
                       .required = true},
                      {.name = "--submitter",
                       .into = &request->submitters,
                       .form = "NAME",
                       .help = "only this submitter (may be repeated)",
                       .repeated = true},
                      output_option(request->output)},
          .footer =
              "Exit code 3: the folder is no round, or nothing of it can be forecast.\n"
              "Example: stepcast validate mlperf training_results_v5.1 --predictions "
              "v5.1.json -o md",
          .run = [request] { return show_round(*request); }};
}

}  // namespace sim
