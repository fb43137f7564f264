// stepcast scaling: strong and weak scaling over numbers of GPUs.
#include "sim/sweep/scaling.hpp"

#include <memory>

#include "sim/cli/many/point_request.hpp"
#include "sim/cli/unvalidated_note.hpp"
#include "sim/distribute/thread_limit.hpp"
#include "sim/sweep/axis.hpp"

namespace sim {
namespace {

struct ScalingRequest : PointRequest {
  int threads = 0;
  std::string plot;
  std::string gpus;
  std::string kind = "both";
  bool best = false;
};

ExitCode show_scaling(const ScalingRequest& request) {
  const ScalingSpecification specification{
      .path = request.scenario,
      .overrides = request.overrides,
      .gpus = gpu_counts(request.gpus, "--gpus"),
      .layout = request.best ? LayoutMode::best : LayoutMode::fixed};
  std::vector<ScalingKind> kinds{ScalingKind::strong, ScalingKind::weak};
  if (const std::optional<ScalingKind> one = from_word<ScalingKind>(request.kind)) kinds = {*one};
  const ThreadLimit threads{request.threads};
  PointCounter counter{request.no_progress};
  const std::vector<ScalingCurve> curves = scaling_curves(specification, kinds, counter.callback());
  if (!request.plot.empty()) write_plot(request.plot, scaling_svg(curves));
  note_unvalidated(request.scenario, request.overrides);
  print_result(in_format(request.output, curves, scaling_table, scaling_json, scaling_csv,
                         scaling_markdown));
  return ExitCode::done;
}

}  // namespace

Command scaling_command() {
  const auto request = std::make_shared<ScalingRequest>();
  return {
      .name = "scaling",
      .help = "strong and weak scaling over numbers of GPUs",
      .options = joined({point_options(*request),
                         {threads_option(request->threads),
                          {.name = "--gpus",
                           .into = &request->gpus,
                           .form = "NUMBERS",
                           .help = "numbers of GPUs: 64,128 or 64..4096*2",
                           .required = true},
                          {.name = "--kind",
                           .into = &request->kind,
                           .help = "strong, weak or both (the default)",
                           .check = OneOf{"strong", "weak", "both"}},
                          {.name = "--best",
                           .into = &request->best,
                           .help = "search the best layout anew at every point"},
                          {.name = "--plot",
                           .into = &request->plot,
                           .form = "FILE",
                           .help = "write a plot of tokens per second (SVG)",
                           .writes = Output::file}}}),
      .footer = "Example: stepcast scaling scenarios/llama-3.1-70b-512-h100.yaml --gpus 64..1024*2",
      .run = [request] { return show_scaling(*request); }};
}

}  // namespace sim
