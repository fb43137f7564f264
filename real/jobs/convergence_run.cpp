#include "real/jobs/convergence_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include "real/calibrate/machine_facts.hpp"
#include "real/jobs/convergence_plans.hpp"
#include "real/jobs/record_folder.hpp"
#include "real/jobs/training_run.hpp"

namespace real {
namespace {

using Clock = std::chrono::steady_clock;

std::string minutes_text(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  return fmt::format("{:.0f} min", seconds / 60);
}

class SuiteTraining {
 public:
  SuiteTraining(const sim::ConvergenceSuite& suite, const ConvergenceOptions& options)
      : suite_{suite}, options_{options}, plans_{plan_schemes(suite)} {}

  sim::ConvergenceResult run() {
    sim::ConvergenceResult result{.factors = empty_factors(), .curves = {}};
    for (const std::uint64_t seed : suite_.seeds) {
      for (const std::size_t scheme : baseline_first()) {
        if (options_.control.stopped()) break;
        result.curves.push_back(train(scheme, seed));
        ++ended_;
        tell(result.curves.back());
        stopped_ = stopped_ || result.curves.back().end == sim::SeedEnd::not_run;
        if (stopped_) break;
      }
      warm_ups_.clear();
      if (stopped_ || options_.control.stopped()) break;
    }
    result.interrupted = result.curves.size() < runs() || stopped_;
    std::ranges::stable_sort(result.curves, {}, &sim::LossCurve::scheme);
    sim::score_curves(result.factors, result.curves);
    return result;
  }

 private:
  struct WarmUp {
    std::string checkpoint;
    std::vector<double> losses;
  };

  std::size_t runs() const { return suite_.schemes.size() * suite_.seeds.size(); }

  std::vector<std::size_t> baseline_first() const {
    std::vector<std::size_t> order{suite_.baseline};
    for (std::size_t i = 0; i < suite_.schemes.size(); ++i)
      if (i != suite_.baseline) order.push_back(i);
    return order;
  }

  sim::ConvergenceFactors empty_factors() const {
    const sim::Scenario& base = plans_[suite_.baseline].scenario;
    sim::ConvergenceFactors factors{
        .setting = {.suite = suite_.name,
                    .title = suite_.title,
                    .program = "stepcast " STEPCAST_VERSION,
                    .date = date_and_time(),
                    .model = base.model.name,
                    .parameters = plans_[suite_.baseline].plan.parameters,
                    .scenario = base.name,
                    .data = std::filesystem::path{training_data(base)}.filename().string(),
                    .optimizer = std::string{sim::word(base.layout.optimizer)},
                    .learning_rate = base.training.learning_rate.peak,
                    .replicas = base.layout.replicas(),
                    .global_batch = base.layout.global_batch,
                    .sequence_length = base.layout.sequence_length,
                    .steps = suite_.steps,
                    .seeds = suite_.seeds,
                    .smoothing = suite_.smoothing},
        .targets = suite_.targets,
        .schemes = {},
        .baseline = suite_.baseline};
    for (std::size_t i = 0; i < suite_.schemes.size(); ++i)
      factors.schemes.push_back({suite_.schemes[i], plans_[i].sent, {}});
    return factors;
  }

  // Trains up to `steps` and appends the losses to the curve. Whether it came to its end.
  bool train_part(std::size_t scheme, int steps, TrainingRunOptions files, sim::LossCurve& curve) {
    sim::Scenario& scenario = plans_[scheme].scenario;
    scenario.training.seed = curve.seed;
    scenario.training.steps = steps;
    files.backend = BackendChoice::host;
    files.network = options_.network;
    files.stop = options_.control.stop;
    files.on_step = [&](const StepResult& step) {
      curve.losses.push_back(step.loss);
      options_.control.tell("training", share_of(curve.losses.size()));
    };
    const RunResult result =
        train_scenario(scenario, plans_[scheme].plan, files, [&](const TrainingRun& run) {
          if (!run.staleness.empty()) curve.staleness = run.staleness.mean();
        });
    if (result.end == RunEnd::done) return true;
    if (result.end == RunEnd::interrupted) return stopped_ = true, false;
    curve.end = sim::SeedEnd::failed;
    curve.failure = result.message;
    return false;
  }

  sim::LossCurve train(std::size_t scheme, std::uint64_t seed) {
    const auto begin = Clock::now();
    sim::LossCurve curve{.scheme = scheme, .seed = seed};
    const int warm_up = suite_.schemes[scheme].warm_up;
    TrainingRunOptions files;
    if (warm_up > 0) {
      const WarmUp* before = warm_up_of(warm_up, curve);
      if (!before) return curve;
      files.resume = before->checkpoint;
      curve.losses = before->losses;
    }
    if (train_part(scheme, suite_.steps, files, curve)) curve.end = sim::SeedEnd::trained;
    spent_ += std::chrono::duration<double>(Clock::now() - begin).count();
    return curve;
  }

  // The checkpoint behind so many steps of the baseline, trained once for a seed. Null where that
  // has failed; the curve then says so.
  const WarmUp* warm_up_of(int steps, sim::LossCurve& curve) {
    if (const auto found = warm_ups_.find(steps); found != warm_ups_.end()) return &found->second;
    const std::string folder = folder_.path() + fmt::format("/seed-{}-steps-{}", curve.seed, steps);
    sim::LossCurve shared{.scheme = suite_.baseline, .seed = curve.seed};
    TrainingRunOptions files;
    files.checkpoint = folder;
    if (!train_part(suite_.baseline, steps, files, shared)) {
      curve.end = shared.end;
      curve.losses = shared.losses;
      curve.failure = "in the warm-up: " + shared.failure;
      return nullptr;
    }
    return &warm_ups_.emplace(steps, WarmUp{folder, std::move(shared.losses)}).first->second;
  }

  double share_of(std::size_t steps_of_this) const {
    const double part = static_cast<double>(steps_of_this) / suite_.steps;
    return (static_cast<double>(ended_) + std::min(part, 1.0)) / static_cast<double>(runs());
  }

  void tell(const sim::LossCurve& curve) const {
    if (!options_.note) return;
    const double each = spent_ / static_cast<double>(ended_);
    std::string line = fmt::format("{} of {}: {}, seed {}: ", ended_, runs(),
                                   suite_.schemes[curve.scheme].name, curve.seed);
    if (!curve.losses.empty())
      line += fmt::format("loss {:.4f} at step {}", curve.losses.back(), curve.losses.size() - 1);
    if (curve.end == sim::SeedEnd::failed) line += "; failed: " + curve.failure;
    if (curve.end == sim::SeedEnd::not_run) line += "; interrupted";
    if (ended_ < runs() && curve.end != sim::SeedEnd::not_run)
      line += "; about " + minutes_text(each * static_cast<double>(runs() - ended_)) + " left";
    options_.note(line);
  }

  const sim::ConvergenceSuite& suite_;
  const ConvergenceOptions& options_;
  std::vector<SchemePlan> plans_;
  RecordFolder folder_{""};         // of checkpoints
  std::map<int, WarmUp> warm_ups_;  // by steps, of the seed at hand
  std::size_t ended_ = 0;
  double spent_ = 0;  // seconds
  bool stopped_ = false;
};

}  // namespace

sim::ConvergenceResult run_convergence(const sim::ConvergenceSuite& suite,
                                       const ConvergenceOptions& options) {
  if (join_world({}, process_environment()))
    throw std::invalid_argument{
        "the ranks of its runs are threads of one process; start it without a launcher"};
  return SuiteTraining{suite, options}.run();
}

}  // namespace real
