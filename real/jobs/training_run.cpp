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
#include "real/engine/support.hpp"
#include "real/host/host_backend.hpp"
#include "real/host/parameter_servers.hpp"
#include "real/host/partial_average.hpp"
#include "real/net/dropping_transport.hpp"
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

// Those that train together until all is done, or one is lost.
struct Team {
  Transport& transport;
  std::function<bool()> stop_wanted;
  KeptState* kept = nullptr;  // elastic: the state before the step that is trained
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
                      const Algorithms& algorithms, bool resumes, bool saves, bool processes,
                      const TrainingRunOptions& options) {
  const ElasticBatch elastic = options.elastic;
  const DroppingNetwork& network = options.network;
  const bool by_scores = routing_of(scenario, cuda).has_value();
  std::vector<std::string> sentences = engine_problems(plan, scenario.model, by_scores);
  if (cuda && by_scores)
    sentences.push_back(
        refusal(BackendName::cuda, Feature::expert_scores, sim::word(scenario.training.routing)));
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
  if (elastic != ElasticBatch::off) {
    const std::vector<std::string> lost = elastic_problems(scenario.layout);
    sentences.insert(sentences.end(), lost.begin(), lost.end());
    if (cuda || processes)
      sentences.emplace_back(
          "--elastic: ranks that go on are threads of one process; leave out --processes and the "
          "launcher, and use --backend host");
    if (lost.empty()) {
      try {
        static_cast<void>(without_a_replica(scenario.layout, scenario.model, elastic));
      } catch (const std::invalid_argument& none) {
        sentences.emplace_back(none.what());
      }
    }
  }
  if (network.rate > 0) {
    if (cuda)
      sentences.emplace_back("--drop-rate: NCCL's messages cannot be dropped; use --backend host");
    if (network.dropped == DroppedMessages::lost) {
      const std::vector<std::string> none = partial_average_problems(scenario.layout);
      sentences.insert(sentences.end(), none.begin(), none.end());
    }
  }
  const std::vector<std::string> more =
      cuda ? cuda_problems(plan, scenario.model, algorithms) : host_problems(plan, scenario.model);
  sentences.insert(sentences.end(), more.begin(), more.end());
  std::vector<sim::Problem> problems;
  problems.reserve(sentences.size());
  for (std::string& sentence : sentences)
    problems.push_back({sim::SourcePosition{scenario.path, 0, 0}, std::move(sentence), ""});
  if (!problems.empty()) throw sim::InputError{std::move(problems)};
}

