// Trainers whose policies were read from their source; sim/framework/pages/trainers.md.
//   internevo   InternLM/InternEvo at c628a8c8
//   nanotron    huggingface/nanotron at 2411b022
//   olmo_core   allenai/OLMo-core at fa6c5014
//   torchtune   pytorch/torchtune at bd2a0fc7
#include <cstdint>
#include <numeric>

#include "sim/framework/presets/tables.hpp"

namespace sim::preset_tables {
namespace {

constexpr std::string_view flash_attn = "flash_attn";

LayoutDefault parameters_wait(std::string_view why) {
  return {"overlap.parameters", [](Layout& layout) { layout.overlap_parameters = false; }, why};
}

LayoutDefault tensor_reductions_wait(std::string_view why) {
  return {"overlap.tensor_wgrad", [](Layout& layout) { layout.overlap_tensor_wgrad = false; }, why};
}

LayoutDefault shards_fully(std::string_view why) {
  return {"zero_stage", [](Layout& layout) { layout.zero_stage = 3; }, why};
}

// Kernels of Apex and flash-attn; gate and up-projection are linears of their own (modules/mlp.py,
// Silu is scripted), autograd adds the gradients of micro-batches.
Framework internevo_kernels() {
  Framework framework = pytorch_kernels();
  framework.layer_norm = framework.rms_norm = NormForm::fused;
  framework.qkv = framework.gate = framework.key_heads = KernelForm::fused;
  framework.rotary = RotaryForm::fused;
  framework.loss = LossForm::keeps_logits;
  framework.joint_gate = false;
  framework.execution.adds_gradients = true;
  framework.execution.all_reduces_gradients = true;
  framework.execution.caching_allocator = true;
  return framework;
}

std::vector<LayoutDefault> internevo_layout() {
  return {
      {"zero_stage", [](Layout& layout) { layout.zero_stage = 1; }, "parallel.zero1.size -1"},
      no_recomputation("model.checkpoint False"),
      attention(AttentionKernel::flash_2, flash_attn),
      {"gradient_dtype", [](Layout& layout) { layout.gradient_dtype = layout.activation_dtype; },
       "gradients have the parameters' format"},
      {"reduce_dtype", [](Layout& layout) { layout.reduce_dtype = layout.activation_dtype; },
       "reduce_tensor keeps the gradients' format"},
      parameters_wait("hybrid_zero_optimizer.overlap_sync_param False"),
      overlaps_interleaved_messages("pipeline.interleaved_overlap True")};
}

// flash-attn's norms and rotary; the activation and its product are two kernels; the loss is
// Megatron-LM's sharded one, operator by operator; gradients are added in fp32.
Framework nanotron_kernels() {
  Framework framework = pytorch_kernels();
  framework.layer_norm = framework.rms_norm = NormForm::fused;
  framework.qkv = framework.key_heads = KernelForm::fused;
  framework.rotary = RotaryForm::fused;
  framework.loss = LossForm::separate;
  framework.execution.adds_gradients = true;
  framework.execution.all_reduces_gradients = true;
  framework.execution.ddp_buckets = true;
  framework.execution.copies_flash_output = true;
  framework.execution.caching_allocator = true;
  return framework;
}

std::vector<LayoutDefault> nanotron_layout() {
  return {{"schedule",
           [](Layout& layout) {
             if (layout.pipeline_parallel > 1 && layout.virtual_stages == 1)
               layout.schedule = Schedule::gpipe;
           },
           "pp_engine afab"},
          no_recomputation("recompute_layer False"),
          attention(AttentionKernel::flash_2, flash_attn),
          {"gradient_dtype", [](Layout& layout) { layout.gradient_dtype = DType::fp32; },
           "accumulate_grad_in_fp32"},
          {"reduce_dtype", [](Layout& layout) { layout.reduce_dtype = DType::fp32; },
           "accumulate_grad_in_fp32"},
          parameters_wait("parameters are gathered behind the optimizer"),
          tensor_reductions_wait("tp_linear_async_communication False"),
          waits_for_messages("stages wait for their messages")};
}

// Blocks under torch.compile, the loss outside of them; FSDP2.
Framework olmo_core_kernels() {
  Framework framework = torchtitan_framework(true, false, true);
  framework.rotary = RotaryForm::fused;
  framework.key_heads = KernelForm::fused;
  framework.execution.expandable_segments = false;
  return framework;
}

std::vector<LayoutDefault> olmo_core_layout() {
  return {shards_fully("DataParallelType.fsdp"),
          no_recomputation("ac_config None"),
          attention(AttentionKernel::flash_2, flash_attn),
          {"reduce_dtype", [](Layout& layout) { layout.reduce_dtype = DType::fp32; },
           "dp_config.reduce_dtype float32"},
          messages_of_torch()};
}

// Eager modules under FSDP2, compile False; bf16 weights and states. A gradient is the one that
// autograd has made, and is not there before (zero_grad(set_to_none=True)).
Framework torchtune_kernels() {
  Framework framework = pytorch_kernels();
  framework.weight_gathers = KernelForm::eager;
  framework.optimizer = OptimizerForm::eager;
  framework.execution.separate_products = true;
  framework.execution.adds_gradients = true;
  framework.execution.caching_allocator = true;
  framework.execution.loss_chunks = LossChunks::behind;
  return framework;
}

// compile True: each layer and the loss (training/_compile.py, compile_model, compile_loss), but
// not the head.
Framework torchtune_compiled() {
  Framework framework = torchtune_kernels();
  framework.layer_norm = framework.rms_norm = NormForm::compiled;
  framework.qkv = framework.gate = KernelForm::fused;
  framework.rotary = RotaryForm::fused;
  framework.loss = LossForm::keeps_logits;
  return framework;
}

// LinearCrossEntropyLoss(num_output_chunks=8). Chunks of tensor_split may be uneven by a token: as
// many even ones as there are.
void take_loss_in_chunks(Layout& layout) {
  const std::int64_t held = layout.sequence_length / layout.context_parallel;
  if (layout.tensor_parallel == 1 && held > 0)
    layout.loss_chunks = static_cast<int>(std::gcd<std::int64_t>(held, 8));
}

std::vector<LayoutDefault> torchtune_layout() {
  return {shards_fully("fully_shard"),
          {"recompute", [](Layout& layout) { layout.recompute = Recompute::full; },
           "enable_activation_checkpointing True"},
          {"loss_chunks", take_loss_in_chunks, "LinearCrossEntropyLoss, num_output_chunks 8"},
          attention(AttentionKernel::flash_2, "scaled_dot_product_attention"),
          {"reduce_dtype", [](Layout& layout) { layout.reduce_dtype = layout.activation_dtype; },
           "fully_shard without a MixedPrecisionPolicy"},
          {"master_weights", [](Layout& layout) { layout.master_weights = false; },
           "dtype bf16: no copies in fp32"},
          {"moment_dtype", [](Layout& layout) { layout.moment_dtype = DType::bf16; },
           "states of AdamW have the parameters' format"},
          messages_of_torch()};
}

}  // namespace

std::vector<Preset> trainers() {
  std::vector<Preset> all{
      {PresetName::internevo, "", "InternEvo", internevo_kernels(), internevo_layout()},
      {PresetName::nanotron, "", "nanotron", nanotron_kernels(), nanotron_layout()},
      {PresetName::olmo_core, "", "OLMo-core", olmo_core_kernels(), olmo_core_layout()},
      {PresetName::torchtune, "", "torchtune", torchtune_kernels(), torchtune_layout()},
      {PresetName::torchtune, "compiled", "torchtune", torchtune_compiled(), torchtune_layout()}};
  for (Preset& preset : all)
    preset.measured = false;
  return all;
}

}  // namespace sim::preset_tables
