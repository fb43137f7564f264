// Events of a Kineto trace that are of use here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/program/op_work.hpp"

namespace sim {

struct TraceOperator {
  std::string name;
  std::vector<std::vector<std::int64_t>> dims;  // of its inputs; empty for what is no tensor
  std::vector<std::string> types;
};
struct TraceKernel {
  std::string name;
  double at = 0;  // us
  double microseconds = 0;
  std::int64_t external = -1;     // of the operator that issued it
  std::int64_t stream = -1;       // of the device
  std::int64_t correlation = -1;  // with the call that launched it
  std::string collective;         // as PyTorch names it; empty: no communication
  std::string dtype, group;
  std::int64_t in_elements = 0, out_elements = 0;
  int group_size = 0;
  std::vector<std::int64_t> ranks;
};
struct TraceLaunch {
  double at = 0;
  bool kernel = false;  // else another call of the runtime: a copy, a synchronisation
  std::int64_t correlation = -1;
};
// "ProfilerStep#N" on the host.
struct TraceStep {
  int number = 0;
  double begin = 0, end = 0;  // us
};
// A slice of a trace that Stepcast wrote (`--trace`): an operator of one rank.
struct TraceSlice {
  std::int64_t process = 0, thread = 0;  // rank and stream
  std::string name;
  double at = 0, microseconds = 0;
  std::int64_t op = -1;                         // of the rank's program
  std::int64_t m = 0, n = 0, k = 0, batch = 1;  // of a product
  std::string operation;                        // of a collective: "all_reduce"
  std::int64_t bytes = -1;                      // of a collective or a message; -1: neither
};
struct TraceEvents {
  std::map<std::int64_t, TraceOperator> operators;  // by External id: those with shapes
  std::vector<TraceKernel> kernels;                 // ascending start
  std::vector<TraceKernel> copies;                  // memory copied and set: the same
  std::vector<TraceSlice> slices;                   // ascending start
  std::vector<TraceStep> steps;
  std::optional<int> rank;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<TraceLaunch>> launches;  // by thread
  std::string device;
  int sms = 0;
  int warp = 0;            // threads of a warp: 32 of NVIDIA's, 64 of AMD's Instinct; 0: not told
  int capability = 0;      // major compute capability, of NVIDIA's; 0: not told
  bool calls_hip = false;  // the host launches through HIP
  std::vector<std::string> versions;
};

// Throws InputError for text that is no JSON trace (an object with traceEvents, or a bare list),
// and for a kernel that ends before it begins or lasts longer than a hundred days.
TraceEvents scan_kineto(std::string_view text, const std::string& name);

// A matrix product whose shapes are known: C[m,n] = A[m,k] B[k,n], `batch` times.
std::optional<Kernel> product_of(const TraceOperator& op);
// Bytes of an element as NCCL's metadata names its type; 0: unknown.
int element_bytes(const std::string& dtype);

// "allreduce", "_allgather_base", ... as curves name it; empty: unknown.
std::string collective_name(std::string_view torch);

}  // namespace sim
