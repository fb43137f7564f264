// NVIDIA's recipes around Megatron-LM.
//   nemo 1                 NeMo-Framework-Launcher, NVIDIA/dgxc-benchmarking: conf/training/*.yaml
//   nemo 2                 NVIDIA/NeMo, collections/llm/gpt/model/base.py (loss), comm_overlap.py
//   megatron_bridge 25.09  NVIDIA-NeMo/Megatron-Bridge, scripts/performance, comm_overlap.py, in
//   the and later              releases of the pages that validation/published/nvidia_performance
//   cites
// They shard the optimizer, reduce gradients in the activations' format, overlap all that has a
// flag, and keep 8-bit weights as such.
#include "sim/framework/presets/tables.hpp"

namespace sim::preset_tables {
namespace {

// `loss`: fused by cross_entropy_loss_fusion in NeMo 2, by Transformer Engine in Megatron-Bridge;
// in NeMo 1 the recipes of Llama and Nemotron ask for it, those of GPT-3 and Grok-1 do not.
Framework recipe(LossForm loss) {
  Framework framework = megatron_kernels();
  framework.loss = loss;
  return framework;
}

std::vector<LayoutDefault> recipe_layout() {
  return {
      {"sequence_parallel",
       [](Layout& layout) { layout.sequence_parallel = layout.tensor_parallel > 1; },
       "sequence_parallel True with tensor parallelism"},
      {"zero_stage", [](Layout& layout) { layout.zero_stage = 1; }, "a distributed optimizer"},
      no_recomputation("the recipes recompute where they say so"),
      attention(AttentionKernel::flash, "Transformer Engine takes the fastest kernel"),
      {"fp8_parameters",
       [](Layout& layout) { layout.eight_bit_parameters = is_quantized(layout.compute_dtype); },
       "fp8_param_gather: weights are stored and gathered in 8 bits"},
      overlaps_interleaved_messages("overlap_p2p_comm with virtual stages"),
      {"overlap.tensor_products",
       [](Layout& layout) {
         layout.overlap_tensor_products =
             layout.sequence_parallel && layout.compute_dtype != DType::nvfp4;
       },
       "tp_comm_overlap: user buffers, with sequence parallelism but not with NVFP4"},
  };
}

Preset preset(PresetName name, std::string_view version, LossForm loss) {
  return {name, version, name == PresetName::nemo ? "NeMo" : "Megatron-Bridge", recipe(loss),
          recipe_layout()};
}

}  // namespace

std::vector<Preset> nvidia_recipes() {
  std::vector<Preset> all{preset(PresetName::nemo, "", LossForm::fused),
                          preset(PresetName::nemo, "1", LossForm::separate),
                          preset(PresetName::nemo, "2", LossForm::fused)};
  for (const char* version : {"", "25.09", "25.11", "26.02", "26.04", "26.06", "26.08"})
    all.push_back(preset(PresetName::megatron_bridge, version, LossForm::in_place));
  return all;
}

}  // namespace sim::preset_tables
