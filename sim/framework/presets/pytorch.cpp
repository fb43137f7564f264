// PyTorch without a compiler, and its fully sharded data parallelism.
//   pytorch 2   torch.nn.functional.scaled_dot_product_attention runs FlashAttention-2
//   fsdp1 2.0   torch/distributed/fsdp of PyTorch 2.0.1; sim/framework/pages/fsdp1.md
//   fsdp1 2.1   checkpoints stop early from 2.1 on (torch/utils/checkpoint.py)
//   fsdp2       torch/distributed/fsdp/_fully_shard, MixedPrecisionPolicy(reduce_dtype=float32)
#include "sim/framework/presets/tables.hpp"

namespace sim {
namespace preset_tables {
namespace {

constexpr std::string_view sdpa = "scaled_dot_product_attention runs FlashAttention-2";

Framework flat_parameters(bool stops_recomputation) {
  Framework framework = pytorch_kernels();
  framework.execution.caching_allocator = framework.execution.flat_parameters = true;
  framework.execution.stops_recomputation = stops_recomputation;
  return framework;
}

Framework sharded_parameters() {
  Framework framework = pytorch_kernels();
  framework.weight_gathers = KernelForm::eager;
  framework.execution.caching_allocator = true;
  return framework;
}

std::vector<LayoutDefault> sharded_layout() {
  return {
      messages_of_torch(),
      {"zero_stage", [](Layout& layout) { layout.zero_stage = 3; }, "FULL_SHARD"},
      no_recomputation("no checkpoint_wrapper"),
      attention(AttentionKernel::flash_2, sdpa),
      {"reduce_dtype", [](Layout& layout) { layout.reduce_dtype = DType::fp32; },
       "gradients are reduced in fp32"},
      {"overlap.tensor_wgrad", [](Layout& layout) { layout.overlap_tensor_wgrad = false; },
       "PyTorch's tensor parallelism waits for its reductions"},
  };
}

}  // namespace

// Sends and receives are actions of their own under schedules with a split backward pass
// (torch/distributed/pipelining/schedules.py, _PipelineScheduleRuntime); 1F1B, GPipe and, up to
// PyTorch 2.8, the interleaved schedule wait for each batch of messages (_batch_p2p, wait()).
LayoutDefault messages_of_torch() {
  return waits_for_messages("torch.distributed.pipelining waits for its messages", true);
}

Framework pytorch_kernels() {
  Framework framework;
  framework.name = FrameworkName::pytorch;
  framework.layer_norm = framework.rms_norm = NormForm::eager;
  framework.qkv = framework.gate = framework.softmax = framework.key_heads = KernelForm::eager;
  framework.rotary = RotaryForm::eager;
  framework.loss = LossForm::eager;
  framework.execution.eight_bit = EightBit::torchao;
  framework.execution.context = ContextForm::eager;
  framework.execution.stops_recomputation = true;
  return framework;
}

std::vector<Preset> pytorch() {
  const std::vector<LayoutDefault> layout{no_recomputation("nothing is checkpointed"),
                                          attention(AttentionKernel::flash_2, sdpa),
                                          messages_of_torch()};
  return {{PresetName::pytorch, "", "PyTorch", pytorch_kernels(), layout},
          {PresetName::pytorch, "2", "PyTorch", pytorch_kernels(), layout}};
}

std::vector<Preset> fully_sharded_data() {
  return {{PresetName::fsdp1, "", "PyTorch", flat_parameters(true), sharded_layout()},
          {PresetName::fsdp1, "2.0", "PyTorch", flat_parameters(false), sharded_layout()},
          {PresetName::fsdp1, "2.1", "PyTorch", flat_parameters(true), sharded_layout()},
          {PresetName::fsdp2, "", "PyTorch", sharded_parameters(), sharded_layout()}};
}

}  // namespace preset_tables
}  // namespace sim
