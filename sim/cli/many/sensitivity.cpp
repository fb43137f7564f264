// stepcast sensitivity: what the step gains from each parameter of the machine.
#include "sim/sweep/sensitivity.hpp"

#include <memory>

#include "sim/cli/many/point_request.hpp"
#include "sim/cli/unvalidated_note.hpp"
#include "sim/distribute/thread_limit.hpp"

namespace sim {
namespace {

struct SensitivityRequest : PointRequest {
  int threads = 0;
  double percent = 5;
};

ExitCode show_sensitivity(const SensitivityRequest& request) {
  const ThreadLimit threads{request.threads};
  PointCounter counter{request.no_progress};
  const Sensitivity sensitivity = sensitivity_of(request.scenario, request.overrides,
                                                 request.percent / 100, counter.callback());
  note_unvalidated(request.scenario, request.overrides);
  for (const std::string& note : sensitivity.base.notes)
    print_note(note);
  print_result(in_format(request.output, sensitivity, sensitivity_table, sensitivity_json,
                         sensitivity_csv, sensitivity_markdown));
  return ExitCode::done;
}

}  // namespace

Command sensitivity_command() {
  const auto request = std::make_shared<SensitivityRequest>();
  return {.name = "sensitivity",
          .help = "what the step gains from each parameter of the machine",
          .options = joined({point_options(*request),
                             {threads_option(request->threads),
                              {.name = "--by",
                               .into = &request->percent,
                               .form = "PERCENT",
                               .help = "percent by which each is changed up and down (5)",
                               .check = NumberFrom{0.1, 50.0}}}}),
          .footer = "Example: stepcast sensitivity scenarios/llama-3.1-70b-512-h100.yaml",
          .run = [request] { return show_sensitivity(*request); }};
}

}  // namespace sim
