// stepcast sensitivity and scaling: the forecast at many points.

#include "sim/sweep/scaling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <stdexcept>

#include "sim/base/input_error.hpp"
#include "sim/cli/job_runner.hpp"
#include "sim/cli/point_request.hpp"
#include "sim/cli/unvalidated_note.hpp"
#include "sim/search/search.hpp"
#include "sim/sweep/axis.hpp"
#include "sim/sweep/sensitivity.hpp"

namespace sim {
namespace {

struct Request : PointRequest {
  int threads = 0;
};

Options common_options(Request& request) {
  return joined({point_options(request), {threads_option(request.threads)}});
}

struct SensitivityRequest : Request {
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

struct ScalingRequest : Request {
  std::string plot;
  std::string gpus;
  std::string kind = "both";
  bool best = false;
};

std::vector<int> read_gpus(const std::string& text) {
  std::vector<int> gpus;
  const auto refuse = [&](const std::string& why) {
    throw InputError{SourcePosition{"--gpus", 0, 0}, why};
  };
  try {
    for (const std::string& value : axis_values(text)) {
      int number = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      if (error != std::errc{} || end != value.data() + value.size() || number < 1 ||
          number > 1 << 21)
        refuse(fmt::format("'{}' is no number of GPUs from 1 to {}", value, 1 << 21));
      gpus.push_back(number);
    }
  } catch (const std::invalid_argument& error) {
    refuse(error.what());
  }
  std::sort(gpus.begin(), gpus.end());
  return gpus;
}

ExitCode show_scaling(const ScalingRequest& request) {
  const ScalingSpecification specification{
      .path = request.scenario,
      .overrides = request.overrides,
      .gpus = read_gpus(request.gpus),
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

Command sensitivity_command() {
  const auto request = std::make_shared<SensitivityRequest>();
  return {.name = "sensitivity",
          .help = "what the step gains from each parameter of the machine",
          .options = joined({common_options(*request),
                             {{.name = "--by",
                               .into = &request->percent,
                               .form = "PERCENT",
                               .help = "percent by which each is changed up and down (5)",
                               .check = NumberFrom{0.1, 50.0}}}}),
          .footer = "Example: stepcast sensitivity scenarios/llama-3.1-70b-512-h100.yaml",
          .run = [request] { return show_sensitivity(*request); }};
}

Command scaling_command() {
  const auto request = std::make_shared<ScalingRequest>();
  return {
      .name = "scaling",
      .help = "strong and weak scaling over numbers of GPUs",
      .options = joined({common_options(*request),
                         {{.name = "--gpus",
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
                           .help = "write a plot of tokens per second (SVG)"}}}),
      .footer = "Example: stepcast scaling scenarios/llama-3.1-70b-512-h100.yaml --gpus 64..1024*2",
      .run = [request] { return show_scaling(*request); }};
}

}  // namespace sim
