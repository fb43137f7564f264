// stepcast sweep, sensitivity and scaling: the forecast at many points.
#include "sim/sweep/sweep.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <charconv>
#include <fstream>
#include <memory>
#include <stdexcept>

#include "sim/base/input_error.hpp"
#include "sim/cli/command.hpp"
#include "sim/search/search.hpp"
#include "sim/sweep/scaling.hpp"
#include "sim/sweep/sensitivity.hpp"

namespace sim {
namespace {

struct Request {
  std::string scenario;
  std::vector<std::string> overrides;
  OutputFormat output = OutputFormat::table;
  int threads = 0;
  bool no_progress = false;
  std::string plot;
};

// A line on a terminal's stderr that counts points.
class PointCounter {
 public:
  explicit PointCounter(bool off) : shown_{!off && isatty(STDERR_FILENO) == 1} {}
  ~PointCounter() {
    if (shown_ && done_ > 0) std::fputs("\r\033[K", stderr);
  }
  PointCounter(const PointCounter&) = delete;
  PointCounter& operator=(const PointCounter&) = delete;
  std::function<void()> callback() {
    if (!shown_) return {};
    return [this] { std::fprintf(stderr, "\r%d points", ++done_); };
  }

 private:
  bool shown_;
  std::atomic<int> done_{0};
};

CLI::App* add_common(CLI::App& app, Request& request, const char* name, const char* what) {
  CLI::App* command = app.add_subcommand(name, what);
  command->add_option("SCENARIO", request.scenario, "scenario file (YAML)")->required();
  add_output_option(*command, request.output);
  command->add_option("--set", request.overrides, "set a key of the scenario at every point")
      ->option_text("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--threads", request.threads, "threads (all cores)")
      ->check(CLI::Range(1, 4096))
      ->option_text("N");
  command->add_flag("--no-progress", request.no_progress, "no counter on the terminal");
  return command;
}

void write_plot(const std::string& path, const std::string& svg) {
  std::ofstream out{path, std::ios::binary};
  if (!out.write(svg.data(), static_cast<std::streamsize>(svg.size())).flush())
    throw std::runtime_error(fmt::format("cannot write {}", path));
  print_note(fmt::format("plot: {}", path));
}

struct SweepRequest : Request {
  std::vector<std::string> over;
  bool best = false;
};

ExitCode sweep_scenario(const SweepRequest& request) {
  const SweepSpecification specification =
      load_sweep(request.scenario, request.overrides, request.over, request.best);
  const SearchThreads threads{request.threads};
  PointCounter counter{request.no_progress};
  const Sweep sweep = run_sweep(specification, counter.callback());
  if (!request.plot.empty()) write_plot(request.plot, sweep_svg(sweep));
  print_result(
      in_format(request.output, sweep, sweep_table, sweep_json, sweep_csv, sweep_markdown));
  return ExitCode::done;
}

struct SensitivityRequest : Request {
  double percent = 5;
};

ExitCode show_sensitivity(const SensitivityRequest& request) {
  const SearchThreads threads{request.threads};
  PointCounter counter{request.no_progress};
  const Sensitivity sensitivity = sensitivity_of(request.scenario, request.overrides,
                                                 request.percent / 100, counter.callback());
  print_result(in_format(request.output, sensitivity, sensitivity_table, sensitivity_json,
                         sensitivity_csv, sensitivity_markdown));
  return ExitCode::done;
}

struct ScalingRequest : Request {
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
  const SearchThreads threads{request.threads};
  PointCounter counter{request.no_progress};
  const std::vector<ScalingCurve> curves = scaling_curves(specification, kinds, counter.callback());
  if (!request.plot.empty()) write_plot(request.plot, scaling_svg(curves));
  print_result(in_format(request.output, curves, scaling_table, scaling_json, scaling_csv,
                         scaling_markdown));
  return ExitCode::done;
}

}  // namespace

void add_sweep(CLI::App& app, ChosenCommand& action) {
  const auto request = std::make_shared<SweepRequest>();
  CLI::App* command = add_common(app, *request, "sweep", "forecasts over a grid of values");
  command
      ->add_option("--over", request->over,
                   "a key of the scenario and its values: 1,2,4 or 8..64*2 or 1..9+2; several: "
                   "a grid, the last fastest")
      ->option_text("KEY=VALUES")
      ->allow_extra_args(false);
  command->add_flag("--best", request->best, "search the best layout anew at every point");
  command->add_option("--plot", request->plot, "write a plot of step times (SVG)")
      ->option_text("FILE");
  command->footer(
      "Example: stepcast sweep scenarios/llama-3.1-70b-512-h100.yaml "
      "--over cluster.change.node.nics.bandwidth='100 Gbps..800 Gbps*2' --plot nics.svg");
  command->callback(
      [request, &action] { action = [request] { return sweep_scenario(*request); }; });
}

void add_sensitivity(CLI::App& app, ChosenCommand& action) {
  const auto request = std::make_shared<SensitivityRequest>();
  CLI::App* command = add_common(app, *request, "sensitivity",
                                 "what the step gains from each parameter of the machine");
  command->add_option("--by", request->percent, "percent by which each is changed up and down (5)")
      ->check(CLI::Range(0.1, 50.0))
      ->option_text("PERCENT");
  command->footer("Example: stepcast sensitivity scenarios/llama-3.1-70b-512-h100.yaml");
  command->callback(
      [request, &action] { action = [request] { return show_sensitivity(*request); }; });
}

void add_scaling(CLI::App& app, ChosenCommand& action) {
  const auto request = std::make_shared<ScalingRequest>();
  CLI::App* command =
      add_common(app, *request, "scaling", "strong and weak scaling over numbers of GPUs");
  command->add_option("--gpus", request->gpus, "numbers of GPUs: 64,128 or 64..4096*2")
      ->required()
      ->option_text("NUMBERS");
  command->add_option("--kind", request->kind, "strong, weak or both (the default)")
      ->check(CLI::IsMember({"strong", "weak", "both"}));
  command->add_flag("--best", request->best, "search the best layout anew at every point");
  command->add_option("--plot", request->plot, "write a plot of tokens per second (SVG)")
      ->option_text("FILE");
  command->footer(
      "Example: stepcast scaling scenarios/llama-3.1-70b-512-h100.yaml --gpus 64..1024*2");
  command->callback([request, &action] { action = [request] { return show_scaling(*request); }; });
}

}  // namespace sim
