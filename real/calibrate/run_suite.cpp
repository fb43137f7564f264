#include "real/calibrate/run_suite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <thread>

#include "real/calibrate/bench.hpp"
#include "real/calibrate/machine_facts.hpp"
#include "real/cuda/cuda_backend.hpp"
#include "real/cuda/environment.hpp"
#include "real/engine/operator_name.hpp"
#include "real/engine/tokens.hpp"
#include "real/engine/trainer.hpp"
#include "real/host/host_backend.hpp"
#include "sim/base/input_error.hpp"

namespace real {
namespace {

std::unique_ptr<Backend> make_backend(const SuiteRequest& request, const SuiteRun& run,
                                      const BoundProgram& program, Seat& seat) {
  if (request.backend == MeasuredBackend::host)
    return make_host_backend({.program = &program,
                              .transport = &seat.transport(),
                              .training = run.training,
                              .algorithms = run.algorithms,
                              .heartbeat = &seat.heartbeat()});
  CudaSetup setup;
  setup.program = &program;
  setup.control = &seat.transport();
  setup.training = run.training;
  setup.algorithms = run.algorithms;
  setup.device = device_of(seat.world(), request.ranks_per_gpu);
  setup.heartbeat = &seat.heartbeat();
  return make_cuda_backend(setup);
}

// The recorded step in the middle, by time, at rank 0.
sim::Timeline typical_timeline(Trainer& trainer, const SuiteRequest& request, const SuiteRun& run,
                               double& last_loss) {
  std::vector<sim::Timeline> recorded;
  for (int i = 0; i < request.recorded_steps; ++i) {
    last_loss = trainer.step(true).loss;
    std::optional<sim::Timeline> timeline =
        trainer.timeline(std::string{sim::word(request.backend)}, run.algorithms);
    if (timeline) recorded.push_back(std::move(*timeline));
  }
  if (recorded.empty()) return {};
  std::sort(recorded.begin(), recorded.end(),
            [](const sim::Timeline& a, const sim::Timeline& b) { return a.end < b.end; });
  return std::move(recorded[recorded.size() / 2]);
}

void write_result(const SuiteRequest& request, const SuiteRun& run, const sim::Timeline& timeline,
                  const std::vector<RankMemory>& memory, RunFacts facts,
                  std::vector<sim::Duration> steps) {
  sim::RecordOrigin origin;
  origin.scenario = run.name;
  origin.date = date_and_time();
  origin.machine = machine_line(request.backend);
  origin.steps = std::move(steps);
  for (const RankMemory& rank : memory)
    facts.device_memory = std::max(facts.device_memory, sim::Bytes{rank.device});
  origin.provenance = to_provenance(facts);
  sim::Record record = sim::make_record(*run.what.plan, timeline, origin);
  for (sim::RecordedTrack& track : record.tracks)
    track.peak_memory = sim::Bytes{memory.at(track.rank.value).arena};
  sim::write_record(record_path(request.folder, run.name), record);
}

// Initial weights are made by all cores.
int threads_of(const SuiteRequest& request) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cores / request.ranks);
}

void run_one(const SuiteRequest& request, const SuiteRun& run, Seat& seat) {
  const sim::RankId rank{static_cast<std::uint32_t>(seat.world().rank)};
  const BoundProgram program = bind(*run.what.plan, *run.what.model, rank);
  const std::unique_ptr<Backend> backend = make_backend(request, run, program, seat);
  const Corpus corpus{run.training.data, *run.what.model, run.what.plan->layout.sequence_length};
  Trainer trainer{{.program = &program,
                   .backend = backend.get(),
                   .transport = &seat.transport(),
                   .heartbeat = &seat.heartbeat(),
                   .corpus = &corpus,
                   .training = run.training,
                   .threads = threads_of(request)}};
  trainer.start();
  RunFacts facts;
  for (int step = 0; step < request.warm_up_steps; ++step) {
    const StepResult result = trainer.step(false);
    if (step == 0) facts.first_loss = result.loss;
  }
  std::vector<sim::Duration> steps;
  for (int step = 0; step < request.measured_steps; ++step) {
    const StepResult result = trainer.step(false);
    if (request.warm_up_steps == 0 && step == 0) facts.first_loss = result.loss;
    steps.push_back(result.time);
  }
  const sim::Timeline timeline = typical_timeline(trainer, request, run, facts.last_loss);
  const std::vector<RankMemory> memory = trainer.memory();
  if (seat.world().rank == 0) write_result(request, run, timeline, memory, facts, steps);
}

void check(const SuiteRequest& request) {
  for (const SuiteRun& run : request.runs) {
    if (run.what.plan->world_size() != request.ranks)
      throw sim::InputError(sim::SourcePosition{.file = run.what.source},
                            fmt::format("{} has {} ranks, the suite {}", run.name,
                                        run.what.plan->world_size(), request.ranks));
    std::vector<std::string> problems = engine_problems(*run.what.plan, *run.what.model);
    if (problems.empty())
      problems = request.backend == MeasuredBackend::host
                     ? host_problems(*run.what.plan, *run.what.model)
                     : cuda_problems(*run.what.plan, *run.what.model, run.algorithms);
    if (!problems.empty())
      throw sim::InputError(sim::SourcePosition{.file = run.what.source},
                            fmt::format("{}: {}", run.name, problems.front()));
  }
}

void announce(const SuiteRequest& request, const SuiteRun& run) {
  if (!request.announce) return;
  const std::string line = fmt::format("running {}\n", run.name);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

std::string record_path(const std::string& folder, const std::string& name) {
  return folder + "/" + name + ".json";
}

std::vector<std::string> to_provenance(const RunFacts& facts) {
  return {fmt::format("first_loss {}", facts.first_loss),
          fmt::format("last_loss {}", facts.last_loss),
          fmt::format("device_memory_bytes {}", facts.device_memory.count())};
}

RunFacts facts_of(const sim::Record& record, const std::string& path) {
  const auto number = [&](std::string_view key) {
    for (const std::string& line : record.origin.provenance) {
      if (line.size() <= key.size() || line.compare(0, key.size(), key) != 0) continue;
      double value = 0;
      const char* const end = line.data() + line.size();
      const auto [rest, error] = std::from_chars(line.data() + key.size() + 1, end, value);
      if (error == std::errc{} && rest == end) return value;
    }
    throw sim::InputError{sim::SourcePosition{path, 0, 0},
                          fmt::format("its provenance has no '{} NUMBER'", key)};
  };
  return {.first_loss = number("first_loss"),
          .last_loss = number("last_loss"),
          .device_memory = sim::Bytes{static_cast<std::int64_t>(number("device_memory_bytes"))}};
}

RunResult run_suite(const SuiteRequest& request) {
  check(request);
  set_cuda_environment();  // before there are threads and ranks
  Launch launch;
  launch.ranks = request.ranks;
  launch.kind = request.backend == MeasuredBackend::host ? RankKind::threads : RankKind::processes;
  launch.arguments = request.arguments;
  launch.ranks_per_gpu = request.ranks_per_gpu;
  if (!request.runs.empty()) {
    // Which of the runs it was, the line above the message says.
    const sim::Plan* plan = request.runs.front().what.plan;
    if (request.runs.size() == 1)
      launch.operator_name = [plan](int rank, std::int64_t op) {
        return operator_name(*plan, rank, op);
      };
  }
  return run_ranks(launch, [&](Seat& seat) {
    for (const SuiteRun& run : request.runs) {
      if (seat.stop_wanted()) return;
      if (seat.world().rank == 0) announce(request, run);
      run_one(request, run, seat);
    }
  });
}

}  // namespace real
