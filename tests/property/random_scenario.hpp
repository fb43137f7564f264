// Random scenarios: a small transformer, a cluster and a layout that suit each other, written as
// YAML files and read as a user's would be. A pure function of the seed.
#pragma once

#include <cstdint>
#include <string>

#include "sim/base/random.hpp"
#include "sim/scenario/scenario.hpp"

namespace sim::test {

// A row of draws.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_{seed} {}
  int below(int sides) { return static_cast<int>(uniform(seed_, 0, next_++) * sides); }
  bool coin() { return below(2) == 1; }
  template <class T, std::size_t N>
  const T& pick(const std::array<T, N>& options) {
    return options[static_cast<std::size_t>(below(static_cast<int>(N)))];
  }

 private:
  std::uint64_t seed_;
  std::uint64_t next_ = 0;
};

struct ScenarioLimits {
  int most_ranks = 64;
  bool trouble = true;         // stragglers and degraded links, sometimes
  bool one_dimension = false;  // one of tp, cp, dp, pp at a time
  bool nvswitch = false;       // shipped clusters with NVSwitches only
  bool experts = true;         // a mixture of experts, sometimes
  bool overlap = true;         // else communication never runs beside compute
  std::string cluster_yaml;    // all ranks on this cluster; empty: a shipped one, at random
  std::string algorithm;       // of collectives; empty: automatic
};

struct RandomScenario {
  std::string yaml;  // the scenario and, below, the model: enough to do it again
  Scenario scenario;
};

RandomScenario random_scenario(std::uint64_t seed, const ScenarioLimits& limits = {});

}  // namespace sim::test
