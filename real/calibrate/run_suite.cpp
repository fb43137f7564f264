#include "real/calibrate/run_suite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <thread>

#include "real/calibrate/agree.hpp"
#include "real/calibrate/bench.hpp"
#include "real/calibrate/machine_facts.hpp"
#include "real/calibrate/reference.hpp"
#include "real/cuda/cuda_backend.hpp"
#include "real/cuda/environment.hpp"
#include "real/cuda/gemm/algorithm_file.hpp"
#include "real/engine/data/labelled_text.hpp"
#include "real/engine/data/tokens.hpp"
#include "real/engine/operator_name.hpp"
#include "real/engine/trainer.hpp"
#include "real/host/host_backend.hpp"
#include "sim/base/input_error.hpp"
#include "sim/base/median_interval.hpp"

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
  setup.graphs = wants_graphs(*run.what.plan);
  setup.gemm_choices = algorithm_file_of_user();
  setup.shares_gpu = request.ranks_per_gpu > 1;
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

// The steps that are timed, with the reference between them.
struct TimedSteps {
  std::vector<sim::Duration> steps;
  StepReferences references;
  GpuLog device;
};

class StepTimer {
 public:
  StepTimer(Trainer& trainer, Reference& reference, Seat& seat)
      : trainer_{trainer}, reference_{reference}, transport_{seat.transport()}, seat_{seat} {}

  // `step`: how long one takes, about.
  void choose_length(sim::Duration step) {
    const ReferenceSample probe =
        sample_reference(reference_, transport_, reference_.pieces_between_kernels());
    pieces_ = static_cast<int>(
        agree(transport_, reference_.pieces_beside_step(sim::to_seconds(step), probe.whole)));
  }
  void mark() {
    seat_.heartbeat().enter(RankPhase::preparing);  // in no step, whose operators have a limit
    const ReferenceSample sample = sample_reference(reference_, transport_, pieces_);
    timed_.references.product.push_back(sample.typical.product);
    timed_.references.copy.push_back(sample.typical.copy);
    timed_.references.whole.push_back(sample.whole);
    if (const std::optional<GpuReading> state = reference_.state()) timed_.device.add(*state);
  }
  StepResult step() {
    StepResult result = trainer_.step(false);
    mark();
    timed_.steps.push_back(result.time);
    const std::vector<double>& whole = timed_.references.whole;
    const std::size_t i = timed_.steps.size();
    relative_.push_back(sim::to_seconds(result.time) / (whole[i - 1] + whole[i]));
    return result;
  }
  // Whether the median of the steps, over the reference beside each, is known well enough.
  bool enough(const SuiteRequest& request) const {
    const std::size_t done = timed_.steps.size();
    const auto wanted = static_cast<std::size_t>(request.measured_steps);
    const bool stop = done >= wanted && (done >= more_steps * wanted ||
                                         sim::median_half_width(relative_) < enough_spread);
    return agree(transport_, stop ? 1 : 0) > 0;
  }
  const TimedSteps& timed() const { return timed_; }

 private:
  static constexpr std::size_t more_steps = 3;
  static constexpr double enough_spread = 0.03;

  Trainer& trainer_;
  Reference& reference_;
  Transport& transport_;
  Seat& seat_;
  int pieces_ = 1;
  TimedSteps timed_;
  std::vector<double> relative_;
};

// Device memory of the backend, without its reference, which is not part of a run.
sim::Bytes device_memory_of(const RankMemory& rank, const SuiteRequest& request,
                            const Reference& reference) {
  const std::int64_t own = reference.bytes() * std::max(1, request.ranks_per_gpu);
  return sim::Bytes{std::max<std::int64_t>(0, rank.device - own)};
}

