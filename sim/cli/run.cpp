// stepcast run: trains a scenario for real, and says how long its steps took.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>

#include "sim/base/input_error.hpp"
#include "sim/cli/engine.hpp"
#include "sim/cli/followed_notes.hpp"
#include "sim/cli/run_end.hpp"
#include "sim/cli/run_report.hpp"
#include "sim/cli/training_run.hpp"
#include "sim/timeline/perfetto.hpp"
#include "sim/timeline/record.hpp"

namespace sim {
namespace {

struct Request {
  std::string scenario;
  std::string backend = "auto";
  OutputFormat output = OutputFormat::table;
  std::string trace, record;
  std::vector<std::string> overrides;
  TrainingRunOptions options{.log_every = 10};
};

std::string now() {
  const std::time_t time = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

void write_files(const Request& request, const Scenario& scenario, const Plan& plan,
                 const TrainingRun& run) {
  const int per_node = scenario.cluster.gpus_per_node();
  if (run.timeline.tracks.empty() && !(request.trace.empty() && request.record.empty()))
    return print_note("no trace and no record: the run was interrupted before the recorded step");
  if (!request.trace.empty()) {
    write_perfetto_file(request.trace, plan, run.timeline,
                        {.title = scenario.name, .gpus_per_node = per_node, .ranks = {}});
    print_note(fmt::format("trace: {}: open it at ui.perfetto.dev", request.trace));
  }
  if (request.record.empty()) return;
  RecordOrigin origin{
      .scenario = scenario.name,
      .date = now(),
      .machine = machine_name(),
      .provenance = {fmt::format("seed {}", scenario.training.seed), "stepcast " STEPCAST_VERSION},
      .gpus_per_node = per_node,
      .steps = {}};
  for (std::size_t i = run.warm_up; i < run.steps.size(); ++i)
    origin.steps.push_back(run.steps[i].time);
  write_record(request.record, make_record(plan, run.timeline, std::move(origin)));
  print_note(fmt::format("record: {}", request.record));
}

std::string untrained_text(const Scenario& scenario, const TrainingRun& run) {
  if (run.interrupted) return "interrupted before a step was trained";
  return fmt::format("nothing to train: the checkpoint has {} steps and training.steps is {}",
                     run.next_step, scenario.training.steps);
}

// Throws what would otherwise be found out when all is trained.
void check_writable(const Request& request) {
  namespace fs = std::filesystem;
  for (const std::string& file : {request.trace, request.record}) {
    if (file.empty()) continue;
    const fs::path folder = fs::absolute(file).parent_path();
    if (fs::is_directory(file) || ::access(folder.c_str(), W_OK) != 0)
      throw InputError{SourcePosition{file, 0, 0}, "cannot write this file"};
  }
  if (request.options.checkpoint.empty()) return;
  std::error_code error;
  fs::create_directories(request.options.checkpoint, error);
  if (error || ::access(request.options.checkpoint.c_str(), W_OK) != 0)
    throw InputError{SourcePosition{request.options.checkpoint, 0, 0},
                     "cannot write checkpoints into this folder"};
}

ExitCode run_scenario(const Request& request) {
  TrainingRunOptions options = request.options;
  options.backend = *from_word<BackendChoice>(request.backend);
  const Scenario scenario = load_scenario(request.scenario, request.overrides);
  const Plan plan = make_plan(scenario.model, scenario.layout);
  check_writable(request);
  const real::RunResult result =
      train_scenario(scenario, plan, options, [&](const TrainingRun& run) {
        print_followed(scenario);
        if (run.steps.empty()) return print_note(untrained_text(scenario, run));
        print_result(in_format(request.output, make_run_report(scenario, plan, run), run_table,
                               run_json, run_csv, run_markdown));
        write_files(request, scenario, plan, run);
      });
  return report_end(result);
}

Option seconds_option(const char* name, double& seconds, const char* help) {
  return {.name = name,
          .into = &seconds,
          .form = "SECONDS",
          .help = help,
          .check = NumberFrom{0.1, 86400.0}};
}

Options launch_options(TrainingRunOptions& options) {
  return {{.name = "--ranks-per-gpu",
           .into = &options.ranks_per_gpu,
           .form = "N",
           .help = "ranks that share each GPU (cuda)",
           .check = CountFrom{1, 64}},
          {.name = "--rank",
           .into = &options.world.rank,
           .form = "N",
           .help = "this process's rank; else from the launcher",
           .check = NonNegative{}},
          {.name = "--world-size",
           .into = &options.world.world_size,
           .form = "N",
           .help = "processes of the run",
           .check = Positive{}},
          {.name = "--master",
           .into = &options.world.master,
           .form = "HOST:PORT",
           .help = "where rank 0 listens"},
          {.name = "--processes",
           .into = &options.processes,
           .help = "ranks as processes instead of threads (host; cuda: always)"},
          seconds_option("--failure-timeout", options.failure_timeout,
                         "a rank that does nothing for so long in a step ends the run (30)"),
          seconds_option("--setup-timeout", options.setup_timeout,
                         "the same before the first step and while saving (600)"),
          seconds_option("--join-timeout", options.join_timeout,
                         "how long ranks wait for one another to come (60)"),
          // A fault to test with, in the form that real/launch/inject.hpp says.
          {.name = "--inject", .into = &options.inject, .hidden = true}};
}

Options checkpoint_options(TrainingRunOptions& options) {
  return {{.name = "--checkpoint",
           .into = &options.checkpoint,
           .form = "DIR",
           .help = "write checkpoints into this folder"},
          {.name = "--every",
           .into = &options.every,
           .form = "N",
           .help = "a checkpoint every N steps, and at the end",
           .check = Positive{},
           .needs = {"--checkpoint"}},
          {.name = "--resume",
           .into = &options.resume,
           .form = "DIR",
           .help = "go on from a checkpoint, under any layout"}};
}

Options training_options(Request& request) {
  return {
      scenario_option(request.scenario),
      {.name = "--backend",
       .into = &request.backend,
       .form = "auto|host|cuda",
       .help = "host (float32 on CPU cores), cuda, or auto: cuda where there is a GPU",
       .check = OneOf{"auto", "host", "cuda"}},
      set_option(request.overrides, ", e.g. --set layout.tensor_parallel=4"),
      key_option(request.overrides, {"--steps", "training.steps", "N", "train up to this step"}),
      output_option(request.output),
      {.name = "--trace",
       .into = &request.trace,
       .form = "FILE",
       .help = "write the last step as a Perfetto/Chrome trace"},
      {.name = "--record",
       .into = &request.record,
       .form = "FILE",
       .help = "write the last step for `stepcast compare`"},
      {.name = "--log-every",
       .into = &request.options.log_every,
       .form = "N",
       .help = "a line on stderr every N steps while it trains (10; 0: none)",
       .check = NonNegative{}}};
}

}  // namespace

Command run_command() {
  const auto request = std::make_shared<Request>();
  return {.name = "run",
          .help = "train a scenario for real and time its steps",
          .options = joined({training_options(*request), checkpoint_options(request->options),
                             launch_options(request->options)}),
          .footer = "Example: stepcast run scenarios/real/llama-byte-tp2-dp2.yaml --steps 50",
          .run = [request] {
            return run_among_ranks("run", request->options.world,
                                   [&] { return run_scenario(*request); });
          }};
}

}  // namespace sim
