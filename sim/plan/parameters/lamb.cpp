// deepspeedai/DeepSpeed at edaa7221. lamb: csrc/lamb/fused_lamb_cuda_kernel.cu, tensor by tensor:
//  part 1  reads gradient, weight and both moments, writes the moments, adds up squares
//  part 2  one block adds up those of all blocks
//  part 3  reads weight and moments once more, writes the weight and its copy in 16 bits
// one_bit_lamb: runtime/fp16/onebit/lamb.py, step, behind its exchange: operations of PyTorch, in
// numbers of 4 bytes per element:
//  gradient that came   mul 2, sub 3, div 2
//  fresh variance       mul_ 2, addcmul_ 3
//  direction            sqrt 2, add 2, div 3; mul and add of the decay 5
//  factor               square 2, sum 1; sqrt 2, add 2, div 3, max 1; square and sum 3
//  update               mul 2, add_ 3
#include "sim/plan/parameters/lamb.hpp"

namespace sim::lowering {

std::int64_t lamb_bytes(const Layout& layout, std::int64_t gradient) {
  constexpr std::int64_t number = 4;
  const std::int64_t weight = bytes_of(layout.activation_dtype);
  // Where weights are fp32 they are what is updated.
  const std::int64_t copy = layout.master_weights ? weight : 0;
  const std::int64_t states = number + layout.moment_bytes();
  if (layout.compression != GradientCompression::one_bit_lamb) return gradient + 3 * states + copy;
  constexpr std::int64_t operations = 43;
  return operations * number + (copy > 0 ? number + copy : 0);
}

int lamb_launches(const Layout& layout) {
  return layout.compression == GradientCompression::one_bit_lamb ? 22 : 3;
}

}  // namespace sim::lowering