void write_result(const SuiteRequest& request, const SuiteRun& run, const sim::Timeline& timeline,
                  const RunFacts& facts, const std::vector<RankMemory>& memory,
                  std::vector<sim::Duration> steps) {
  sim::RecordOrigin origin;
  origin.scenario = run.name;
  origin.date = date_and_time();
  origin.machine = machine_line(request.backend);
  origin.steps = std::move(steps);
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

void run_one(const SuiteRequest& request, const SuiteRun& run, Reference& reference, Seat& seat) {
  const sim::RankId rank{static_cast<std::uint32_t>(seat.world().rank)};
  const BoundProgram program = bind(*run.what.plan, *run.what.model, rank);
  const std::unique_ptr<Backend> backend = make_backend(request, run, program, seat);
  const auto samples =
      open_samples(run.training.data, *run.what.model, run.what.plan->layout.attended_length());
  Trainer trainer{{.program = &program,
                   .backend = backend.get(),
                   .transport = &seat.transport(),
                   .heartbeat = &seat.heartbeat(),
                   .samples = samples.get(),
                   .training = run.training,
                   .threads = threads_of(request)}};
  trainer.start();
  RunFacts facts;
  sim::Duration last{};
  for (int step = 0; step < request.warm_up_steps; ++step) {
    const StepResult result = trainer.step(false);
    if (step == 0) facts.first_loss = result.loss;
    last = result.time;
  }
  StepTimer timer{trainer, reference, seat};
  timer.choose_length(last);
  timer.mark();
  do {
    const StepResult result = timer.step();
    if (request.warm_up_steps == 0 && timer.timed().steps.size() == 1)
      facts.first_loss = result.loss;
  } while (!timer.enough(request));
  const sim::Timeline timeline = typical_timeline(trainer, request, run, facts.last_loss);
  timer.mark();
  facts.references = timer.timed().references;
  facts.device = timer.timed().device.empty() ? reference.no_state() : timer.timed().device.text();
  const std::vector<RankMemory> memory = trainer.memory();
  for (const RankMemory& held : memory)
    facts.device_memory = std::max(facts.device_memory, device_memory_of(held, request, reference));
  if (seat.world().rank == 0)
    write_result(request, run, timeline, facts, memory, timer.timed().steps);
}

// The numbers behind a key; nothing where there is no such line, or something else is in it.
std::vector<double> numbers_of(const std::vector<std::string>& lines, std::string_view key) {
  for (const std::string& line : lines) {
    if (line.size() <= key.size() || line.compare(0, key.size(), key) != 0) continue;
    std::vector<double> values;
    const char* at = line.data() + key.size();
    const char* const end = line.data() + line.size();
    while (at != end && *at == ' ') {
      double value = 0;
      const auto [rest, error] = std::from_chars(at + 1, end, value);
      if (error != std::errc{}) return {};
      values.push_back(value);
      at = rest;
    }
    if (at == end) return values;
  }
  return {};
}

// One before each step, one behind the last, one behind those that are recorded; or none at all.
void check_references(const StepReferences& references, std::size_t steps,
                      const std::string& path) {
  const std::size_t wanted = references.whole.empty() ? 0 : steps + 2;
  for (const std::vector<double>* values :
       {&references.product, &references.copy, &references.whole}) {
    const bool positive =
        std::all_of(values->begin(), values->end(), [](double value) { return value > 0; });
    if (values->size() != wanted || !positive)
      throw sim::InputError{
          sim::SourcePosition{path, 0, 0},
          fmt::format(
              "its provenance has {} values of the reference for {} steps; it needs {}, all "
              "above 0",
              values->size(), steps, wanted)};
  }
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
  std::vector<std::string> lines{
      fmt::format("first_loss {}", facts.first_loss), fmt::format("last_loss {}", facts.last_loss),
      fmt::format("device_memory_bytes {}", facts.device_memory.count())};
  if (!facts.device.empty()) lines.push_back("device " + facts.device);
  const StepReferences& references = facts.references;
  if (references.whole.empty()) return lines;
  lines.push_back(fmt::format("reference_product_s {}", fmt::join(references.product, " ")));
  lines.push_back(fmt::format("reference_copy_s {}", fmt::join(references.copy, " ")));
  lines.push_back(fmt::format("reference_whole_s {}", fmt::join(references.whole, " ")));
  return lines;
}

RunFacts facts_of(const sim::Record& record, const std::string& path) {
  const std::vector<std::string>& lines = record.origin.provenance;
  const auto number = [&](std::string_view key) {
    const std::vector<double> found = numbers_of(lines, key);
    if (found.size() == 1) return found[0];
    throw sim::InputError{sim::SourcePosition{path, 0, 0},
                          fmt::format("its provenance has no '{} NUMBER'", key)};
  };
  RunFacts facts{
      .first_loss = number("first_loss"),
      .last_loss = number("last_loss"),
      .device_memory = sim::Bytes{static_cast<std::int64_t>(number("device_memory_bytes"))}};
  facts.references = {.product = numbers_of(lines, "reference_product_s"),
                      .copy = numbers_of(lines, "reference_copy_s"),
                      .whole = numbers_of(lines, "reference_whole_s")};
  check_references(facts.references, record.origin.steps.size(), path);
  return facts;
}

RunResult run_suite(const SuiteRequest& request) {
  check(request);
  set_cuda_environment(request.ranks_per_gpu);  // before there are threads and ranks
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
    const std::unique_ptr<Reference> reference =
        request.backend == MeasuredBackend::host
            ? make_host_reference(ranks_share_cores(request.ranks))
            : make_cuda_reference(device_of(seat.world(), request.ranks_per_gpu));
    for (const SuiteRun& run : request.runs) {
      if (seat.stop_wanted()) return;
      if (seat.world().rank == 0) announce(request, run);
      run_one(request, run, *reference, seat);
    }
  });
}

}  // namespace real
