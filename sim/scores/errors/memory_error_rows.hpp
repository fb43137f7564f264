// The error of the memory forecast (sim/report/memory_error.hpp) by measured rows.
//
// A row's excess is what its run needed of a device beyond the forecast, as a fraction of the
// forecast. It is known where the run's memory was measured. Where only the outcome was, it is
// bounded: a run that ran needed at most what the device has, one that ran out of memory more. Such
// rows count in sets that list failures: where only what ran was published, that it ran says
// nothing.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/scores/score.hpp"

namespace sim {

struct MemoryExcess {
  std::string set;
  FrameworkName framework = FrameworkName::megatron;
  Schedule schedule = Schedule::one_f_one_b;
  // In (above, up_to]; the same twice: it is that. Either may be infinite.
  double above = 0, up_to = 0;
  std::vector<std::string> kinds{};  // of the job, where it is known (sim/report/memory_kinds.hpp)
  bool is_known() const { return above == up_to; }
};
std::vector<MemoryExcess> memory_excesses(std::span<const SetResult> results);

// The least values with at least a share of `shares` (ascending) at or below each, by the
// maximum-likelihood distribution of values that are known to lie in intervals (Turnbull 1976, J.
// R. Stat. Soc. B 38, 290-295), in which each interval of mass counts at its upper end. Infinity
// where more than the rest may lie beyond any bound. REQUIRES: values.
std::vector<double> quantiles_within(std::span<const MemoryExcess> values,
                                     std::span<const double> shares);

// validation/memory-error.yaml.
std::string memory_error_yaml(std::span<const MemoryExcess> values);

}  // namespace sim
