// Megatron-LM. Flags and their defaults were read in github.com/NVIDIA/Megatron-LM:
//   2021       v2.5, megatron/arguments.py, megatron/model/distributed.py
//   2023       e9b61f78 of 26 December 2023, megatron/arguments.py
//   core-0.13  core_v0.13.0, and the same flags in core_v0.14.0, core_v0.15.0 and core_v0.16.1:
//   and later  megatron/training/arguments.py, core/model_parallel_config.py
// Without a version: the kernels and passes that no flag changes, all that a flag can fuse fused.
#include "sim/framework/presets/tables.hpp"

namespace sim::preset_tables {
namespace {

// Modules, autograd functions, checkpoints and RNG states around a fused kernel, in bare PyTorch
// calls of 9.8 us: 56 us a kernel. Fitted to the calibration rows of
// validation/published/vtrain_single, where a layer of 55 launches takes the host 3.1 ms.
constexpr double megatron_host_calls = 5.7;

// One thread of PyTorch's AdamW on the host: torchrun sets OMP_NUM_THREADS to 1. Fitted to half of
// the optimizer of Qwen3 0.6B offloaded on one H100 (NVIDIA-NeMo/RL, pull request 3628: 1.187
// against 0.752 s); offload-qwen3 of validation/beyond has the runs to
// score.
constexpr Bandwidth megatron_host_update = Bandwidth::bytes_per_second(22.6e9);

// Gradients are added by a kernel: the fused GEMM came in 2022. Placeholders came with it.
Framework of_2021() {
  Framework framework = megatron_kernels();
  framework.loss = LossForm::separate;
  framework.execution.adds_gradients = true;
  // The optimizer's further passes are left out: host_calls was fitted without (vtrain_single).
  framework.execution.separate_update = false;
  framework.execution.gradient_placeholders = Placeholders::none;
  return framework;
}

// The loss is not fused (core/tensor_parallel/cross_entropy.py, from core-0.13 on
// cross_entropy_loss_fusion False). pages/megatron.md, "Passes of its optimizer", has the rest.
Framework of_2023() {
  Framework framework = megatron_kernels();
  framework.loss = LossForm::separate;
  framework.execution.scales_gradients = framework.execution.checks_gradients = true;
  return framework;
}

// With Transformer Engine 2.3 or later.
Framework of_core() {
  Framework framework = of_2023();
  framework.execution.gradient_placeholders = Placeholders::kept;
  return framework;
}

void wait_for_gradients(Layout& layout) {
  layout.overlap_gradients = false;
}
void wait_for_parameters(Layout& layout) {
  layout.overlap_parameters = false;
}
void fp32_gradients_of_bf16(Layout& layout) {
  layout.gradient_dtype =
      layout.activation_dtype == DType::bf16 ? DType::fp32 : layout.activation_dtype;
}

// core/pipeline_parallel/schedules.py: forward_backward_pipelining_without_interleaving waits for
// every message, and no flag changes that; --no-overlap-p2p-communication is for the interleaved
// schedule (training/arguments.py: overlap_p2p_comm is off without virtual stages).
LayoutDefault messages() {
  return overlaps_interleaved_messages(
      "overlap_p2p_comm is on, and for interleaved schedules only");
}

std::vector<LayoutDefault> layout_of_2021() {
  return {
      no_recomputation("--checkpoint-activations is off"),
      attention(AttentionKernel::unfused, "there is no other kernel"),
      {"gradient_dtype", fp32_gradients_of_bf16, "--bf16 adds and reduces gradients in fp32"},
      {"overlap.gradients", wait_for_gradients, "gradients are reduced behind the backward pass"},
      waits_for_messages("every message is waited for"),
      {"overlap.tensor_wgrad", [](Layout& layout) { layout.overlap_tensor_wgrad = false; },
       "the reduction is waited for"},
  };
}

std::vector<LayoutDefault> layout_of_2023() {
  return {
      no_recomputation("--recompute-granularity is not set"),
      attention(AttentionKernel::unfused, "--use-flash-attn is off"),
      {"gradient_dtype", fp32_gradients_of_bf16, "--bf16 adds and reduces gradients in fp32"},
      {"overlap.gradients", wait_for_gradients, "--overlap-grad-reduce is off"},
      {"overlap.parameters", wait_for_parameters, "--overlap-param-gather is off"},
      messages(),
  };
}

std::vector<LayoutDefault> layout_of_core() {
  std::vector<LayoutDefault> rows = layout_of_2023();
  rows[1] = attention(AttentionKernel::flash, "--attention-backend auto: the fastest kernel");
  return rows;
}

}  // namespace

Framework megatron_kernels() {
  Framework framework;
  framework.name = FrameworkName::megatron;
  framework.host_calls = megatron_host_calls;
  framework.host_update = megatron_host_update;
  // core/optimizer/cpu_offloading/hybrid_optimizer.py, below the mixed-precision optimizer.
  framework.execution.offload_keeps_masters = true;
  // No flag changes it: core/optimizer/clip_grads.py, clip_grad_by_total_norm_fp32;
  // distrib_optimizer.py, _copy_main_params_to_model_params.
  framework.execution.separate_update = true;
  framework.execution.gradient_placeholders = Placeholders::temporary;
  framework.execution.bucket_rule = BucketRule::megatron;
  framework.execution.shares_key_heads = true;
  framework.execution.waits_for_counts = framework.execution.waits_for_messages = true;
  framework.execution.caching_allocator = true;
  return framework;
}

std::vector<Preset> megatron() {
  const auto preset = [](std::string_view version, Framework framework,
                         std::vector<LayoutDefault> layout) {
    return Preset{PresetName::megatron, version, "Megatron-LM", std::move(framework),
                  std::move(layout)};
  };
  return {
      preset("", megatron_kernels(),
             {no_recomputation("--recompute-granularity is not set"),
              attention(AttentionKernel::flash, "--attention-backend auto: the fastest kernel"),
              messages()}),
      preset("2021", of_2021(), layout_of_2021()),
      preset("2023", of_2023(), layout_of_2023()),
      preset("core-0.13", of_core(), layout_of_core()),
      preset("core-0.14", of_core(), layout_of_core()),
      preset("core-0.15", of_core(), layout_of_core()),
      preset("core-0.16", of_core(), layout_of_core()),
  };
}

}  // namespace sim::preset_tables
