// torchtitan (github.com/pytorch/torchtitan): each layer compiled, FSDP2, DTensor.
//   2024        arXiv:2410.06511: loss and AdamW (foreach) operator by operator
//   2024-eager  the same without --training.compile, its default
//   2025        [compile] components model and loss, [optimizer] implementation "fused", its
//   default; tokens of an expert padded to a multiple of 8 (models/moe/utils.py of v0.2.2, commit
//   73a0e697, TOKEN_GROUP_ALIGN_SIZE_M)
//   2026        commit b5bcd76c: not padded but for 8-bit products (models/common/
//   token_dispatcher.py)
// Paths: models/llama3/train_configs, distributed/parallelize.
#include "sim/framework/presets/tables.hpp"

namespace sim {
namespace preset_tables {
namespace {

std::vector<LayoutDefault> torchtitan_layout() {
  return {
      {"zero_stage", [](Layout& layout) { layout.zero_stage = 3; },
       "data_parallel_shard_degree -1"},
      {"reshard_after_forward",
       [](Layout& layout) {
         if (layout.pipeline_parallel > 1) layout.reshard_after_forward = false;
       },
       "units of a pipeline are not resharded between their passes", true},
      {"recompute", [](Layout& layout) { layout.recompute = Recompute::operators; },
       "selective_ac_option op"},
      {"context_exchange",
       [](Layout& layout) {
         if (layout.context_parallel > 1) layout.context_exchange = ContextExchange::all_gather;
       },
       "context_parallel_rotate_method allgather"},
      attention(AttentionKernel::flash_2, "scaled_dot_product_attention runs FlashAttention-2"),
      {"reduce_dtype", [](Layout& layout) { layout.reduce_dtype = DType::fp32; },
       "mixed_precision_reduce float32"},
      messages_of_torch(),
  };
}

}  // namespace

Framework torchtitan_kernels() {
  Framework framework;
  framework.name = FrameworkName::torchtitan;
  framework.layer_norm = framework.rms_norm = NormForm::compiled;
  framework.rotary = RotaryForm::complex;
  framework.key_heads = KernelForm::eager;
  framework.optimizer = OptimizerForm::eager;
  framework.loss = LossForm::eager;
  framework.token_collectives = framework.weight_gathers = KernelForm::eager;
  framework.execution = {.eight_bit = EightBit::torchao,
                         .keeps_gathered_inputs = true,
                         .symmetric_memory = true,
                         .stops_recomputation = true,
                         .context = ContextForm::compiled,
                         .experts = ExpertForm::torchtitan,
                         .expert_rows = 8,
                         .bucket_rule = BucketRule::torchtitan,
                         .separate_products = true,
                         .caching_allocator = true,
                         .expandable_segments = true,
                         .eager_ends = true,
                         .holds_units = true,
                         .waits_for_counts = true,
                         .loss_chunks = LossChunks::at_once_fp32};
  return framework;
}

std::vector<Preset> torchtitan() {
  const auto preset = [](std::string_view version, Framework framework) {
    return Preset{PresetName::torchtitan, version, "torchtitan", std::move(framework),
                  torchtitan_layout()};
  };
  return {preset("", torchtitan_framework(true, false, false)),
          preset("2024", torchtitan_framework(true, false, false)),
          preset("2024-eager", torchtitan_framework(false, false, false)),
          preset("2025", torchtitan_framework(true, true, true)), preset("2026", [] {
            Framework framework = torchtitan_framework(true, true, true);
            framework.execution.expert_rows = 1;
            return framework;
          }())};
}

}  // namespace preset_tables

Framework torchtitan_framework(bool compiled_layers, bool compiled_loss, bool fused_optimizer) {
  Framework framework = preset_tables::torchtitan_kernels();
  if (!compiled_layers) {
    framework.layer_norm = framework.rms_norm = NormForm::eager;
    framework.gate = KernelForm::eager;
    framework.execution.context = ContextForm::eager;
    framework.execution.keeps_unread_outputs = true;
  }
  // torch.compile reads the logits for their maximum and for the sum, and again backward.
  if (compiled_loss) framework.loss = LossForm::keeps_logits;
  if (fused_optimizer) framework.optimizer = OptimizerForm::fused;
  return framework;
}

}  // namespace sim
