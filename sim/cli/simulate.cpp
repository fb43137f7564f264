// stepcast simulate: the step time of a scenario, and where it goes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <map>
#include <memory>

#include "sim/base/input_error.hpp"
#include "sim/cli/command.hpp"
#include "sim/cli/followed_notes.hpp"
#include "sim/report/report.hpp"
#include "sim/report/unmoved.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/timeline/perfetto.hpp"
#include "sim/timeline/picture.hpp"

namespace sim {
namespace {

struct Request {
  std::string scenario;
  OutputFormat output = OutputFormat::table;
  std::string trace;
  std::string trace_ranks = "stages";
  std::string picture;
  std::string record;
  std::vector<std::string> overrides;
  bool no_fold = false;
  bool no_what_if = false;
};

// "0,8,64-71" as ranks. Throws InputError.
std::vector<RankId> parse_ranks(const std::string& text, int world) {
  std::vector<RankId> ranks;
  const auto number = [&](std::string_view part) {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc{} || end != part.data() + part.size() ||
        value >= static_cast<std::uint32_t>(world))
      throw InputError{SourcePosition{"--trace-ranks", 0, 0},
                       fmt::format("'{}' is no rank of 0 to {}", part, world - 1)};
    return value;
  };
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t dash = part.find('-');
    const std::uint32_t first = number(part.substr(0, dash));
    const std::uint32_t last =
        dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    if (last < first)
      throw InputError{SourcePosition{"--trace-ranks", 0, 0},
                       fmt::format("'{}' ends before it begins", part)};
    for (std::uint32_t rank = first; rank <= last; ++rank)
      ranks.push_back(RankId{rank});
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return ranks;
}

// Of every pipeline stage the class that stands for most ranks, and every injected straggler: the
// other classes differ by the place of their nodes in the fabric alone.
std::vector<RankId> one_rank_per_stage(const Scenario& scenario, const Plan& plan,
                                       const Timeline& timeline) {
  std::map<int, const RankTrack*> chosen;
  std::vector<RankId> ranks;
  for (const RankTrack& track : timeline.tracks) {
    const RankTrack*& best = chosen[plan.program(track.rank).stage];
    if (!best || track.represents > best->represents) best = &track;
    for (const Straggler& slow : scenario.options.stragglers)
      if (slow.rank == track.rank) ranks.push_back(track.rank);
  }
  for (const auto& [stage, track] : chosen)
    ranks.push_back(track->rank);
  return ranks;
}

// `listed`: the ranks that --trace-ranks names, if it names any.
void write_trace(const Request& request, const Scenario& scenario, const Plan& plan,
                 const Timeline& timeline, const std::vector<RankId>& listed) {
  TraceOptions options{
      .title = scenario.name, .gpus_per_node = scenario.cluster.gpus_per_node(), .ranks = listed};
  if (request.trace_ranks == "stages") options.ranks = one_rank_per_stage(scenario, plan, timeline);
  const TraceStats stats = write_perfetto_file(request.trace, plan, timeline, options);
  print_note(fmt::format("trace: {} ({} events, {:.1f} MB): open it at ui.perfetto.dev",
                         request.trace, stats.events, static_cast<double>(stats.bytes) / 1e6));
}

void write_picture(const Request& request, const Scenario& scenario, const Plan& plan,
                   const Timeline& timeline) {
  write_text_file(request.picture, to_svg(plan, timeline,
                                          {.title = scenario.name,
                                           .ranks = one_rank_per_stage(scenario, plan, timeline)}));
  print_note(fmt::format("picture: {}", request.picture));
}

ExitCode simulate_scenario(const Request& request) {
  Scenario scenario = load_scenario(request.scenario, request.overrides);
  print_followed(scenario);
  if (request.no_fold) scenario.options.fold = false;
  // A list may name any rank, so every one is simulated: the figures are the same.
  const bool every_rank = !request.trace.empty() && request.trace_ranks != "stages" &&
                          request.trace_ranks != "representatives";
  if (every_rank) scenario.options.fold = false;
  scenario.options.record_all = every_rank;
  const std::vector<RankId> listed =
      every_rank && request.trace_ranks != "all"
          ? parse_ranks(request.trace_ranks, scenario.layout.world_size())
          : std::vector<RankId>{};
  const Plan plan = make_plan(scenario.model, scenario.layout);
  const Simulation simulation = simulate(plan, scenario.cluster, scenario.options);
  Report report = make_report(scenario, plan, simulation);
  if (!request.trace.empty()) write_trace(request, scenario, plan, simulation.timeline, listed);
  if (!request.picture.empty()) write_picture(request, scenario, plan, simulation.timeline);
  if (!request.record.empty()) {
    write_record(request.record, make_record(plan, simulation.timeline, origin_of(scenario)));
    print_note(fmt::format("record: {}: compare it with `stepcast compare`", request.record));
  }
  if (!request.no_what_if) {
    add_what_if(report, scenario, plan);
    note_unmoved(report, scenario, plan);
  }
  const auto table = [](const Report& shown) { return to_table(shown, {.color = color_wanted()}); };
  print_result(in_format(request.output, report, table, to_json, to_csv, to_markdown));
  if (report.fits()) return ExitCode::done;
  print_note(does_not_fit_text(report, scenario));
  return ExitCode::does_not_fit;
}

}  // namespace

void add_simulate(CLI::App& app, ChosenCommand& action) {
  const auto request = std::make_shared<Request>();
  CLI::App* command = app.add_subcommand("simulate", "forecast the time of one training step");
  command->add_option("SCENARIO", request->scenario, "scenario file (YAML)")->required();
  add_output_option(*command, request->output);
  CLI::Option* trace =
      command->add_option("--trace", request->trace, "write a Perfetto/Chrome JSON trace")
          ->option_text("FILE");
  command
      ->add_option(
          "--trace-ranks", request->trace_ranks,
          "ranks in the trace: stages (one per pipeline stage, the default), "
          "representatives (one per class of equal ranks), all, or a list such as 0,8,64-71")
      ->option_text("WHICH")
      ->needs(trace);
  command->add_option("--picture", request->picture, "write the step as a picture (SVG)")
      ->option_text("FILE");
  command
      ->add_option("--record", request->record,
                   "write the timeline as a record (JSON) for `stepcast compare`")
      ->option_text("FILE");
  add_set_option(*command, request->overrides, ", e.g. --set layout.tensor_parallel=4");
  add_key_option(*command, request->overrides,
                 {"--collectives", "simulation.collectives", "fluid|stepwise",
                  "fluid (one activity each) or stepwise (every message)"});
  add_key_option(*command, request->overrides,
                 {"--seed", "simulation.seed", "N", "seed of the jitter"});
  command->add_flag("--no-fold", request->no_fold, "simulate every rank, not one per class");
  command->add_flag("--no-what-if", request->no_what_if,
                    "leave out 'what would help most' (it simulates again)");
  command->footer(
      "Example: stepcast simulate scenarios/llama-3.1-405b-16384-h100.yaml "
      "--trace llama.perfetto.json");
  command->callback(
      [request, &action] { action = [request] { return simulate_scenario(*request); }; });
}

}  // namespace sim
