// stepcast choose: which scheme of synchronisation reaches a loss first, and where.
#include "sim/convergence/choose/choose.hpp"

#include <memory>

#include "sim/cli/many/point_request.hpp"
#include "sim/cli/unvalidated_note.hpp"
#include "sim/distribute/thread_limit.hpp"

namespace sim {
namespace {

struct ChooseRequest : PointRequest {
  int threads = 0;
  std::vector<std::string> over, schemes, factors;
  std::string map;
  double target = 0;
};

ExitCode show_choice(const ChooseRequest& request) {
  const ThreadLimit threads{request.threads};
  PointCounter counter{request.no_progress};
  const Choice choice =
      choose({.scenario = request.scenario,
              .overrides = request.overrides,
              .over = request.over,
              .schemes = request.schemes,
              .factors = request.factors,
              .target = request.target > 0 ? std::optional{request.target} : std::nullopt},
             counter.callback());
  note_unvalidated(request.scenario, request.overrides);
  if (!request.map.empty()) write_plot(request.map, choice_svg(choice));
  print_result(
      in_format(request.output, choice, choice_table, choice_json, choice_csv, choice_markdown));
  return ExitCode::done;
}

}  // namespace

Command choose_command() {
  const auto request = std::make_shared<ChooseRequest>();
  return {
      .name = "choose",
      .help = "which scheme of synchronisation reaches a loss first",
      .options = joined(
          {point_options(*request),
           {{.name = "--over",
             .into = &request->over,
             .form = "KEY=VALUES",
             .help = "a key of the scenario and its values, as for sweep; two at most (the rate "
                     "of the NICs, 10 to 400 Gb/s)",
             .repeated = true},
            {.name = "--factors",
             .into = &request->factors,
             .form = "FILE",
             .help = "statistical factors that `stepcast convergence --record` wrote"},
            {.name = "--target",
             .into = &request->target,
             .form = "VALUE",
             .help = "which of the files' targets (the last)",
             .check = NumberFrom{0.0, 1e9}},
            {.name = "--scheme",
             .into = &request->schemes,
             .form = "NAME: KEY=VALUE, ...",
             .help = "a scheme beside those of the list",
             .repeated = true},
            {.name = "--map",
             .into = &request->map,
             .form = "FILE",
             .help = "write what is best where as a map (SVG)",
             .writes = Output::file},
            threads_option(request->threads)}}),
      .footer =
          "Example: stepcast choose scenarios/gpt2-64-h100-ethernet.yaml --factors "
          "validation/convergence/results/byte-llama/factors.yaml",
      .run = [request] { return show_choice(*request); }};
}

}  // namespace sim
