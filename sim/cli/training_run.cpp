#include "sim/cli/training_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

#include "real/cuda/algorithm_file.hpp"
#include "real/cuda/cuda_backend.hpp"
#include "real/cuda/environment.hpp"
#include "real/engine/operator_name.hpp"
#include "real/host/host_backend.hpp"
#include "sim/base/input_error.hpp"
#include "sim/cli/command.hpp"
#include "sim/report/numbers.hpp"

namespace sim {
namespace {

struct Job {
  const Scenario& scenario;
  const Plan& plan;
  const TrainingRunOptions& options;
  const real::Corpus& corpus;
  real::Algorithms algorithms;
  bool cuda = false;
  bool graphs = false;
  const std::function<void(const TrainingRun&)>& report;
};

void check_executable(const Scenario& scenario, const Plan& plan, bool cuda,
                      const real::Algorithms& algorithms) {
  std::vector<std::string> sentences = real::engine_problems(plan, scenario.model);
  const std::vector<std::string> more = cuda ? real::cuda_problems(plan, scenario.model, algorithms)
                                             : real::host_problems(plan, scenario.model);
  sentences.insert(sentences.end(), more.begin(), more.end());
  std::vector<Problem> problems;
  problems.reserve(sentences.size());
  for (std::string& sentence : sentences)
    problems.push_back({SourcePosition{scenario.path, 0, 0}, std::move(sentence), ""});
  if (!problems.empty()) throw InputError{std::move(problems)};
}

// The arguments of this process, for the ranks that it starts.
std::vector<std::string> own_arguments() {
  std::ifstream in{"/proc/self/cmdline", std::ios::binary};
  const std::string text{std::istreambuf_iterator<char>{in}, std::istreambuf_iterator<char>{}};
  std::vector<std::string> arguments;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    arguments.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (!arguments.empty()) arguments.erase(arguments.begin());
  return arguments;
}

std::unique_ptr<real::Backend> make_backend(const Job& job, const real::BoundProgram& program,
                                            real::Seat& seat) {
  if (!job.cuda)
    return real::make_host_backend({.program = &program,
                                    .transport = &seat.transport(),
                                    .training = job.scenario.training,
                                    .algorithms = job.algorithms,
                                    .heartbeat = &seat.heartbeat()});
  const int share = std::max(job.options.ranks_per_gpu, 1);
  return real::make_cuda_backend({.program = &program,
                                  .control = &seat.transport(),
                                  .training = job.scenario.training,
                                  .algorithms = job.algorithms,
                                  .device = seat.world().local_rank / share,
                                  .graphs = job.graphs,
                                  .gemm_choices = real::algorithm_file_of_user(),
                                  .shares_gpu = share > 1,
                                  .heartbeat = &seat.heartbeat()});
}

// What a run prints while it trains: a line per so many steps.
void log_step(const Job& job, const real::StepResult& step, std::int64_t last) {
  const std::int64_t every = job.options.log_every;
  if (every <= 0 || (step.step % every != 0 && step.step + 1 != last)) return;
  print_note(fmt::format(
      "step {} of {}: loss {:.5f}, gradient norm {:.4f}, learning rate {:.4g}, {}, {} tokens/s",
      step.step, last, step.loss, step.gradient_norm, step.learning_rate, precise(step.time),
      significant(static_cast<double>(job.plan.tokens) / std::max(in_seconds(step.time), 1e-12))));
}

// Whether the last step was recorded.
bool train_steps(const Job& job, real::Seat& seat, real::Trainer& trainer, TrainingRun& run) {
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
    if (seat.transport().rank() == 0) log_step(job, run.steps.back(), last);
    const bool due = job.options.every > 0 && trainer.next_step() % job.options.every == 0;
    if (due && trainer.next_step() < last && !job.options.checkpoint.empty())
      trainer.save(job.options.checkpoint);
  }
  if (!job.options.checkpoint.empty() && !run.steps.empty()) trainer.save(job.options.checkpoint);
  return recorded;
}

std::string way_of(const real::World& world) {
  return world.source == "stepcast" ? "processes" : world.source;
}

void train_rank(const Job& job, real::Seat& seat) {
  const auto rank = static_cast<std::uint32_t>(seat.transport().rank());
  const real::BoundProgram program = real::bind(job.plan, job.scenario.model, RankId{rank});
  const std::unique_ptr<real::Backend> backend = make_backend(job, program, seat);
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  real::Trainer trainer{{.program = &program,
                         .backend = backend.get(),
                         .transport = &seat.transport(),
                         .heartbeat = &seat.heartbeat(),
                         .corpus = &job.corpus,
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
    if (auto timeline = trainer.timeline(run.backend, job.algorithms))
      run.timeline = std::move(*timeline);
  }
  run.memory = trainer.memory();
  if (rank != 0) return;
  seat.heartbeat().enter(real::RankPhase::saving);
  run.warm_up = std::min(static_cast<std::size_t>(job.options.warm_up),
                         run.steps.empty() ? 0 : run.steps.size() - 1);
  for (int r = 0; r < job.plan.world_size(); ++r) {
    const Program& of_rank = job.plan.program(RankId{static_cast<std::uint32_t>(r)});
    run.planned_arena.push_back(&of_rank == program.program && r > 0
                                    ? program.arena_bytes
                                    : arena_layout(of_rank).size.count());
  }
  job.report(run);
}

real::AlgorithmChoice algorithm_of(const Scenario& scenario, Algorithm algorithm, const char* key) {
  switch (algorithm) {
    case Algorithm::automatic:
      return real::AlgorithmChoice::automatic;
    case Algorithm::ring:
      return real::AlgorithmChoice::ring;
    case Algorithm::tree:
      return real::AlgorithmChoice::tree;
    case Algorithm::halving_doubling:
      return real::AlgorithmChoice::halving_doubling;
    case Algorithm::hierarchical:
      return real::AlgorithmChoice::hierarchical;
    default:
      throw InputError{SourcePosition{scenario.path, 0, 0},
                       fmt::format("simulation.{}: the engine does not execute {}; allowed: auto, "
                                   "ring, tree, halving_doubling, hierarchical",
                                   key, word(algorithm))};
  }
}

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds{static_cast<std::int64_t>(seconds * 1000)};
}

}  // namespace

