// DeepSpeed around a model of PyTorch's kernels, or of Megatron-LM's (Megatron-DeepSpeed).
//   02aa38c3    deepspeedai/DeepSpeed at that commit, runtime/engine.py, runtime/zero/config.py
//   bigscience  bigscience-workshop/Megatron-DeepSpeed at 06dc2d7f, megatron/model/transformer.py:
//               no mixture of experts, for whose sake Microsoft's copies numbers in every layer
#include "sim/framework/deepspeed.hpp"

#include "sim/framework/presets/tables.hpp"

namespace sim::preset_tables {
namespace {

// DeepSpeedCPUAdam, gradients and weights to and from its formats, in each of 8 processes of a node
// whose launcher leaves them few threads. Fitted to ZeRO-3 of Llama 3 70B with sequences of 1,024
// on 16 H100s (deepspeedai/DeepSpeed at edaa7221, blogs/deepcompile, perf_offload: 23.5 TFLOP/s);
// offload-llama-3-70b of validation/beyond has the runs to score.
constexpr Bandwidth deepspeed_host_update = Bandwidth::bytes_per_second(7.6e9);

// Its ZeRO-3 joins every rank's part of a gathered weight (runtime/zero/partition_parameters.py,
// AllGatherCoalescedHandle.wait: torch.cat).
void set_engine(Framework& framework) {
  framework.host_update = deepspeed_host_update;
  framework.optimizer = OptimizerForm::deepspeed;
  framework.weight_gathers = KernelForm::eager;
  framework.execution.adds_gradients = framework.execution.all_reduces_gradients = true;
  framework.execution.gradient_buckets = GradientBuckets::sliced;
  framework.execution.bucket_rule = BucketRule::deepspeed;
  framework.execution.context = ContextForm::transformer_engine;  // Ulysses
  framework.execution.repeats_key_heads = true;
}

std::vector<LayoutDefault> deepspeed_layout(AttentionKernel kernel, std::string_view why) {
  return {
      no_recomputation("activation_checkpointing is not set"),
      attention(kernel, why),
      {"overlap.gradients",
       [](Layout& layout) { layout.overlap_gradients = layout.zero_stage == 3; },
       "overlap_comm is on under ZeRO-3 only"},
      {"overlap.gradients",
       [](Layout& layout) {
         if (!can_overlap_gradients(layout)) layout.overlap_gradients = false;
       },
       "no overlap_comm in a pipeline, without ZeRO or under BF16_Optimizer", true},
      {"overlap.parameters",
       [](Layout& layout) { layout.overlap_parameters = layout.zero_stage == 3; },
       "ZeRO-1 and 2 gather behind the optimizer", true},
      // runtime/pipe/p2p.py: send and recv are dist.send and dist.recv, which block the stream.
      waits_for_messages("messages are waited for", true),
  };
}

}  // namespace

Framework deepspeed_kernels() {
  Framework framework = pytorch_kernels();
  framework.name = FrameworkName::deepspeed;
  framework.execution.stops_recomputation = false;
  set_engine(framework);
  return framework;
}

Framework megatron_deepspeed_kernels() {
  Framework framework;
  framework.name = FrameworkName::megatron_deepspeed;
  framework.host_calls = megatron_kernels().host_calls;
  framework.loss = LossForm::separate;
  framework.execution.sync_before_mlp = true;
  set_engine(framework);
  return framework;
}

std::vector<Preset> deepspeed() {
  const std::vector<LayoutDefault> engine = deepspeed_layout(
      AttentionKernel::flash_2, "scaled_dot_product_attention runs FlashAttention-2");
  const std::vector<LayoutDefault> of_megatron =
      deepspeed_layout(AttentionKernel::unfused, "flash attention is off");
  Framework fork = megatron_deepspeed_kernels();
  fork.execution.sync_before_mlp = false;
  const auto of_fork = [&](std::string_view version, const Framework& framework) {
    return Preset{PresetName::megatron_deepspeed, version, "Megatron-DeepSpeed", framework,
                  of_megatron};
  };
  return {{PresetName::deepspeed, "", "DeepSpeed", deepspeed_kernels(), engine},
          {PresetName::deepspeed, "02aa38c3", "DeepSpeed", deepspeed_kernels(), engine},
          of_fork("", megatron_deepspeed_kernels()),
          of_fork("02aa38c3", megatron_deepspeed_kernels()),
          of_fork("bigscience", fork)};
}

}  // namespace sim::preset_tables
