// The CUDA backend: bf16 (or fp32) on one GPU per rank; a CUDA stream per plan stream, an event per
// edge between streams, NCCL for communication, one arena.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "real/engine/algorithms.hpp"
#include "real/engine/backend.hpp"
#include "real/net/heartbeat.hpp"
#include "real/net/transport.hpp"

namespace real {

struct CudaSetup {
  const BoundProgram* program = nullptr;  // outlives the backend, as the transport does
  Transport* control = nullptr;           // carries the ids of the communicators
  sim::Training training;
  Algorithms algorithms;
  int device = 0;
  bool graphs = false;             // capture a whole step in a CUDA graph
  Heartbeat* heartbeat = nullptr;  // may be null
  // An operator that the device does not get through in this time ends the run.
  std::chrono::milliseconds timeout{30'000};
};

bool cuda_built();  // whether this program was built with CUDA
// One line for `stepcast doctor`: versions of the libraries and what GPUs there are, or why none.
std::string cuda_summary();
// What this backend cannot execute beyond engine_problems(), by operator; no GPU is touched.
std::vector<std::string> cuda_problems(const sim::Plan& plan, const sim::Model& model,
                                       const Algorithms& algorithms = {});

// Collective over all ranks of the plan. Throws std::runtime_error without CUDA, without a GPU, or
// for an error of a library; OutOfMemory naming bytes.
std::unique_ptr<Backend> make_cuda_backend(const CudaSetup& setup);

}  // namespace real
