// huggingface/transformers v5.0, src/transformers/integrations/moe.py, grouped_mm_experts_forward:
// tokens are copied once for each choice into the order of experts, two torch._grouped_mm, the rows
// times their weights, put back and summed: torchtitan's way on one GPU. The host asks for nothing.
#include "sim/interop/trainers/experts_of_trainer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/input_error.hpp"
#include "sim/model/transformer.hpp"
#include "sim/plan/sharding/low_rank.hpp"

namespace sim {

void set_transformers_experts(Imported& result) {
  if (result.shape.hybrid.has_scan())
    result.notes.push_back({"model",
                            "scans are modelled by flash-linear-attention and causal-conv1d: "
                            "without them transformers loops over chunks in Python, which is not "
                            "modelled; two measured runs are known, forecast 13 and 16% too slow"});
  if (result.shape.experts.count == 0) return;
  // models/llama4/modeling_llama4.py, Llama4TextMoe: tokens are repeated for every expert.
  if (result.shape.family == "llama4_text")
    throw InputError{{"--model", 0, 0},
                     fmt::format("{}: transformers runs every expert of Llama 4 on every token, "
                                 "which is not modelled; allowed: jobs of Megatron-LM, torchtitan",
                                 result.shape.name)};
  Execution& runs = result.framework.execution;
  runs.experts = ExpertForm::torchtitan;
  runs.expert_rows = 1;
  runs.waits_for_counts = false;
  result.layout.token_dispatcher = TokenDispatcher::alltoall;  // of Megatron-LM's files: allgather
  result.notes.push_back({"experts",
                          "modelled as transformers 5 runs them, by torch._grouped_mm; the loop "
                          "over experts of version 4 takes longer"});
}

void keep_adapters_of_model(Imported& result) {
  Layout& layout = result.layout;
  if (!layout.trains_adapters() || result.shape.experts.count == 0) return;
  const Model model = build_transformer(result.shape);
  std::erase_if(layout.lora_modules, [&](LoraModule module) {
    return std::ranges::none_of(model.layers, [&](const Block& layer) {
      return std::ranges::any_of(layer.ops, [&](const ModelOp& op) {
        return has_adapter(layer, op, layout) && lora_module(layer, op) == module;
      });
    });
  });
}

}  // namespace sim
