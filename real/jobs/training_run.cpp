#include "real/jobs/training_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>

#include "real/cuda/cuda_backend.hpp"
#include "real/cuda/environment.hpp"
#include "real/cuda/gemm/algorithm_file.hpp"
#include "real/engine/collective_summary.hpp"
#include "real/engine/kernels/routed_layout.hpp"
#include "real/engine/operator_name.hpp"
#include "real/host/host_backend.hpp"
#include "real/host/parameter_servers.hpp"
#include "sim/base/check.hpp"
#include "sim/base/input_error.hpp"
#include "sim/base/table_text.hpp"

namespace real {
namespace {

struct Job {
  const sim::Scenario& scenario;
  const sim::Plan& plan;  // that is executed
  const sim::Plan& told;  // of the scenario: what a timeline is told by
  const TrainingRunOptions& options;
  const Samples& samples;
  Algorithms algorithms;
  bool cuda = false;
  bool graphs = false;
  const std::function<void(const TrainingRun&)>& report;
  ParameterServers* servers = nullptr;
  std::optional<RouterScore> routing{};
};

// Nothing: evenly.
std::optional<RouterScore> routing_of(const sim::Scenario& scenario, bool cuda) {
  if (!scenario.model.has_experts()) return std::nullopt;
  switch (scenario.training.routing) {
    case sim::TokenRouting::automatic:
      return cuda ? std::nullopt : std::optional{RouterScore::softmax};
    case sim::TokenRouting::softmax:
      return RouterScore::softmax;
    case sim::TokenRouting::sigmoid:
      return RouterScore::sigmoid;
    case sim::TokenRouting::even:
      break;
  }
  return std::nullopt;
}

// With room for as many tokens as may come to a rank, where routers choose by their scores.
sim::Plan plan_with_room(const sim::Scenario& scenario, const sim::Plan& told, bool cuda) {
  if (!routing_of(scenario, cuda)) return told;
  sim::Plan plan =
      sim::make_plan(scenario.model, with_room_for_all(scenario.layout, scenario.model));
  for (std::uint32_t r = 0; r < static_cast<std::uint32_t>(told.world_size()); ++r)
    SIM_CHECK(plan.program(sim::RankId{r}).size() == told.program(sim::RankId{r}).size(), r);
  return plan;
}

void check_executable(const sim::Scenario& scenario, const sim::Plan& plan, bool cuda,
                      const Algorithms& algorithms, bool resumes, bool saves, bool processes) {
  const bool by_scores = routing_of(scenario, cuda).has_value();
  std::vector<std::string> sentences = engine_problems(plan, scenario.model, by_scores);
  if (cuda && by_scores)
    sentences.push_back(
        fmt::format("training.routing is {}: the CUDA backend gives every expert as many tokens; "
                    "allowed: even, or --backend host",
                    sim::word(scenario.training.routing)));
  if (sim::sends_signs(scenario.layout.compression) && !resumes)
    sentences.push_back(fmt::format(
        "layout.compression.gradients: {} goes on with the second moments of {}; train some "
        "steps with compression.gradients none and --checkpoint, then --resume them",
        word(scenario.layout.compression),
        scenario.layout.optimizer == sim::OptimizerKind::lamb ? "LAMB" : "Adam"));
  if (scenario.layout.trains_apart() && saves)
    sentences.emplace_back(
        "layout.local_steps: ranks have parameters of their own, of which a checkpoint has one "
        "copy; leave out --checkpoint");
  if (scenario.layout.has_servers() && (saves || resumes))
    sentences.emplace_back(
        "layout.servers: what the servers hold is in no checkpoint; leave out --checkpoint and "
        "--resume");
  if (scenario.layout.has_servers() && processes)
    sentences.emplace_back(
        "layout.servers: the servers of a run are in its process; leave out --processes and the "
        "launcher");
  if (scenario.layout.updates_on_servers() && scenario.training.clip > 0)
    sentences.push_back(fmt::format(
        "training.clip is {} with servers.mode {}: servers update before the norm of all gradients "
        "is known; allowed: 0",
        scenario.training.clip, word(scenario.layout.servers)));
  const std::vector<std::string> more =
      cuda ? cuda_problems(plan, scenario.model, algorithms) : host_problems(plan, scenario.model);
  sentences.insert(sentences.end(), more.begin(), more.end());
  std::vector<sim::Problem> problems;
  problems.reserve(sentences.size());
  for (std::string& sentence : sentences)
    problems.push_back({sim::SourcePosition{scenario.path, 0, 0}, std::move(sentence), ""});
  if (!problems.empty()) throw sim::InputError{std::move(problems)};
}

std::unique_ptr<Backend> make_backend(const Job& job, const BoundProgram& program, Seat& seat) {
  if (!job.cuda)
    return make_host_backend({.program = &program,
                              .transport = &seat.transport(),
                              .training = job.scenario.training,
                              .algorithms = job.algorithms,
                              .heartbeat = &seat.heartbeat(),
                              .servers = job.servers,
                              .routing = job.routing});
  const int share = std::max(job.options.ranks_per_gpu, 1);
  return make_cuda_backend({.program = &program,
                            .control = &seat.transport(),
                            .training = job.scenario.training,
                            .algorithms = job.algorithms,
                            .device = seat.world().local_rank / share,
                            .graphs = job.graphs,
                            .gemm_choices = algorithm_file_of_user(),
                            .shares_gpu = share > 1,
                            .heartbeat = &seat.heartbeat()});
}

// A line per so many steps.
void log_step(const Job& job, const StepResult& step, std::int64_t last) {
  const std::int64_t every = job.options.log_every;
  if (!job.options.log || every <= 0 || (step.step % every != 0 && step.step + 1 != last)) return;
  job.options.log(fmt::format(
      "step {} of {}: loss {:.5f}, gradient norm {:.4f}, learning rate {:.4g}, {}, {} tokens/s",
      step.step, last, step.loss, step.gradient_norm, step.learning_rate, sim::precise(step.time),
      sim::significant(static_cast<double>(job.plan.tokens) /
                       std::max(sim::in_seconds(step.time), 1e-12))));
}

// Ranks that wait for servers alone. Progress is that of rank 0; when all have ended, their steps
// are put together. None is recorded: spans are laid side by side by ranks that wait for each
// other.
void train_alone(const Job& job, Seat& seat, Trainer& trainer, TrainingRun& run) {
  const auto last = std::int64_t{job.scenario.training.steps};
  while (trainer.next_step() < last && !run.interrupted) {
    run.interrupted = seat.interrupted();
    if (run.interrupted) break;
    seat.inject_fault(trainer.next_step());
    run.steps.push_back(trainer.step_alone());
    if (seat.transport().rank() == 0) log_step(job, run.steps.back(), last);
  }
  job.servers->release();
  run.steps = trainer.agree_on(run.steps);
  if (seat.transport().rank() == 0 && job.options.on_step)
    for (const StepResult& step : run.steps)
      job.options.on_step(step);
}

// Whether the last step was recorded.
bool train_steps(const Job& job, Seat& seat, Trainer& trainer, TrainingRun& run) {
  if (job.scenario.layout.updates_on_servers()) {
    train_alone(job, seat, trainer, run);
    return false;
  }
  const auto last = std::int64_t{job.scenario.training.steps};
  bool recorded = false;
  while (trainer.next_step() < last) {
    if (seat.stop_wanted()) {
      run.interrupted = true;
      break;
    }
    seat.inject_fault(trainer.next_step());
    recorded = !job.cuda || trainer.next_step() + 1 == last;
    run.steps.push_back(trainer.step(recorded));
    if (seat.transport().rank() == 0) {
      log_step(job, run.steps.back(), last);
      if (job.options.on_step) job.options.on_step(run.steps.back());
    }
    const bool due = job.options.every > 0 && trainer.next_step() % job.options.every == 0;
    if (due && trainer.next_step() < last && !job.options.checkpoint.empty())
      trainer.save(job.options.checkpoint);
  }
  if (!job.options.checkpoint.empty() && !run.steps.empty()) trainer.save(job.options.checkpoint);
  return recorded;
}

std::string way_of(const World& world) {
  return world.source == "stepcast" ? "processes" : world.source;
}

void train_rank(const Job& job, Seat& seat) {
  const auto rank = static_cast<std::uint32_t>(seat.transport().rank());
  const BoundProgram program = bind(job.plan, job.scenario.model, sim::RankId{rank});
  const std::unique_ptr<Backend> backend = make_backend(job, program, seat);
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  Trainer trainer{{.program = &program,
                   .backend = backend.get(),
                   .transport = &seat.transport(),
                   .heartbeat = &seat.heartbeat(),
                   .samples = &job.samples,
                   .training = job.scenario.training,
                   .threads = std::max(1, cores / std::max(1, seat.world().local_size))}};
  if (job.options.resume.empty()) {
    trainer.start();
  } else {
    trainer.resume(job.options.resume);
  }
  TrainingRun run;
  const bool recorded = train_steps(job, seat, trainer, run);
  run.backend = job.cuda ? "cuda" : "host";
  run.launched_by = way_of(seat.world());
  run.next_step = trainer.next_step();
  if (recorded) {
    if (auto timeline = trainer.timeline(run.backend, job.algorithms)) {
      run.timeline = std::move(*timeline);
      if (job.routing)
        run.timeline.collectives = summarise_collectives(job.told, run.timeline, job.algorithms);
    }
  }
  run.memory = trainer.memory();
  run.expert_loads = trainer.expert_loads();
  if (job.servers != nullptr) run.staleness = job.servers->staleness();
  if (rank != 0) return;
  seat.heartbeat().enter(RankPhase::saving);
  run.warm_up = std::min(static_cast<std::size_t>(job.options.warm_up),
                         run.steps.empty() ? 0 : run.steps.size() - 1);
  for (int r = 0; r < job.plan.world_size(); ++r) {
    const sim::Program& of_rank = job.plan.program(sim::RankId{static_cast<std::uint32_t>(r)});
    run.planned_arena.push_back(&of_rank == program.program && r > 0
                                    ? program.arena_bytes
                                    : sim::arena_layout(of_rank).size.count());
  }
  job.report(run);
}

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds{static_cast<std::int64_t>(seconds * 1000)};
}

}  // namespace

