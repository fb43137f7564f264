// Puts kernels into the tables of a program.
#pragma once

#include <optional>
#include <vector>

#include "sim/plan/block/op_work.hpp"
#include "sim/plan/sharding/sharding.hpp"

namespace sim::lowering {

std::uint32_t interned(ProgramBuilder& builder, const std::optional<Kernel>& kernel);  // or none
std::vector<std::uint32_t> interned(ProgramBuilder& builder, const std::vector<Kernel>& kernels);

// Tokens of an operator as they travel when they are gathered over the tensor group.
struct Gathered {
  DType dtype;
  Bytes bytes;
};
Gathered as_gathered(const Layout& layout, const ShardedOp& op, Bytes tokens);
// A shift of a slice by one tensor rank, as a collective.
std::uint32_t shift_by_copy_engines(ProgramBuilder& builder, const Gathered& slice);

}  // namespace sim::lowering
