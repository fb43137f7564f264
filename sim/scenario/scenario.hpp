// A scenario: a model on a cluster under a layout, read from one YAML file that names the others.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/framework/presets/preset.hpp"
#include "sim/layout/layout.hpp"
#include "sim/layout/training.hpp"
#include "sim/model/model.hpp"
#include "sim/options/simulation_options.hpp"
#include "sim/scenario/followed.hpp"
#include "sim/scenario/imported_facts.hpp"
#include "sim/topology/allocation.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

class ScenarioSources;
class TimeErrors;

// How the attention scores of a causal model count as model FLOPs: in full, as Megatron-LM and PaLM
// report MFU, or at the half that a causal kernel needs. The time does not depend on it.
enum class AttentionFlops : std::uint8_t { full, causal_half };
constexpr auto words_of(AttentionFlops) {
  return std::array{Word{AttentionFlops::full, "full"},
                    Word{AttentionFlops::causal_half, "causal_half"}};
}

struct FlopConvention {
  AttentionFlops attention = AttentionFlops::full;
  bool causal_half() const { return attention == AttentionFlops::causal_half; }
};

struct Scenario {
  std::string path;
  std::string name;
  Model model;
  std::string model_path;  // that of the scenario where it carries its model
  Layout layout;
  Cluster cluster;
  std::string cluster_path;
  ClusterChanges changes;                      // what-ifs, applied to `cluster` already
  std::optional<NodeAllocation> allocation{};  // applied to `cluster` already
  int asked_gpus_per_node = 0;  // cluster.gpus_per_node, applied already; 0: not in the file
  Framework framework;          // applied to `model` already
  bool names_framework = true;  // else `framework` is the default, and the job may run another
  // The preset of the framework. Null: it was made from the settings of a framework, not from a
  // preset.
  const Preset* preset = nullptr;
  SimulationOptions options;
  // The uncertainty that the runs of `anchor_path` leave; null, and no path, without any.
  std::shared_ptr<const TimeErrors> anchored{};
  std::string anchor_path{};
  std::vector<LinkFault> faults;  // applied to `cluster` already
  FlopConvention flops;
  Training training;  // of `stepcast run`; a forecast does not depend on it
  // The values that followed the knobs of `overrides`, or were filled in by the preset, in order.
  std::vector<Followed> followed{};
  // Facts of the import that wrote the file: keys `notes` and `carried`.
  std::vector<Note> notes{};
  CarriedSettings carried{};
};

// Reads a scenario file. `overrides` are "section.key=value" (of --set); they win over the file,
// and their mistakes are reported as lines of a file called "--set". What the file says of other
// keys follows them where it no longer goes with them (followers.hpp). Throws InputError with every
// problem of the file, including contradictions between model, layout and cluster
// (layout_problems), each at the line of the key that causes it.
Scenario load_scenario(const std::string& path, const std::vector<std::string>& overrides = {});
Scenario load_scenario(const ScenarioSources& sources);

// The same for who finds the layout: model, cluster, batch, formats and options of the file, with
// every GPU of the job a replica. What the file says of the parallelism itself is read and dropped.
Scenario load_workload(const ScenarioSources& sources);

// The memory that a layout needs is an answer, not an error: it is not checked here.

}  // namespace sim
