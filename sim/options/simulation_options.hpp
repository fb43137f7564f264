// How a step is simulated: the section `simulation` of a scenario, and the engine's switches.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/base/ids.hpp"
#include "sim/base/time_factors.hpp"
#include "sim/base/units.hpp"
#include "sim/base/words.hpp"
#include "sim/collective/collective_cost.hpp"
#include "sim/cost/kernel_cost.hpp"
#include "sim/options/block_limits.hpp"
#include "sim/options/graph_module.hpp"

namespace sim {

enum class CollectiveModel : std::uint8_t { fluid, stepwise };
constexpr auto words_of(CollectiveModel) {
  return std::array{Word{CollectiveModel::fluid, "fluid"},
                    Word{CollectiveModel::stepwise, "stepwise"}};
}

// A rank whose kernels take `factor` times as long.
struct Straggler {
  RankId rank;
  double factor = 1;
  bool operator==(const Straggler&) const = default;
};

struct SimulationOptions {
  CollectiveModel collectives = CollectiveModel::fluid;
  CollectiveChoice tensor_choice{}, data_choice{};  // algorithm and protocol per group role
  BlockLimits most_blocks{};                        // of NCCL's communicators
  bool fold = true;                                 // simulate one rank per symmetry class
  bool jump = true;     // over whole periods of a steady state: exact, the same with and without
  bool graphs = false;  // operators are captured in a graph: no host issue time
  std::vector<GraphModule> graph_scope{};  // with graphs: parts of layers; empty: all of the step
  std::optional<Duration> host_issue{};    // of one kernel; absent:
  Bandwidth host_update{};                 // Framework::host_update
  double host_calls = 1;                   // so many times the device file's
  double jitter = 0;       // standard deviation of ln(kernel time), per kernel; 0: none
  std::uint64_t seed = 1;  // of the jitter
  // Standard deviation of the speed of like devices in products and attention, which the power
  // limit binds: all run at the speed of the slowest (device_spread.hpp). 0: all alike.
  double device_spread = 0;
  std::vector<Straggler> stragglers{};
  TimeFactors factors{};     // all 1: the cost models as they are
  bool record_all = false;   // spans of all ranks, not of representatives only
  bool record_spans = true;  // false: the end of the step is all that is asked for
  // Where the step takes longer, the simulation ends as soon as that is sure, and its end is a time
  // beyond the limit that the step takes at least.
  std::optional<Duration> limit{};
  // What-ifs: resources made infinitely fast.
  bool free_compute = false, free_memory_traffic = false, free_tensor = false, free_context = false,
       free_expert = false, free_data = false, free_pipeline = false, free_host = false;
  // Mechanisms of the forecast. Without one it is simpler and further off: `stepcast validate
  // ablation` shows what each is worth.
  bool link_contention = true;  // transfers share links; else each runs as if alone
  Waves waves = Waves::whole;   // of tiles over the SMs
  bool interference = true;     // communication takes SMs and memory bandwidth from kernels
  bool persistent = true;       // products that are persistent keep their SMs; else all give way
  bool measured = true;         // times that cluster and device files carry beat the formulas
  bool operator==(const SimulationOptions&) const = default;
};

}  // namespace sim
