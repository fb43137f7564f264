// Products in 8 bits: which casts a program has, and the memory that the plan has no operand for.
//
// Operators `encode` cast what a product reads, and leave it in a slot of scratch memory; the
// product behind takes it from there. What no operator has cast (a norm of Transformer Engine
// writes 8 bits itself, say), the product casts first.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "real/engine/bound_program.hpp"
#include "real/engine/kernels.hpp"
#include "real/engine/kernels/products.hpp"

namespace real {

// Which operand of a linear's products.
enum class CodedTensor : std::uint8_t { input, weight, gradient };

// Scaling and format of an operand (Transformer Engine: HYBRID with scales of tensors, E4M3 with
// those of blocks; torchao, Float8LinearConfig). REQUIRES: can_scale().
bool can_scale(sim::EightBit software);
Scaling scaling_of(sim::EightBit software, CodedTensor tensor);
Float8 format_of(sim::EightBit software, CodedTensor tensor);
CodedOperands coded_operands(sim::EightBit software, GemmPass pass);

// A product in 8 bits.
bool is_coded(const BoundOp& op);

// CodedSlot is a place for what is cast for the next product. turned: the other order.
enum class CodedSlot : std::uint8_t {
  input,
  input_turned,
  weight,
  weight_turned,
  gradient,
  gradient_turned
};
inline constexpr std::size_t coded_slots = 6;
constexpr CodedSlot slot_of(CodedTensor tensor, bool turned) {
  return static_cast<CodedSlot>(2 * static_cast<int>(tensor) + (turned ? 1 : 0));
}

// CodedSites are the linears of a program whose products have 8 bits.
struct CodedSites {
  std::vector<std::int64_t> index;  // of each site: of its linear among them; -1: in other formats
  std::vector<bool> turns_saved;    // of each site: an operator turns or casts what was kept
  std::int64_t count = 0;
  std::int64_t microbatches = 1;
  bool delayed = false;
  std::int64_t kept_scales() const { return count * (2 * microbatches + 1); }
};
CodedSites coded_sites(const BoundProgram& program);

// Bytes beside the arena.
struct CodedNeeds {
  std::array<std::int64_t, coded_slots> slots{};
  std::int64_t scales = 0;
};
CodedNeeds coded_needs(const BoundProgram& program);

struct CodedMemory {
  std::array<std::uint8_t*, coded_slots> slots{};
  std::byte* scales = nullptr;
  std::int64_t scale_bytes = 0;  // 0: no product in 8 bits
  float* maximum = nullptr;      // of current scaling
  // As it was cast: of each linear the weight; of each and each micro-batch input and gradient.
  kernels::TensorScale* kept = nullptr;
  // Delayed: 3 tensors of each linear, 2 (Transformer Engine, base.py, set_meta_tensor: input,
  // weight, output; gradients of output and input).
  kernels::DelayedScales forward{}, backward{};
};
CodedMemory coded_memory(const BoundProgram& program, std::byte* scales, std::int64_t bytes);

// reset_scales() makes all as it is before the first step.
void reset_scales(const CodedMemory& memory, const kernels::Table& kernels,
                  kernels::StreamHandle stream);

}  // namespace real
