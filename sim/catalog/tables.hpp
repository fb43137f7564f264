// The tables that the catalogue is made of, one per section or file. catalog.cpp joins them.
#pragma once

#include <vector>

#include "sim/config/key.hpp"

namespace sim::catalog_tables {

std::vector<Key> top();          // name, model, cluster.*, flops.*
std::vector<Key> layout();       // layout.*
std::vector<Key> simulation();   // simulation.*
std::vector<Key> framework();    // framework.*
std::vector<Key> training();     // training.*
std::vector<Key> budget();       // budget.*
std::vector<Key> disturbance();  // disturbance.*
std::vector<Key> model();        // model.*, of a scenario that carries its model
std::vector<Key> machine();      // cluster.change.*: what-ifs of the cluster's file
std::vector<Key> device();       // cluster.device.*: what-ifs of the device's file

}  // namespace sim::catalog_tables
