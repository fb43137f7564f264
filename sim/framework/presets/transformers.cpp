// Hugging Face's Trainer on one GPU or under DDP, without a compiler (transformers 5.17, PEFT
// 0.21).
#include "sim/framework/presets/tables.hpp"

namespace sim::preset_tables {
namespace {

// Fitted to three runs that wait for the host (sim/framework/pages/transformers.md).
constexpr double transformers_host_calls = 6.2;

}  // namespace

// Queries, keys, values, gate and up are linears of their own (models/llama/modeling_llama.py);
// attention takes fewer key heads as they are (integrations/sdpa_attention.py, use_gqa_in_sdpa).
Framework transformers_kernels() {
  Framework framework = pytorch_kernels();
  framework.name = FrameworkName::transformers;
  framework.qkv = framework.key_heads = KernelForm::fused;
  framework.host_calls = transformers_host_calls;
  framework.execution.adds_gradients = true;
  framework.execution.separate_products = true;
  framework.execution.casts_adapters = true;
  framework.execution.caching_allocator = true;
  return framework;
}

std::vector<Preset> transformers() {
  return {
      {PresetName::transformers,
       "",
       "Hugging Face transformers",
       transformers_kernels(),
       {no_recomputation("gradient_checkpointing is off"),
        attention(AttentionKernel::flash_2, "scaled_dot_product_attention"), messages_of_torch()}}};
}

}  // namespace sim::preset_tables