std::vector<sim::Duration> TrainingRun::counted_times() const {
  std::vector<sim::Duration> times;
  for (std::size_t i = warm_up; i < steps.size(); ++i)
    times.push_back(steps[i].time);
  std::sort(times.begin(), times.end());
  return times;
}

sim::Scenario as_executed(sim::Scenario scenario) {
  if (!scenario.framework.execution.separate_update) return scenario;
  scenario.framework.execution.separate_update = scenario.model.execution.separate_update = false;
  scenario.followed.push_back({.key = "framework.separate_update",
                               .from = "true",
                               .to = "false",
                               .why = "the engine clips and updates in one pass"});
  return scenario;
}

void require_executable(const sim::Scenario& scenario, const sim::Plan& plan,
                        const TrainingRunOptions& options) {
  check_executable(scenario, plan, chosen_backend(options.backend) == BackendChoice::cuda,
                   algorithms_of(scenario), !options.resume.empty(), !options.checkpoint.empty(),
                   options.processes);
  static_cast<void>(samples_of(scenario));  // reads them
}

RunResult train_scenario(const sim::Scenario& scenario, const sim::Plan& plan,
                         const TrainingRunOptions& options,
                         const std::function<void(const TrainingRun&)>& report) {
  // Before CUDA is asked, and before there are threads and ranks.
  set_cuda_environment(options.ranks_per_gpu);
  const bool cuda = chosen_backend(options.backend) == BackendChoice::cuda;
  const Algorithms algorithms = algorithms_of(scenario);
  const bool launched = join_world(options.world, process_environment()).has_value();
  check_executable(scenario, plan, cuda, algorithms, !options.resume.empty(),
                   !options.checkpoint.empty(), options.processes || launched);
  const std::unique_ptr<Samples> samples = samples_of(scenario);
  const bool graphs = cuda && (scenario.options.graphs || wants_graphs(plan));
  std::optional<ParameterServers> servers;
  if (plan.layout.has_servers()) servers.emplace(plan, scenario.training);
  const sim::Plan executed = plan_with_room(scenario, plan, cuda);
  const Job job{.scenario = scenario,
                .plan = executed,
                .told = plan,
                .options = options,
                .samples = *samples,
                .algorithms = algorithms,
                .cuda = cuda,
                .graphs = graphs,
                .report = report,
                .servers = servers ? &*servers : nullptr,
                .routing = routing_of(scenario, cuda)};
  const Launch launch{
      .ranks = plan.world_size(),
      .kind = cuda || options.processes ? RankKind::processes : RankKind::threads,
      .world = options.world,
      .arguments = own_arguments(),
      .failure_timeout = milliseconds_of(options.failure_timeout),
      .setup_timeout = milliseconds_of(options.setup_timeout),
      .join_timeout = milliseconds_of(options.join_timeout),
      .ranks_per_gpu = options.ranks_per_gpu,
      .operator_name = [&plan](int rank, std::int64_t op) { return operator_name(plan, rank, op); },
      .inject = options.inject,
      .stop = options.stop};
  return run_ranks(launch, [&job](Seat& seat) { train_rank(job, seat); });
}

}  // namespace real
