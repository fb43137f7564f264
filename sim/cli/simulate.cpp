// stepcast simulate: the step time of a scenario, and where it goes.
#include <fmt/format.h>

#include <memory>

#include "sim/cli/command.hpp"
#include "sim/cli/followed_notes.hpp"
#include "sim/cli/simulate_et.hpp"
#include "sim/cli/slow_note.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/record.hpp"
#include "sim/forecast/shown_ranks.hpp"
#include "sim/page/simulate_page.hpp"
#include "sim/timeline/perfetto.hpp"
#include "sim/timeline/picture.hpp"

namespace sim {
namespace {

struct SimulateRequest {
  std::string scenario;
  std::string cluster;  // of execution traces
  OutputFormat output = OutputFormat::table;
  std::string trace;
  std::string trace_ranks = "stages";
  std::string picture;
  std::string record;
  std::vector<std::string> overrides;
  bool no_fold = false;
  bool no_what_if = false;
};

void write_trace(const SimulateRequest& request, const Scenario& scenario, const Plan& plan,
                 const Timeline& timeline, const TraceRanks& ranks) {
  TraceOptions options{.title = scenario.name,
                       .gpus_per_node = scenario.cluster.gpus_per_node(),
                       .ranks = ranks.listed};
  if (ranks.kind == TraceRanks::Kind::stages)
    options.ranks = one_rank_per_stage(scenario, plan, timeline);
  const TraceStats stats = write_perfetto_file(request.trace, plan, timeline, options);
  print_note(fmt::format("trace: {} ({} events, {:.1f} MB): open it at ui.perfetto.dev",
                         request.trace, stats.events, static_cast<double>(stats.bytes) / 1e6));
}

void write_picture(const SimulateRequest& request, const Scenario& scenario, const Plan& plan,
                   const Timeline& timeline) {
  write_text_file(request.picture, to_svg(plan, timeline,
                                          {.title = scenario.name,
                                           .ranks = one_rank_per_stage(scenario, plan, timeline)}));
  print_note(fmt::format("picture: {}", request.picture));
}

TraceRanks trace_ranks(const SimulateRequest& request, const Scenario& scenario) {
  if (request.trace.empty()) return {};
  return parse_trace_ranks(request.trace_ranks, scenario.layout.world_size(), "--trace-ranks");
}

ExitCode simulate_scenario(const SimulateRequest& request) {
  SlowNote slow;
  Scenario scenario = load_scenario(request.scenario, request.overrides);
  // The other forms have them among their notes.
  if (request.output == OutputFormat::csv || request.output == OutputFormat::md)
    print_followed(scenario);
  const TraceRanks ranks = trace_ranks(request, scenario);
  if (request.no_fold || ranks.any_rank()) scenario.options.fold = false;
  const Forecast made = forecast(
      scenario, {.what_if = !request.no_what_if, .every_rank = ranks.any_rank()}, slow.control());
  slow.is_at("writing");
  const Plan& plan = *made.plan;
  if (!request.trace.empty()) write_trace(request, scenario, plan, made.timeline, ranks);
  if (!request.picture.empty()) write_picture(request, scenario, plan, made.timeline);
  if (!request.record.empty()) {
    write_record(request.record, make_record(plan, made.timeline, origin_of(scenario)));
    print_note(fmt::format("record: {}: compare it with `stepcast compare`", request.record));
  }
  const auto table = [](const Report& shown) { return to_table(shown, {.color = color_wanted()}); };
  const auto page = [&](const Report&) {
    return simulate_page(made, scenario, one_rank_per_stage(scenario, plan, made.timeline),
                         command_text());
  };
  print_result(in_format(request.output, made.report, table, to_json, to_csv, to_markdown, page));
  if (made.report.fits()) return ExitCode::done;
  print_note(does_not_fit_text(made.report, scenario));
  return ExitCode::does_not_fit;
}

// Options without a meaning for execution traces are refused.
void check_alone(const SimulateRequest& request) {
  if (!request.overrides.empty() || !request.trace.empty() || !request.picture.empty() ||
      !request.record.empty())
    throw WrongUse{"et:FOLDER takes --cluster and -o alone: it has no scenario"};
}

ExitCode simulate_any(const SimulateRequest& request) {
  if (const std::optional<std::string> folder = et_folder(request.scenario)) {
    check_alone(request);
    return simulate_et(*folder, request.cluster, request.output);
  }
  if (!request.cluster.empty())
    throw WrongUse{"--cluster is for et:FOLDER; a scenario has its own: --set cluster.path=NAME"};
  return simulate_scenario(request);
}

}  // namespace

Command simulate_command() {
  const auto request = std::make_shared<SimulateRequest>();
  std::vector<std::string>& overrides = request->overrides;
  return {
      .name = "simulate",
      .help = "forecast the time of one training step",
      .options =
          {{.name = "SCENARIO",
            .into = &request->scenario,
            .help = "scenario file (YAML), or et:FOLDER of Chakra execution traces",
            .required = true},
           output_option(request->output),
           {.name = "--cluster",
            .into = &request->cluster,
            .form = "CLUSTER",
            .help = "of et:FOLDER: cluster file, or name as 'topo list' has it"},
           {.name = "--trace",
            .into = &request->trace,
            .form = "FILE",
            .help = "write a Perfetto/Chrome JSON trace",
            .writes = Output::file},
           {.name = "--trace-ranks",
            .into = &request->trace_ranks,
            .form = "WHICH",
            .help =
                "ranks in the trace: stages (one per pipeline stage, the default), "
                "representatives (one per class of equal ranks), all, or a list such as 0,8,64-71",
            .needs = {"--trace"}},
           {.name = "--picture",
            .into = &request->picture,
            .form = "FILE",
            .help = "write the step as a picture (SVG)",
            .writes = Output::file},
           {.name = "--record",
            .into = &request->record,
            .form = "FILE",
            .help = "write the timeline as a record (JSON) for `stepcast compare`",
            .writes = Output::file},
           set_option(overrides, ", e.g. --set layout.tensor_parallel=4"),
           anchor_option(overrides),
           key_option(overrides, {"--collectives", "simulation.collectives", "fluid|stepwise",
                                  "fluid (one activity each) or stepwise (every message)"}),
           key_option(overrides, {"--seed", "simulation.seed", "N", "seed of the jitter"}),
           {.name = "--no-fold",
            .into = &request->no_fold,
            .help = "simulate every rank, not one per class"},
           {.name = "--no-what-if",
            .into = &request->no_what_if,
            .help = "leave out 'what would help most' (it simulates again)"}},
      .footer =
          "Example: stepcast simulate scenarios/llama-3.1-405b-16384-h100.yaml "
          "--trace llama.perfetto.json",
      .run = [request] { return simulate_any(*request); }};
}

}  // namespace sim
