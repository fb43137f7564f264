// A row of a table of runs as something to simulate. The rules by which free text becomes a model,
// a machine and a layout are the same for every row; validation/ROWS.md lists them.
#pragma once

#include <stdexcept>
#include <string>

#include "sim/rows/measured.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/sources.hpp"

namespace sim {

// Why a row cannot be simulated: what() is the reason that is listed.
class NotSimulated : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// all_fused: as if the framework had a fused kernel for everything.
enum class KernelForms : std::uint8_t { of_framework, all_fused };

// `data_folder` holds topologies/ and validation/machines/. Throws NotSimulated, and InputError for
// a broken cluster file.
Scenario run_scenario(const RunCells& cells, const std::string& data_folder,
                      KernelForms forms = KernelForms::of_framework);

// The preset that the keys of a row name, megatron if they name none; with what columns and keys
// say of its kernels.
const Preset& run_preset(const RunCells& cells);
Framework run_framework(const RunCells& cells);

// "section.key=value" as the reader of scenarios takes it. Throws NotSimulated where it is none.
ScenarioSources sources_of(const std::vector<std::string>& assignments);
// Throws NotSimulated with the first problem of the keys that were read.
void finish_row(const ScenarioSources& keys);

// The steps of it.
Model run_model(const RunCells& cells);
Layout run_layout(const RunCells& cells);

struct RunMachine {
  std::string file;  // the cluster, relative to the data folder
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 8;
  bool trays = false;      // nodes are the trays of racks: which racks hold them is still open
  ClusterChanges changes;  // of the file: the rate of its NICs
};
RunMachine run_machine(const RunCells& cells);
// run_cluster() is that machine, read from `path`, with as many nodes, and GPUs used of each, as
// the layout takes.
Cluster run_cluster(const RunMachine& machine, const std::string& path, const Layout& layout);

}  // namespace sim
