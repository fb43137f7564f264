// Kinds of kernels, by words of their names.
#pragma once

#include <optional>
#include <string_view>

#include "sim/program/op_work.hpp"

namespace sim {

// kind_of_kernel is the kind by the kernel's name and that of the operator that issued it (empty:
// not known). Elementwise, where no word is known: most kernels without a name of their own move
// memory.
OpKind kind_of_kernel(std::string_view name, std::string_view op);

// A collective's kernel by its name: "ncclDevKernel_AllReduce_Sum_bf16_RING_LL". Also the name of
// an operator: "c10d::allreduce_".
struct NamedCollective {
  std::optional<CollectiveKind> kind{};  // empty: a message, or not told
  bool message = false;
};
NamedCollective collective_of_kernel(std::string_view name);

// A kernel of a communication library: NCCL, RCCL, NVSHMEM, DeepEP, or of peers' memory.
bool is_communication(std::string_view name);

}  // namespace sim
