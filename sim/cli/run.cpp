// stepcast run: trains a scenario for real, and says how long its steps took.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>

#include "sim/base/input_error.hpp"
#include "sim/cli/command.hpp"
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

void add_seconds(CLI::App& command, const char* name, double& seconds, const char* what) {
  command.add_option(name, seconds, what)->option_text("SECONDS")->check(CLI::Range(0.1, 86400.0));
}

void add_launch_options(CLI::App& command, TrainingRunOptions& options) {
  command.add_option("--ranks-per-gpu", options.ranks_per_gpu, "ranks that share each GPU (cuda)")
      ->option_text("N")
      ->check(CLI::Range(1, 64));
  command.add_option("--rank", options.world.rank, "this process's rank; else from the launcher")
      ->option_text("N")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--world-size", options.world.world_size, "processes of the run")
      ->option_text("N")
      ->check(CLI::PositiveNumber);
  command.add_option("--master", options.world.master, "where rank 0 listens")
      ->option_text("HOST:PORT");
  command.add_flag("--processes", options.processes,
                   "ranks as processes instead of threads (host; cuda: always)");
  add_seconds(command, "--failure-timeout", options.failure_timeout,
              "a rank that does nothing for so long in a step ends the run (30)");
  add_seconds(command, "--setup-timeout", options.setup_timeout,
              "the same before the first step and while saving (600)");
  add_seconds(command, "--join-timeout", options.join_timeout,
              "how long ranks wait for one another to come (60)");
  // A fault to test with, in the form that real/launch/inject.hpp says; not shown.
  command.add_option("--inject", options.inject)->group("");
}

void add_checkpoint_options(CLI::App& command, TrainingRunOptions& options) {
  CLI::Option* checkpoint =
      command.add_option("--checkpoint", options.checkpoint, "write checkpoints into this folder")
          ->option_text("DIR");
  command.add_option("--every", options.every, "a checkpoint every N steps, and at the end")
      ->option_text("N")
      ->check(CLI::PositiveNumber)
      ->needs(checkpoint);
  command.add_option("--resume", options.resume, "go on from a checkpoint, under any layout")
      ->option_text("DIR");
}

}  // namespace

void add_run(CLI::App& app, ChosenCommand& action) {
  const auto request = std::make_shared<Request>();
  CLI::App* command = app.add_subcommand("run", "train a scenario for real and time its steps");
  command->add_option("SCENARIO", request->scenario, "scenario file (YAML)")->required();
  command
      ->add_option("--backend", request->backend,
                   "host (float32 on CPU cores), cuda, or auto: cuda where there is a GPU")
      ->option_text("auto|host|cuda")
      ->check(CLI::IsMember({"auto", "host", "cuda"}));
  add_set_option(*command, request->overrides, ", e.g. --set layout.tensor_parallel=4");
  add_key_option(*command, request->overrides,
                 {"--steps", "training.steps", "N", "train up to this step"});
  add_output_option(*command, request->output);
  command->add_option("--trace", request->trace, "write the last step as a Perfetto/Chrome trace")
      ->option_text("FILE");
  command->add_option("--record", request->record, "write the last step for `stepcast compare`")
      ->option_text("FILE");
  command
      ->add_option("--log-every", request->options.log_every,
                   "a line on stderr every N steps while it trains (10; 0: none)")
      ->option_text("N")
      ->check(CLI::NonNegativeNumber);
  add_checkpoint_options(*command, request->options);
  add_launch_options(*command, request->options);
  command->footer("Example: stepcast run scenarios/real/llama-byte-tp2-dp2.yaml --steps 50");
  command->callback([request, &action] {
    action = [request] {
      return run_among_ranks("run", request->options.world, [&] { return run_scenario(*request); });
    };
  });
}

}  // namespace sim
