// The CUDA backend: bf16 (or fp32) on one GPU per rank; a CUDA stream per plan stream, an event per
// edge between streams, NCCL for communication, one arena.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "real/engine/algorithms.hpp"
#include "real/engine/backend.hpp"
#include "real/net/transport.hpp"

namespace real {

struct CudaSetup {
  const BoundProgram* program = nullptr;  // outlives the backend, as the transport does
  Transport* control = nullptr;           // carries the ids of the communicators
  sim::Training training;
  Algorithms algorithms;
  int device = 0;
  bool graphs = false;  // capture a whole step in a CUDA graph
};

bool cuda_built();  // whether this program was built with CUDA
// What this backend cannot execute beyond engine_problems(), by operator; no GPU is touched.
std::vector<std::string> cuda_problems(const sim::Plan& plan, const sim::Model& model);

// Throws std::runtime_error without CUDA, without a GPU, or out of memory (naming bytes).
std::unique_ptr<Backend> make_cuda_backend(const CudaSetup& setup);

}  // namespace real
