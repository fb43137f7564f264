// Time of the host to issue the operators of a program (sim/framework/pages/host.md).
#pragma once

#include <cstdint>
#include <optional>

#include "sim/engine/simulate.hpp"
#include "sim/program/program.hpp"

namespace sim {

struct HostIssue {
  Duration kernel{};  // of a kernel, collective or message, with the Python module around it
  Duration part{};    // of a kernel issued from C++ within such a call: a bare call at most
  // `count` launches, which are parts or not.
  Duration of(std::int64_t count, bool parts) const { return (parts ? part : kernel) * count; }
};

// Zero under CUDA graphs of the whole step.
HostIssue host_issue_of(const SimulationOptions& options, const Device& device);

// Launches of an operator.
int launches_of(const Program& program, std::uint32_t op);

// Tells which operators of a program are parts of a call. Ask in issue order, of every operator.
//
// Transformer Engine issues all parts of a cut GEMM, and the slices that they need or make, from
// C++ in one call from Python (transformer_engine/common/comm_gemm_overlap/comm_gemm_overlap.cpp,
// CommOverlapP2PBase::split_overlap_ag and CommOverlapBase::split_overlap_rs: a loop of
// nvte_cublas_gemm, userbuffers_send and userbuffers_recv; bulk_overlap likewise). The first part
// of the GEMM stands for the call.
class CallParts {
 public:
  explicit CallParts(const Program& program) : program_{program} {}
  bool is_part(std::uint32_t op);

 private:
  const Program& program_;
  std::optional<std::uint32_t> last_;  // on the compute stream
};

}  // namespace sim
