// stepcast explain: where the time of a traced run goes, and why it is not its forecast.
#include <memory>

#include "sim/cli/anchor_to.hpp"
#include "sim/cli/command.hpp"
#include "sim/cli/explain_log.hpp"
#include "sim/cli/infer_scenario.hpp"
#include "sim/cli/try_parts.hpp"
#include "sim/config/foreign/foreign_format.hpp"
#include "sim/explain/explanation.hpp"
#include "sim/explain/same_job.hpp"
#include "sim/forecast/record.hpp"
#include "sim/page/explain_page.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/trace/flight_recorder.hpp"

namespace sim {
namespace {

struct ExplainRequest {
  std::vector<std::string> traces;
  std::string scenario;
  std::vector<std::string> overrides;
  OutputFormat output = OutputFormat::table;
  double fail_above = -1;  // percent; below 0: not asked
  std::string anchor;      // file; empty: not asked
  InferRequest infer;
};

Explanation explanation_of(const ExplainRequest& request) {
  const TracedRun run = read_run(request.traces);
  if (!request.infer.file.empty()) write_inferred(run, request.infer);
  if (request.scenario.empty()) return explain(run);
  Scenario scenario = load_scenario(request.scenario, request.overrides);
  std::vector<RankId> ranks;
  for (const RunRank& rank : run.ranks)
    ranks.push_back(rank.rank);
  const Record forecast = simulated_record(scenario, ranks);
  Explanation made = explain(run, &forecast, &scenario.cluster.device());
  if (std::string said = device_difference(run.device, scenario.cluster.device()); !said.empty())
    made.waterfall->differences.push_back(std::move(said));
  try_parts(scenario, *made.waterfall);
  if (!request.anchor.empty())
    write_trace_anchor(request.anchor, std::move(scenario), request.overrides, *made.waterfall);
  return made;
}

// A job that hangs has no steps to explain, but calls that its ranks are in.
ExitCode explain_hang(const ExplainRequest& request) {
  if (!request.scenario.empty() || !request.infer.file.empty() ||
      request.output != OutputFormat::table)
    throw WrongUse{"dumps of the Flight Recorder have no steps: give them without other options"};
  print_result(text_of(find_hangs(request.traces)));
  return ExitCode::done;
}

// Steps that were only timed.
ExitCode explain_step_log(const ExplainRequest& request) {
  if (request.traces.size() > 1 || !request.infer.file.empty() || !request.anchor.empty() ||
      request.fail_above >= 0 || request.output != OutputFormat::table)
    throw WrongUse{
        "a log of steps has their times alone: give one log, and --scenario FILE beside it; "
        "not -o, --write-scenario, --anchor-to or --fail-above"};
  std::optional<Scenario> scenario;
  if (!request.scenario.empty()) scenario = load_scenario(request.scenario, request.overrides);
  print_result(step_log_text(request.traces.front(), scenario ? &*scenario : nullptr));
  return ExitCode::done;
}

ExitCode explain_traces(const ExplainRequest& request) {
  const std::string head = head_of_file(request.traces.front());
  if (is_recorder_dump(head)) return explain_hang(request);
  if (is_step_log(head)) return explain_step_log(request);
  if (request.scenario.empty() && !request.overrides.empty())
    throw WrongUse{"--set is of a scenario: give it with --scenario FILE"};
  if (request.scenario.empty() && request.fail_above >= 0)
    throw WrongUse{"--fail-above compares with a forecast: give --scenario FILE"};
  if (request.scenario.empty() && !request.anchor.empty())
    throw WrongUse{"--anchor-to learns from a forecast: give --scenario FILE"};
  const Explanation made = explanation_of(request);
  const auto table = [](const Explanation& shown) {
    return explanation_table(shown, color_wanted());
  };
  const auto page = [](const Explanation& shown) { return explain_page(shown, command_text()); };
  print_result(in_format(request.output, made, table, explanation_json, explanation_csv,
                         explanation_markdown, page));
  const bool exceeded = made.waterfall && request.fail_above >= 0 &&
                        100 * made.waterfall->slower() > request.fail_above;
  return exceeded ? ExitCode::bound_exceeded : ExitCode::done;
}

}  // namespace

Command explain_command() {
  const auto request = std::make_shared<ExplainRequest>();
  return {
      .name = "explain",
      .help = "where the time of a traced run goes, and why it is slower than its forecast",
      .options = joined(
          {{{.name = "TRACE",
             .into = &request->traces,
             .help = "traces of one job, one or several ranks each: of the PyTorch "
                     "profiler, of nsys (sqlite), of --trace or --record; or dumps of PyTorch's "
                     "Flight Recorder; or a log of stepcast.watch",
             .required = true},
            {.name = "--scenario",
             .into = &request->scenario,
             .form = "FILE",
             .help = "the scenario of the job, to compare with its forecast"},
            set_option(request->overrides, " to compare with"),
            output_option(request->output),
            {.name = "--anchor-to",
             .into = &request->anchor,
             .form = "FILE",
             .help = "write what the trace teaches the next forecast, for --anchor; adds to "
                     "a file that is there",
             .writes = Output::file},
            {.name = "--fail-above",
             .into = &request->fail_above,
             .form = "PERCENT",
             .help = "exit with 5 if the step is more than this slower than the forecast",
             .check = NonNegative{}}},
           infer_options(request->infer)}),
      .footer = "Example: stepcast explain rank0.json.gz rank1.json.gz --scenario job.yaml",
      .run = [request] { return explain_traces(*request); }};
}

}  // namespace sim
