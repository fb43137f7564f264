// The CUDA backend: bf16 (or fp32) on one GPU per rank; a CUDA stream per plan stream, an event per
// edge between streams, NCCL for communication, one arena.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "real/engine/backend.hpp"
#include "real/engine/kernels/algorithms.hpp"
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
  std::string gemm_choices{};      // a file (algorithm_file.hpp); empty: each run chooses
  bool shares_gpu = false;         // with other ranks, and its host's cores with their threads
  Heartbeat* heartbeat = nullptr;  // may be null
  // An operator that the device does not get through in this time ends the run.
  std::chrono::milliseconds timeout{30'000};
  // Making and connecting a communicator takes seconds, however short the operators are.
  std::chrono::milliseconds connect_timeout{30'000};
};

bool cuda_built();  // whether this program was built with CUDA

// A GPU that the driver shows.
struct GpuFacts {
  std::string name;
  double memory_gib = 0;
  int capability_major = 0, capability_minor = 0;  // "compute capability 9.0"
  std::string problem{};                           // why this program does not run on it
};
// CudaFacts: CUDA in this program and on this machine. Versions as text, such as "13.0".
struct CudaFacts {
  std::string not_built;       // why this program has no CUDA backend; empty where it has
  std::string toolkit;         // that it was built with
  std::string cublaslt, nccl;  // that it finds here
  std::string architectures;   // that it has code for
  std::string driver;          // the newest CUDA that the driver takes; empty without a driver
  std::vector<GpuFacts> gpus;
  std::string no_gpu;                // why there are none, in the words of the CUDA runtime
  std::vector<std::string> missing;  // libraries: where each was looked for
};
// Asks the libraries and the driver; never throws for what is missing.
CudaFacts cuda_facts();
// The same in one line, for files that name the machine that they were measured on.
std::string cuda_summary();
// Operators that this backend cannot execute beyond engine_problems(); no GPU is touched.
std::vector<std::string> cuda_problems(const sim::Plan& plan, const sim::Model& model,
                                       const Algorithms& algorithms = {});

// Collective over all ranks of the plan. Throws std::runtime_error without CUDA, without a GPU, or
// for an error of a library; OutOfMemory naming bytes.
std::unique_ptr<Backend> make_cuda_backend(const CudaSetup& setup);

}  // namespace real
