// LAMB and 1-bit LAMB (sim/plan/rules/lamb.md says what they compute). Backends leave out of the
// table what they do not have.
#pragma once

#include <span>

#include "real/engine/bound_program.hpp"
#include "real/engine/kernels.hpp"

namespace real::kernels {

// Norms are of a tensor each. The coefficient of a tensor, |weights| / |update|, has bounds.
inline constexpr float lamb_most = 10, lamb_least = 0.01F;
// The workspace, bytes: of each of so many blocks two sums.
inline constexpr std::int64_t lamb_blocks = 264;
inline constexpr std::int64_t lamb_workspace = lamb_blocks * 2 * 8;
void lamb(const Adam& settings, const AdamState& state, std::span<const BoundTensor> tensors,
          Workspace workspace, StreamHandle stream);

// OneBitLamb is the further state of 1-bit LAMB: a second moment of the gradients that came, and
// for each tensor sim::lowering::lamb_numbers; all zero before its first step.
struct OneBitLamb {
  float* fresh = nullptr;
  float* numbers = nullptr;
};
// The gradient is the averaged momentum, scaled.
void one_bit_lamb(const Adam& settings, const AdamState& state, const OneBitLamb& kept,
                  std::span<const BoundTensor> tensors, StreamHandle stream);

struct LambTable {
  decltype(&kernels::lamb) lamb = nullptr;
  decltype(&kernels::one_bit_lamb) one_bit_lamb = nullptr;
};

}  // namespace real::kernels
