// The scheme of synchronisation that reaches a loss first: time of a step x steps that it needs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/convergence/choose/candidates.hpp"
#include "sim/convergence/factors.hpp"
#include "sim/sweep/axis.hpp"
#include "sim/sweep/point.hpp"

namespace sim {

// Evidence is what is known of the steps that a scheme needs, beside those of the scenario as it
// is.
enum class Evidence : std::uint8_t {
  same,      // the same sums in another order: as many steps
  measured,  // trained on a small model: a statistical factor
  none,
};
constexpr auto words_of(Evidence) {
  return std::array{Word{Evidence::same, "same"}, Word{Evidence::measured, "measured"},
                    Word{Evidence::none, "none"}};
}

struct Learning {
  Evidence evidence = Evidence::none;
  double factor = 1;     // steps, over those of the scenario as it is
  double deviation = 0;  // over seeds
  std::string why;       // of no evidence: "not measured", "did not reach the target"
};

struct ChooseQuestion {
  ScenarioInput scenario;
  std::vector<std::string> overrides;
  std::vector<std::string> over;     // axes, two at most; empty: the rate of the NICs
  std::vector<std::string> schemes;  // --scheme, beside the list
  std::vector<std::string> factors;  // files of them; the first that has a scheme counts
  std::optional<double> target;      // of the files', by its value; else the last of each
};

// SchemeForecast is of one scheme at a point of the grid.
struct SchemeForecast {
  PointResult step;
  // to_target: how long this scheme takes to be as far as one step of the scenario as it is;
  // without evidence the factor is 1.
  Duration to_target{};
  bool possible() const { return step.told() && step.fits(); }
};

struct ChoiceAtPoint {
  std::vector<std::string> values;      // of the axes
  std::vector<SchemeForecast> schemes;  // as Choice::candidates
  // Index of the first to the target: of those with evidence, which need a spread more of steps
  // than the mean, and of all; none where none fits.
  std::optional<std::size_t> best, fastest;
};

struct Choice {
  std::string scenario;
  std::vector<Axis> axes;
  std::vector<SchemeCandidate> candidates;
  std::vector<Learning> learning;  // by candidate
  std::vector<ChoiceAtPoint> points;
  // "90 % of the fall on byte-llama: byte-llama, 0.8 M parameters, 3 seeds", of each file.
  std::vector<std::string> measured_on;
};

// Throws InputError of the scenario, the factors and the axes; Stopped.
Choice choose(const ChooseQuestion& question, const std::function<void()>& done = {},
              const Control& control = {});

// The table says what is best where, why it changes, and what it rests on.
std::string choice_table(const Choice& choice);
std::string choice_markdown(const Choice& choice);
std::string choice_csv(const Choice& choice);
std::string choice_json(const Choice& choice);
std::string choice_svg(const Choice& choice);

}  // namespace sim
