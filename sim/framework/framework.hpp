// Which kernels a framework runs an operator with: one fused kernel, or the several that its
// definition in PyTorch's operators becomes. The models are built fused; this makes them eager.
//
// Traffic is counted in elements of a 16-bit activation dtype per feature, an fp32 value as two.
// pages/kernels.md gives the definition behind each figure; the sums are in framework.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/base/units.hpp"
#include "sim/base/words.hpp"
#include "sim/model/model.hpp"

namespace sim {

enum class KernelForm : std::uint8_t { fused, eager };
constexpr auto words_of(KernelForm) {
  return std::array{Word{KernelForm::fused, "fused"}, Word{KernelForm::eager, "eager"}};
}

// compiled: torch.compile's kernels.
enum class NormForm : std::uint8_t { fused, eager, compiled };
constexpr auto words_of(NormForm) {
  return std::array{Word{NormForm::fused, "fused"}, Word{NormForm::eager, "eager"},
                    Word{NormForm::compiled, "compiled"}};
}

// fused: one kernel over queries and keys, in place; eager: transformers' `apply_rotary_pos_emb`;
// complex: Llama's reference code, a product of complex fp32 numbers between two casts, which
// torch.compile does not fuse.
enum class RotaryForm : std::uint8_t { fused, eager, complex };
constexpr auto words_of(RotaryForm) {
  return std::array{Word{RotaryForm::fused, "fused"}, Word{RotaryForm::eager, "eager"},
                    Word{RotaryForm::complex, "complex"}};
}

// fused: Megatron-LM's with --cross-entropy-loss-fusion, which puts fp32 exponentials in the place
// of the logits; separate: the same without it, operation by operation; eager: PyTorch's;
// keeps_logits: one kernel either way, which keeps the logits and a number per token (Apex and
// flash-attn, csrc/xentropy); in_place: Transformer Engine's, which writes the gradient over the
// 16-bit logits in the forward pass; chunked: Liger's, of the head and the loss of some tokens at a
// time (sim/plan/sharding/chunked_loss.hpp).
enum class LossForm : std::uint8_t { fused, separate, eager, keeps_logits, in_place, chunked };
constexpr auto words_of(LossForm) {
  return std::array{
      Word{LossForm::fused, "fused"},       Word{LossForm::separate, "separate"},
      Word{LossForm::eager, "eager"},       Word{LossForm::keeps_logits, "keeps_logits"},
      Word{LossForm::in_place, "in_place"}, Word{LossForm::chunked, "chunked"}};
}

// Families of frameworks (presets/ has names and versions).
// megatron: Megatron-LM with Apex and Transformer Engine: all fused. pytorch: what PyTorch runs
// without a compiler: its own LayerNorm forward and GELU are one kernel each, the rest is eager.
// scaling: Aleph Alpha's Scaling, PyTorch with tensor, pipeline and data parallelism of its own.
// transformers: Hugging Face's models without a compiler, adapters by PEFT.
// torchtitan: each layer compiled, under FSDP2 and tensor parallelism by DTensor.
// deepspeed: the kernels of pytorch, DeepSpeed's gradients and optimizers; megatron_deepspeed: the
// same with Megatron-LM's kernels.
enum class FrameworkName : std::uint8_t {
  megatron,
  pytorch,
  transformers,
  scaling,
  torchtitan,
  deepspeed,
  megatron_deepspeed
};
constexpr auto words_of(FrameworkName) {
  return std::array{
      Word{FrameworkName::megatron, "megatron"},
      Word{FrameworkName::pytorch, "pytorch"},
      Word{FrameworkName::transformers, "transformers"},
      Word{FrameworkName::scaling, "scaling"},
      Word{FrameworkName::torchtitan, "torchtitan"},
      Word{FrameworkName::deepspeed, "deepspeed"},
      Word{FrameworkName::megatron_deepspeed, "megatron_deepspeed"},
  };
}

struct Framework {
  FrameworkName name = FrameworkName::megatron;
  NormForm layer_norm = NormForm::fused;
  NormForm rms_norm = NormForm::fused;
  KernelForm qkv = KernelForm::fused;  // gradients of Q, K and V written into one tensor
  RotaryForm rotary = RotaryForm::fused;
  KernelForm key_heads = KernelForm::fused;  // eager: keys and values repeated for every query head
  KernelForm gate = KernelForm::fused;       // SwiGLU, GEGLU
  KernelForm softmax = KernelForm::fused;    // of unfused attention: scale, mask, softmax, casts
  LossForm loss = LossForm::fused;
  OptimizerForm optimizer = OptimizerForm::fused;
  KernelForm token_collectives = KernelForm::fused;  // eager: Execution::copies_tokens
  KernelForm weight_gathers = KernelForm::fused;     // eager: Execution::copies_weights
  // false: a recomputation by operators drops what eager kernels pass between them within a layer
  // and keeps what a fused one would (torchtitan, selective_ac_option "op").
  bool keeps_intermediates = true;
  // Time of the host to issue one kernel. Absent: `host_calls` times the device file's time of one
  // bare call.
  std::optional<Duration> host_issue{};
  double host_calls = 1;
  // The rate at which one rank's process updates an offloaded optimizer, in bytes of the host's
  // memory. Zero: its share of what that memory carries.
  Bandwidth host_update{};
  bool joint_gate = true;  // gated MLP: gate and up-projection as one product
  bool accuracy = false;   // the loss also takes the argmax of its logits
  Execution execution;
  bool operator==(const Framework&) const = default;
};
// The kernels of the preset of that name without a version.
Framework framework_of(FrameworkName name);

// torchtitan as a job runs it: layers and loss compiled or eager, AdamW in one kernel or in many.
Framework torchtitan_framework(bool compiled_layers, bool compiled_loss, bool fused_optimizer);

// The switches of an Execution by their keys in a scenario.
struct ExecutionSwitch {
  std::string_view key;
  bool Execution::*member;
  bool inverted = false;  // the key is true where the member is false
};
inline constexpr std::array execution_switches{
    ExecutionSwitch{"parallel_output", &Execution::gathers_logits, true},
    ExecutionSwitch{"gradient_accumulation_fusion", &Execution::adds_gradients, true},
    ExecutionSwitch{"keeps_gathered_inputs", &Execution::keeps_gathered_inputs},
    ExecutionSwitch{"all_reduces_gradients", &Execution::all_reduces_gradients},
    ExecutionSwitch{"gradient_prescale", &Execution::scales_gradients},
    ExecutionSwitch{"check_for_nan_in_grad", &Execution::checks_gradients},
    ExecutionSwitch{"repeats_exchanged_keys", &Execution::repeats_key_heads},
    ExecutionSwitch{"ddp_bucket_copies", &Execution::ddp_buckets},
    ExecutionSwitch{"whole_parameter_shards", &Execution::deals_parameters},
    ExecutionSwitch{"separate_update", &Execution::separate_update},
    ExecutionSwitch{"operation_fuser", &Execution::operation_fuser},
    ExecutionSwitch{"router_fusion", &Execution::router_fusion},
    ExecutionSwitch{"activation_func_fp8_input_store", &Execution::keeps_gate_inputs_in_fp8},
    ExecutionSwitch{"sends_whole", &Execution::sends_whole},
    ExecutionSwitch{"recomputes_head", &Execution::recomputes_head},
    ExecutionSwitch{"checkpoint_early_stop", &Execution::stops_recomputation},
    ExecutionSwitch{"copies_attention", &Execution::copies_attention},
    ExecutionSwitch{"copies_flash_output", &Execution::copies_flash_output},
    ExecutionSwitch{"offload_keeps_masters", &Execution::offload_keeps_masters},
    ExecutionSwitch{"caching_allocator", &Execution::caching_allocator},
    ExecutionSwitch{"expandable_segments", &Execution::expandable_segments},
    ExecutionSwitch{"keeps_unread_outputs", &Execution::keeps_unread_outputs},
    ExecutionSwitch{"flat_parameters", &Execution::flat_parameters},
    ExecutionSwitch{"defer_gradient_sync", &Execution::holds_units},
    ExecutionSwitch{"defer_over_runs", &Execution::holds_over_runs},
    ExecutionSwitch{"no_sync", &Execution::accumulates_whole},
    ExecutionSwitch{"no_reshard", &Execution::keeps_gathered},
    ExecutionSwitch{"waits_for_lengths", &Execution::waits_for_lengths},
    ExecutionSwitch{"sync_expert_counts", &Execution::waits_for_counts},
    ExecutionSwitch{"batch_p2p_sync", &Execution::waits_for_messages},
    ExecutionSwitch{"sync_before_mlp", &Execution::sync_before_mlp},
    ExecutionSwitch{"blocking_launches", &Execution::blocking_launches},
    ExecutionSwitch{"sync_local_batches", &Execution::waits_for_batches}};

// The same model with the traffic, launches and saved tensors of that framework.
void run_with(const Framework& framework, Model& model);

}  // namespace sim
