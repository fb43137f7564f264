// The input of a search: the workload, and which values each dimension of the layout may take.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/layout/layout.hpp"
#include "sim/layout/offload_parts.hpp"
#include "sim/report/memory_error.hpp"
#include "sim/scenario/layered.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/sources.hpp"

namespace sim {

// The values of each dimension; an empty list: all that are legal (README.md has what that means).
struct SearchSpace {
  std::vector<int> gpus;           // never empty once read
  std::vector<int> gpus_per_node;  // empty: what keeps the groups of a layout whole
  std::vector<int> tensor_parallel, context_parallel, pipeline_parallel, data_parallel;
  std::vector<int> expert_parallel, expert_tensor_parallel;
  std::vector<int> virtual_stages;
  std::vector<int> micro_batch;
  std::vector<int> zero_stage, shard_group;
  std::vector<int> sequence_parallel, reshard_after_forward;  // 0 or 1
  std::vector<int> prefetch_layers;
  std::vector<ContextExchange> context_exchange;
  std::vector<Recompute> recompute;
  std::vector<int> recompute_every;
  std::vector<Schedule> schedule;
  std::vector<std::vector<Dimension>> placement;
  std::vector<OffloadParts> offload;  // empty: the scenario's
  bool uneven = false;                // splits of the layers that are balanced by cost, too
  // Only what this framework runs is proposed (framework_space.hpp). None: the scenario names no
  // framework, and key `framework` of the section is absent.
  std::optional<PresetName> framework{};
};

// MemoryMargin is what a layout must leave free on the device for the forecast that it fits to be
// trusted.
struct MemoryMargin {
  std::optional<double> fraction{};      // of what the layout needs, ...
  std::optional<Bytes> bytes{};          // ... or an amount, ...
  std::optional<MemoryErrors> errors{};  // ... or the error of the forecast. None: nothing
  FrameworkName framework = FrameworkName::megatron;  // of `errors`
  // error_of() is the error for a layout of that model: wider where no measured run is of its kind
  // (memory_kinds.hpp).
  MemoryError error_of(const Layout& layout, const Model& model) const;
  // The most that it may need.
  Bytes most_of(const Layout& layout, const Model& model, Bytes capacity) const;
  bool is_on() const { return fraction || bytes || errors; }
};

struct SearchSpecification {
  Scenario workload;  // load_workload(): its layout has batch, formats, overlap, kernels
  SearchSpace space{};
  int top = 10;                  // layouts to rank
  int wave = 8;                  // layouts simulated between two looks at the best so far
  double front_slowdown = 0.02;  // how much slower than the best the memory front goes
  std::optional<double> price_per_gpu_hour{};
  MemoryMargin memory_margin{};
  // The scenario does not say overlap.pipeline: each layout has the preset's for its schedule.
  bool messages_of_preset = false;
  bool prune = true;  // false: every layout is simulated, as a check
};

// The `search` section. Records its problems there; `job` is the number of GPUs of the scenario.
// `framework`: that it names, if it does.
void read_search(const Layered& section, int job, std::optional<PresetName> framework,
                 SearchSpecification& specification);

// A scenario file, or a scenario that is given by options alone (ScenarioSources::of_options).
// Throws InputError. Jitter is refused: chance is no property of a layout.
SearchSpecification load_search(const ScenarioSources& sources);

}  // namespace sim
