// stepcast anchor: measured runs of one's own, for forecasts that start from them.
#include <fmt/format.h>

#include <memory>

#include "sim/anchor/anchor_report.hpp"
#include "sim/cli/command.hpp"

namespace sim {
namespace {

struct AnchorRequest {
  RunsRequest runs;
  std::string file;
  OutputFormat output = OutputFormat::table;
};

ExitCode anchor_forecasts(const AnchorRequest& request) {
  const std::optional<TimeErrors>& published = shipped_time_errors();
  if (!published)
    throw WrongUse{
        "the data folder has no validation/time-error.yaml: there is nothing to start "
        "from"};
  AnchorRuns runs = read_anchor_runs(request.runs);
  for (const std::string& note : runs.notes)
    print_note(note);
  const AnchorReport report = make_anchor_report(std::move(runs), *published);
  print_result(
      in_format(request.output, report, anchor_table, anchor_json, anchor_csv, anchor_markdown));
  if (request.file.empty()) return ExitCode::done;
  write_text_file(request.file, anchor_yaml(report.anchor));
  print_note(fmt::format("anchor: {0}: give it to a forecast with --anchor {0}", request.file));
  return ExitCode::done;
}

}  // namespace

Option anchor_option(std::vector<std::string>& overrides) {
  return key_option(overrides, {"--anchor", "simulation.anchor", "FILE",
                                "start from measured runs (`stepcast anchor`)"});
}

Command anchor_command() {
  const auto request = std::make_shared<AnchorRequest>();
  RunsRequest& runs = request->runs;
  return {
      .name = "anchor",
      .help = "learn from measured runs, for forecasts that start from them",
      .options = {{.name = "SCENARIO",
                   .into = &runs.scenarios,
                   .help = "scenario files (YAML); those without a measured step are forecast",
                   .required = true},
                  {.name = "--step-time",
                   .into = &runs.step_times,
                   .form = "TIME",
                   .help = "measured step of the first SCENARIO, of the second, ...: 6.43s",
                   .repeated = true,
                   .excludes = {"--log", "--runs"}},
                  {.name = "--log",
                   .into = &runs.logs,
                   .form = "FILE",
                   .help = "training log of the first SCENARIO, of the second, ... (Megatron-LM, "
                           "torchtitan, NeMo, Megatron Bridge, DeepSpeed, stepcast.watch)",
                   .repeated = true},
                  {.name = "--runs",
                   .into = &runs.table,
                   .form = "FILE.csv",
                   .help = "a run in each line: step_time_s, scenario where there are several, "
                           "and keys that differ, such as layout.micro_batch",
                   .excludes = {"--log"}},
                  {.name = "-o,--output",
                   .into = &request->file,
                   .form = "FILE.yaml",
                   .help = "write what was learnt, for --anchor",
                   .writes = Output::file},
                  {.name = "--format",
                   .into = word_value<OutputFormat>(request->output),
                   .form = "table|json|csv|md|html",
                   .help = "form of what is printed"},
                  set_option(runs.overrides, "s, of all of them")},
      .footer = "Example: stepcast anchor small.yaml large.yaml --log small.log -o mine.yaml",
      .run = [request] { return anchor_forecasts(*request); }};
}

}  // namespace sim
