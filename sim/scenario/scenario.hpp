// A scenario: a model on a cluster under a layout, read from one YAML file that names the others.
#pragma once

#include <string>
#include <vector>

#include "sim/engine/simulate.hpp"
#include "sim/model/model.hpp"
#include "sim/plan/layout.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

struct FlopConvention {
  bool causal_half = false;  // count causal attention at half (print which)
};

struct Scenario {
  std::string path;
  std::string name;
  Model model;
  Layout layout;
  Cluster cluster;
  SimulationOptions options;
  FlopConvention flops;
};

// Throws InputError with every problem of the scenario file, including contradictions between
// model, layout and cluster (layout_problems), each at the line of the key that causes it.
Scenario load_scenario(const std::string& path);

}  // namespace sim
