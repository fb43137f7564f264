// Logs and traces of several tools, read as the measurements of one machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/calibration/kernel_rows.hpp"
#include "sim/calibration/kineto.hpp"
#include "sim/calibration/nccl_tests.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

struct MeasuredFiles {
  std::vector<std::string> nccl_logs{};      // of nccl-tests and rccl-tests
  std::vector<std::string> kineto_traces{};  // of the PyTorch profiler, of one rank each
  std::vector<std::string> kernel_rows{};    // tables of kernels (kernel_rows.hpp)
  std::int64_t seed = 1;                     // of the rows that are held out
  NcclTestsHints nccl{};  // facts that the logs do not state; `trays` is the cluster's
  KinetoHints kineto{};
};

struct FilesOfMachine {
  MeasuredMachine machine;
  KernelRowsOfFiles rows;          // of the tables of kernels
  std::vector<std::string> notes;  // parts left out or assumed, and logs of another GPU
};

// `cluster`: whose nodes the logs are counted in; null: a host of a log is a node. Throws as
// read_kineto() and read_nccl_tests() do.
FilesOfMachine read_measured_files(const MeasuredFiles& files, const Cluster* cluster);

}  // namespace sim