std::vector<Duration> TrainingRun::counted_times() const {
  std::vector<Duration> times;
  for (std::size_t i = warm_up; i < steps.size(); ++i)
    times.push_back(steps[i].time);
  std::sort(times.begin(), times.end());
  return times;
}

BackendChoice chosen_backend(BackendChoice choice) {
  if (choice != BackendChoice::automatic) return choice;
  // What NVIDIA's driver makes, on Linux and in Windows' Linux. Asking CUDA itself would take a
  // second and, in the process that only starts the others, a part of a GPU.
  const bool has_gpu =
      std::filesystem::exists("/dev/nvidiactl") || std::filesystem::exists("/dev/dxg");
  return real::cuda_built() && has_gpu ? BackendChoice::cuda : BackendChoice::host;
}

real::Algorithms algorithms_of(const Scenario& scenario) {
  const auto tensor =
      algorithm_of(scenario, scenario.options.tensor_choice.algorithm, "tensor_algorithm");
  const auto data =
      algorithm_of(scenario, scenario.options.data_choice.algorithm, "data_algorithm");
  real::Algorithms algorithms;
  algorithms.of_role.fill(data);
  algorithms.of_role[static_cast<std::size_t>(GroupRole::tensor)] = tensor;
  algorithms.ranks_per_node = scenario.cluster.gpus_per_node();
  return algorithms;
}

real::RunResult train_scenario(const Scenario& scenario, const Plan& plan,
                               const TrainingRunOptions& options,
                               const std::function<void(const TrainingRun&)>& report) {
  real::set_cuda_environment();  // before CUDA is asked, and before there are threads and ranks
  const bool cuda = chosen_backend(options.backend) == BackendChoice::cuda;
  const real::Algorithms algorithms = algorithms_of(scenario);
  check_executable(scenario, plan, cuda, algorithms);
  const std::string text = scenario.training.data.empty() ? data_folder() + "/data/corpus/tales.txt"
                                                          : scenario.training.data;
  const real::Corpus corpus{text, scenario.model, scenario.layout.sequence_length};
  const bool graphs = cuda && (scenario.options.graphs || real::wants_graphs(plan));
  const Job job{scenario, plan, options, corpus, algorithms, cuda, graphs, report};
  const real::Launch launch{
      .ranks = plan.world_size(),
      .kind = cuda || options.processes ? real::RankKind::processes : real::RankKind::threads,
      .world = options.world,
      .arguments = own_arguments(),
      .failure_timeout = milliseconds_of(options.failure_timeout),
      .setup_timeout = milliseconds_of(options.setup_timeout),
      .join_timeout = milliseconds_of(options.join_timeout),
      .ranks_per_gpu = options.ranks_per_gpu,
      .operator_name = [&plan](int rank,
                               std::int64_t op) { return real::operator_name(plan, rank, op); },
      .inject = options.inject};
  return real::run_ranks(launch, [&job](real::Seat& seat) { train_rank(job, seat); });
}

}  // namespace sim
