// A row of a table of runs as something to simulate. The rules by which free text becomes a model,
// a machine and a layout are the same for every row; validation/README.md lists them.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "sim/model/model.hpp"
#include "sim/plan/layout.hpp"
#include "sim/topology/cluster.hpp"
#include "sim/validation/measured.hpp"

namespace sim {

// Why a row cannot be simulated: what() is the reason that is listed.
class NotSimulated : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct RunScenario {
  Model model;
  Layout layout;
  Cluster cluster;
};

// `data_folder` holds topologies/ and validation/machines/. Throws NotSimulated, and InputError for
// a broken cluster file.
RunScenario run_scenario(const RunCells& cells, const std::string& data_folder);

// The steps of it.
Model run_model(const RunCells& cells);
Layout run_layout(const RunCells& cells);
std::string run_cluster_file(const RunCells& cells);  // relative to the data folder

}  // namespace sim