std::unique_ptr<Backend> make_backend(const Job& job, const BoundProgram& program, Seat& seat,
                                      Transport& transport) {
  if (!job.cuda)
    return make_host_backend({.program = &program,
                              .transport = &transport,
                              .training = job.scenario.training,
                              .algorithms = job.algorithms,
                              .heartbeat = &seat.heartbeat(),
                              .servers = job.servers,
                              .routing = job.routing,
                              .lost_rate = job.options.network.dropped == DroppedMessages::lost
                                               ? job.options.network.rate
                                               : 0});
  const int share = std::max(job.options.ranks_per_gpu, 1);
  return make_cuda_backend({.program = &program,
                            .control = &transport,
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
bool train_steps(const Job& job, Seat& seat, const Team& team, Trainer& trainer, TrainingRun& run) {
  if (job.scenario.layout.updates_on_servers()) {
    train_alone(job, seat, trainer, run);
    return false;
  }
  const auto last = std::int64_t{job.scenario.training.steps};
  bool recorded = false;
  while (trainer.next_step() < last) {
    if (team.stop_wanted()) {
      run.interrupted = true;
      break;
    }
    if (team.kept != nullptr) *team.kept = trainer.keep();
    seat.inject_fault(trainer.next_step());
    recorded = !job.cuda || trainer.next_step() + 1 == last;
    run.steps.push_back(trainer.step(recorded));
    if (team.transport.rank() == 0) {
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

// The transport of the backend's messages, where the network drops some; else nothing.
std::unique_ptr<Transport> dropping(const Job& job, Transport& transport) {
  const DroppingNetwork& network = job.options.network;
  if (network.rate == 0 || network.dropped != DroppedMessages::resent) return nullptr;
  return make_dropping_transport(
      transport,
      {.rate = network.rate,
       .timeout = std::chrono::nanoseconds{static_cast<std::int64_t>(network.timeout * 1e9)},
       .seed = job.scenario.training.seed});
}

void train_with(const Job& job, Seat& seat, const Team& team, TrainingRun& run) {
  const std::unique_ptr<Transport> lossy = dropping(job, team.transport);
  const auto rank = static_cast<std::uint32_t>(team.transport.rank());
  const BoundProgram program = bind(job.plan, job.scenario.model, sim::RankId{rank});
  const std::unique_ptr<Backend> backend =
      make_backend(job, program, seat, lossy ? *lossy : team.transport);
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  Trainer trainer{{.program = &program,
                   .backend = backend.get(),
                   .transport = lossy ? lossy.get() : &team.transport,
                   .heartbeat = &seat.heartbeat(),
                   .samples = &job.samples,
                   .training = job.scenario.training,
                   .threads = std::max(1, cores / std::max(1, seat.world().local_size))}};
  if (!run.lost.empty()) {
    trainer.go_on(*team.kept);
  } else if (job.options.resume.empty()) {
    trainer.start();
  } else {
    trainer.resume(job.options.resume);
  }
  const bool recorded = train_steps(job, seat, team, trainer, run) && run.lost.empty();
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
  // Steps before a loss were those of others.
  const auto before =
      static_cast<std::size_t>(std::ranges::count_if(run.steps, [&](const StepResult& step) {
        return !run.lost.empty() && step.step < run.lost.back().step;
      }));
  run.warm_up = std::min(before + static_cast<std::size_t>(job.options.warm_up),
                         run.steps.empty() ? 0 : run.steps.size() - 1);
  for (int r = 0; r < job.plan.world_size(); ++r) {
    const sim::Program& of_rank = job.plan.program(sim::RankId{static_cast<std::uint32_t>(r)});
    run.planned_arena.push_back(&of_rank == program.program && r > 0
                                    ? program.arena_bytes
                                    : sim::arena_layout(of_rank).size.count());
  }
  job.report(run);
}

// The rank's place behind the loss of another one; nothing where its replica stops. Rethrows the
// failure that is being handled where it is no loss.
std::optional<Regrouping::Place> go_on_after(Regrouping& regrouping, const Crew& crew, Seat& seat,
                                             const Team& team, const RankFailure& failure) {
  if (team.kept->masters.empty()) throw;  // before the first step
  team.transport.abort(failure.rank(), failure.what());
  std::optional<Regrouping::Place> place =
      regrouping.join(crew, team.transport.rank(), team.kept->next_step, seat.heartbeat());
  if (!place) throw;
  if (place->crew == nullptr) return std::nullopt;
  return place;
}

void log_loss(const Job& job, const LostRank& lost) {
  if (!job.options.log) return;
  job.options.log(fmt::format("rank {} is lost: {} replica{} train step {} anew, {} sequences",
                              lost.rank, lost.replicas, lost.replicas == 1 ? "" : "s", lost.step,
                              lost.global_batch));
}

// A rank that fails is lost, but for what all ranks find together or what no smaller job mends.
void train_elastic(const Job& job, Seat& seat, Regrouping& regrouping) {
  TrainingRun run;
  KeptState kept;
  std::optional<Regrouping::Place> place = Regrouping::Place{.crew = &regrouping.first()};
  while (place) {
    const Crew& crew = *place->crew;
    Transport& transport = place->transport ? *place->transport : seat.transport();
    const auto stop_wanted = [&] {
      if (!place->transport) return seat.stop_wanted();
      const std::vector<char> wanted =
          Control{transport, &seat.heartbeat()}.all(static_cast<char>(seat.interrupted()));
      return std::ranges::find(wanted, 1) != wanted.end();
    };
    const Team team{.transport = transport, .stop_wanted = stop_wanted, .kept = &kept};
    const Job of_crew{.scenario = job.scenario,
                      .plan = crew.plan,
                      .told = crew.lost.empty() ? job.told : crew.plan,
                      .options = job.options,
                      .samples = job.samples,
                      .algorithms = job.algorithms,
                      .report = job.report,
                      .routing = job.routing};
    run.lost = crew.lost;
    if (!run.lost.empty() && transport.rank() == 0) log_loss(job, run.lost.back());
    try {
      return train_with(of_crew, seat, team, run);
    } catch (const RankFailure& failure) {
      place = go_on_after(regrouping, crew, seat, team, failure);
    } catch (const SharedFailure&) {
      throw;
    } catch (const sim::InputError&) {
      throw;
    } catch (const std::runtime_error&) {
      if (kept.masters.empty() || !regrouping.leave(crew, transport.rank())) throw;
      return;
    }
  }
}

void train_rank(const Job& job, Seat& seat, Regrouping* regrouping) {
  if (regrouping != nullptr) return train_elastic(job, seat, *regrouping);
  TrainingRun run;
  train_with(job, seat,
             {.transport = seat.transport(), .stop_wanted = [&seat] { return seat.stop_wanted(); }},
             run);
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
                   options.processes, options);
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
                   !options.checkpoint.empty(), options.processes || launched, options);
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
  std::optional<Regrouping> regrouping;
  if (options.elastic != ElasticBatch::off)
    regrouping.emplace(executed, scenario.model, options.elastic);
  return run_ranks(launch,
                   [&](Seat& seat) { train_rank(job, seat, regrouping ? &*regrouping : nullptr); });
}

}  // namespace real
