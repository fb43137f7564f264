// stepcast run: trains a scenario for real, and says how long its steps took.
#include <fmt/format.h>

#include <memory>

#include "real/jobs/collective_report.hpp"
#include "real/jobs/run_files.hpp"
#include "real/jobs/run_report.hpp"
#include "real/jobs/training_run.hpp"
#include "sim/cli/followed_notes.hpp"
#include "sim/cli/train/engine.hpp"
#include "sim/cli/train/run_end.hpp"

namespace sim {
namespace {

struct Request {
  std::string scenario;
  OutputFormat output = OutputFormat::table;
  std::vector<std::string> overrides;
  real::RunFiles files;
  bool buckets = false;
  real::TrainingRunOptions options{.log_every = 10, .log = print_note};
};

std::string untrained_text(const Scenario& scenario, const real::TrainingRun& run) {
  if (run.interrupted) return "interrupted before a step was trained";
  return fmt::format("nothing to train: the checkpoint has {} steps and training.steps is {}",
                     run.next_step, scenario.training.steps);
}

void show(const Request& request, const Scenario& scenario, const Plan& plan,
          const real::TrainingRun& run) {
  print_followed(scenario);
  if (run.steps.empty()) return print_note(untrained_text(scenario, run));
  print_result(in_format(request.output, real::make_run_report(scenario, plan, run),
                         real::run_table, real::run_json, real::run_csv, real::run_markdown));
  if (request.buckets) {
    const std::string log = '\n' + real::collective_report(scenario, plan, run);
    request.output == OutputFormat::table ? print_result(log) : print_note(log);
  }
  for (const std::string& line : real::write_run_files(request.files, scenario, plan, run))
    print_note(line);
}

ExitCode run_scenario(const Request& request) {
  const Scenario scenario = load_scenario(request.scenario, request.overrides);
  const Plan plan = make_plan(scenario.model, scenario.layout);
  real::require_writable(request.files, request.options.checkpoint);
  return report_end(real::train_scenario(
      scenario, plan, request.options,
      [&](const real::TrainingRun& run) { show(request, scenario, plan, run); }));
}

Option seconds_option(const char* name, double& seconds, const char* help) {
  return {.name = name,
          .into = &seconds,
          .form = "SECONDS",
          .help = help,
          .check = NumberFrom{0.1, 86400.0}};
}

Options launch_options(real::TrainingRunOptions& options) {
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
          {.name = "--secret-file",
           .into = &options.world.secret_file,
           .form = "FILE",
           .help = "what ranks on several machines prove to each other; else STEPCAST_JOB_SECRET"},
          {.name = "--insecure",
           .into = &options.world.insecure,
           .help = "let ranks that strangers can reach run without a secret",
           .excludes = {"--secret-file"}},
          {.name = "--drop-rate",
           .into = &options.network.rate,
           .form = "SHARE",
           .help = "of the messages between ranks that the network drops, by the seed (0; host)",
           .check = NumberFrom{0, 0.9}},
          {.name = "--dropped",
           .into = word_value<real::DroppedMessages>(options.network.dropped),
           .form = "resent|lost",
           .help = "dropped messages come later, or what they gave to an average is missing",
           .needs = {"--drop-rate"}},
          {.name = "--elastic",
           .into = word_value<real::ElasticBatch>(options.elastic),
           .form = "off|fixed_batch|fixed_batch_per_replica",
           .help = "when a rank fails, the other replicas go on from the step before, with all of "
                   "the batch or without its share (host, threads)"},
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

Options checkpoint_options(real::TrainingRunOptions& options) {
  return {{.name = "--checkpoint",
           .into = &options.checkpoint,
           .form = "DIR",
           .help = "write checkpoints into this folder",
           .writes = Output::folder},
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
       .into = word_value<real::BackendChoice>(request.options.backend),
       .form = "auto|host|cuda",
       .help = "host (float32 on CPU cores), cuda, or auto: cuda where there is a GPU"},
      set_option(request.overrides, ", e.g. --set layout.tensor_parallel=4"),
      key_option(request.overrides, {"--steps", "training.steps", "N", "train up to this step"}),
      output_option(request.output),
      {.name = "--trace",
       .into = &request.files.trace,
       .form = "FILE",
       .help = "write the last step as a Perfetto/Chrome trace",
       .writes = Output::file},
      {.name = "--record",
       .into = &request.files.record,
       .form = "FILE",
       .help = "write the last step for `stepcast compare`",
       .writes = Output::file},
      {.name = "--expert-loads",
       .into = &request.files.loads,
       .form = "FILE",
       .help = "write the tokens of each expert by step and layer, as layout.moe.load reads them",
       .writes = Output::file},
      {.name = "--buckets",
       .into = &request.buckets,
       .help = "a line for each collective of rank 0 in the last step: when ready, launched and "
               "done, hidden or exposed"},
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
