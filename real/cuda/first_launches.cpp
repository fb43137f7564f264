#include "real/cuda/first_launches.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "real/cuda/device.hpp"
#include "sim/model/dropout.hpp"

namespace real {
namespace {

// All that decides on the kernel of an operator, and more: two operators of one key run the same.
std::vector<std::int64_t> key_of(const sim::Model& model, const BoundOp& op) {
  std::vector<std::int64_t> key{
      static_cast<std::int64_t>(op.action), static_cast<std::int64_t>(op.pass),
      static_cast<std::int64_t>(op.kind),   static_cast<std::int64_t>(op.accumulate),
      static_cast<std::int64_t>(op.turn),   op.first_feature};
  key.push_back(op.model_op == nullptr ? -1 : static_cast<std::int64_t>(op.model_op->function));
  key.push_back(op.model_op != nullptr && sim::dropout_of(model, *op.model_op) > 0 ? 1 : 0);
  for (const Operand& operand : op.operands) {
    key.push_back(operand.exists() ? operand.bytes : -1);
    key.push_back(operand.exists() ? std::gcd(operand.offset, std::int64_t{256})
                                   : -1);  // alignment
  }
  return key;
}

void zero_operands(const BoundOp& op, const ProgramMemory& memory, cudaStream_t stream) {
  for (const Operand& operand : op.operands) {
    if (!operand.exists() || operand.bytes == 0) continue;
    check(cudaMemsetAsync(memory.at(operand.offset), 0, static_cast<std::size_t>(operand.bytes),
                          stream),
          "cudaMemsetAsync");
  }
}

}  // namespace

void run_first_launches(const FirstLaunches& what, cudaStream_t stream) {
  std::set<std::vector<std::int64_t>> seen;
  for (std::uint32_t i = 0; i < what.launches.size(); ++i) {
    const BoundOp& op = what.program.ops[i];
    const bool communicates = op.collective != nullptr || op.transfer != nullptr;
    if (!seen.insert(key_of(*what.program.model, op)).second) continue;
    zero_operands(op, what.memory, stream);
    if (!communicates) what.launches[i](stream);
    what.scans[i](stream);
  }
  for (const Launch& launch : what.packing)
    launch(stream);
  // The kernel that zeroes the rest of a message in which a collective packs gradients.
  cuda_kernels().zero(what.memory.arena().at(0),
                      std::min<std::int64_t>(what.program.arena_bytes, 256), stream);
}

}  // namespace real
