// Which kernels a framework runs an operator with: one fused kernel, or the several that its
// definition in PyTorch's operators becomes. The models are built fused; this makes them eager.
//
// Traffic is counted in elements of a 16-bit activation dtype per feature, an fp32 value as two.
// README.md derives each figure from the definition that frameworks share.
#pragma once

#include <cstdint>
#include <string>

#include "sim/base/words.hpp"
#include "sim/model/model.hpp"

namespace sim {

enum class KernelForm : std::uint8_t { fused, eager };
constexpr auto words_of(KernelForm) {
  return std::array{Word{KernelForm::fused, "fused"}, Word{KernelForm::eager, "eager"}};
}

// megatron: Megatron-LM with Apex and Transformer Engine: all fused. pytorch: what PyTorch runs
// without a compiler: its own LayerNorm forward and GELU are one kernel each, the rest is eager.
enum class FrameworkName : std::uint8_t { megatron, pytorch };
constexpr auto words_of(FrameworkName) {
  return std::array{Word{FrameworkName::megatron, "megatron"},
                    Word{FrameworkName::pytorch, "pytorch"}};
}

struct Framework {
  FrameworkName name = FrameworkName::megatron;
  KernelForm layer_norm = KernelForm::fused;
  KernelForm rms_norm = KernelForm::fused;
  KernelForm qkv = KernelForm::fused;  // gradients of Q, K and V written into one tensor
  KernelForm rotary = KernelForm::fused;
  KernelForm gate = KernelForm::fused;     // SwiGLU, GEGLU
  KernelForm softmax = KernelForm::fused;  // of unfused attention: scale, mask, softmax, casts
  KernelForm loss = KernelForm::fused;
  // false: a recomputation by operators drops what eager kernels pass between them within a layer
  // and keeps what a fused one would (torchtitan, selective_ac_option "op").
  bool keeps_intermediates = true;
};
Framework framework_of(FrameworkName name);

// The same model with the traffic, launches and saved tensors of that framework.
void run_with(const Framework& framework, Model& model);

}  // namespace sim
