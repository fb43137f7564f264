// stepcast variability: how long steps take where other jobs and slow nodes disturb them.
#include <memory>

#include "sim/cli/many/point_request.hpp"
#include "sim/cli/unvalidated_note.hpp"
#include "sim/distribute/thread_limit.hpp"
#include "sim/sweep/step_variability.hpp"

namespace sim {
namespace {

struct VariabilityRequest : PointRequest {
  int threads = 0;
};

ExitCode show_variability(const VariabilityRequest& request) {
  const ThreadLimit threads{request.threads};
  PointCounter counter{request.no_progress};
  const StepVariability steps =
      step_variability(request.scenario, request.overrides, counter.callback());
  note_unvalidated(request.scenario, request.overrides);
  print_result(in_format(request.output, steps, variability_table, variability_json,
                         variability_csv, variability_markdown));
  return ExitCode::done;
}

}  // namespace

Command variability_command() {
  const auto request = std::make_shared<VariabilityRequest>();
  return {.name = "variability",
          .help = "the distribution of steps on a machine that other jobs share",
          .options = joined({point_options(*request),
                             {key_option(request->overrides,
                                         {"--preset", "disturbance.preset", "dedicated|shared",
                                          "who else uses the machine (dedicated: nobody)"}),
                              threads_option(request->threads)}}),
          .footer =
              "Example: stepcast variability scenarios/llama-3.1-70b-512-h100.yaml "
              "--preset shared",
          .run = [request] { return show_variability(*request); }};
}

}  // namespace sim
