// The measured effect of schemes of synchronisation on learning: the steps that each needs to a
// target, beside those of the baseline. A file of them is what `stepcast convergence --record`
// writes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/convergence/curve.hpp"
#include "sim/convergence/scheme.hpp"

namespace sim {

// ConvergenceSetting is what was trained. Factors hold for this and for nothing else.
struct ConvergenceSetting {
  std::string suite, title;
  std::string program, date;  // that measured: "stepcast 0.1.0"; ISO 8601, UTC
  std::string model;
  std::int64_t parameters = 0;
  std::string scenario, data;  // names of the base scenario and of the file of the text
  std::string optimizer;
  double learning_rate = 0;  // its peak
  int replicas = 1;          // ranks with the same parameters, of the baseline
  std::int64_t global_batch = 1, sequence_length = 1;  // sequences per step; tokens of each
  int steps = 0;                                       // of every run
  std::vector<std::uint64_t> seeds;
  int smoothing = 1;  // window of smoothed(), steps
  std::int64_t tokens_per_step() const { return global_batch * sequence_length; }
};

enum class SeedEnd : std::uint8_t {
  trained,  // all steps
  failed,   // a loss or gradient that is not finite, or another failure: no loss counts
  not_run,  // interrupted before its end
};
constexpr auto words_of(SeedEnd) {
  return std::array{Word{SeedEnd::trained, "trained"}, Word{SeedEnd::failed, "failed"},
                    Word{SeedEnd::not_run, "not_run"}};
}

// A scheme trained with one seed.
struct SeedOutcome {
  SeedEnd end = SeedEnd::not_run;
  double final_loss = 0;                       // the last value of the smoothed curve
  std::vector<std::optional<double>> steps{};  // to each target; empty: not reached
};

struct SchemeOutcome {
  SyncScheme scheme;
  Bytes sent{};  // per step and rank (traffic.hpp)
  // staleness, with parameter servers that update at once: updates of other workers between a
  // worker's pull and its own, the mean over all updates and seeds.
  std::optional<double> staleness{};
  std::vector<SeedOutcome> seeds{};  // as the setting's
};

struct ConvergenceFactors {
  ConvergenceSetting setting;
  std::vector<LossTarget> targets;
  std::vector<SchemeOutcome> schemes;
  std::size_t baseline = 0;  // index into schemes
};

// The losses of one run: value i is the loss of the batch of step i, before its update.
struct LossCurve {
  std::size_t scheme = 0;  // index into schemes
  std::uint64_t seed = 0;
  std::vector<double> losses{};
  SeedEnd end = SeedEnd::not_run;
  std::string failure{};              // of a run that failed
  std::optional<double> staleness{};  // the mean of the run
};

// Fills schemes[].seeds from the curves. A target that is a share of the fall is, for each seed, a
// loss of its own: begin - share x (begin - end) of the baseline's smoothed curve of that seed.
// REQUIRES: setting, targets and schemes are set; at most one curve per scheme and seed.
void score_curves(ConvergenceFactors& factors, const std::vector<LossCurve>& curves);

// The loss that a target is for a seed, given the baseline's smoothed curve. REQUIRES: not empty.
double target_loss(const LossTarget& target, const std::vector<double>& baseline);

// The statistical factor of a scheme: steps to the target, over those of the baseline with the same
// seed.
struct StatisticalFactor {
  std::vector<std::optional<double>> by_seed;  // empty: not reached, or no run
  // Seeds whose run ended or failed, and whose baseline reached the target; of them, those that
  // reached it, too.
  int compared = 0, reached = 0;
  std::optional<Spread> spread;  // over seeds; empty unless all that are compared reached it
  // above is set where some did not: the least that the factor of those can be, from how far they
  // were trained.
  std::optional<double> above;
};
StatisticalFactor factor_of(const ConvergenceFactors& factors, std::size_t scheme,
                            std::size_t target);
// final_loss_of() is over the seeds that were trained; empty without any.
std::optional<Spread> final_loss_of(const SchemeOutcome& scheme);

// The scheme that was measured with exactly these keys, in any order, and this warm-up; null where
// none was. Numbers are equal by value. Nothing lies between two schemes: a density of 0.02 is not
// in a file that has 0.01 and 0.1.
const SchemeOutcome* find_scheme(const ConvergenceFactors& factors,
                                 const std::vector<SchemeKey>& keys, int warm_up = 0);

// factors_read.cpp, factors_write.cpp. Both readers throw InputError with every problem.
ConvergenceFactors load_factors(const std::string& path);
ConvergenceFactors parse_factors(std::string_view text, const std::string& path);
// REQUIRES: no seed is not_run.
std::string factors_yaml(const ConvergenceFactors& measured);

}  // namespace sim
