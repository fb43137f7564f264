// Checks of a layout: parameters trained beside frozen weights, and products whose operands are
// cast.
#include "sim/plan/layout_problem_list.hpp"
#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/low_rank.hpp"
#include "sim/schedule/schedule.hpp"

namespace sim {
namespace {

class AdapterChecker {
 public:
  AdapterChecker(const Layout& layout, const Model& model, LayoutProblemList& list)
      : layout_{layout}, model_{model}, list_{list} {}

  void run() {
    if (!layout_.trains_adapters()) return unused();
    modules();
    if (layout_.lora_rank % layout_.tensor_parallel != 0)
      list_.problem("lora.rank",
                    "lora.rank is {}, which {} tensor-parallel ranks do not share evenly",
                    layout_.lora_rank, layout_.tensor_parallel);
    if (layout_.frozen_format == FrozenFormat::nf4 && is_quantized(layout_.compute_dtype))
      list_.problem("lora.base", "lora.base is nf4 with {} products; allowed: bf16, fp16",
                    word(layout_.compute_dtype));
    if (layout_.optimizer == OptimizerKind::muon)
      list_.problem("optimizer",
                    "optimizer is muon with lora.rank, which is not modelled; allowed: "
                    "adam, lion, momentum, sgd");
    eight_bits();
    magnitudes();
    trained_whole();
    repeated_layers();
    orders();
    frameworks();
    experts();
    others();
  }

 private:
  void unused() {
    if (layout_.frozen_format != FrozenFormat::as_trained ||
        layout_.frozen_orders != FrozenOrders::both || layout_.lora_dropout > 0 ||
        layout_.lora_modules != Layout{}.lora_modules ||
        layout_.expert_adapters != ExpertAdapters::none || layout_.lora_magnitudes ||
        layout_.outlier_share > 0 || layout_.trains_embedding || layout_.trains_head)
      list_.problem("lora.rank",
                    "a key of lora is set (base, outliers, orders, dropout, magnitudes, embedding, "
                    "head, modules or experts), but lora.rank is 0; allowed: 1 or more");
  }

  // bitsandbytes' LLM.int8.
  void eight_bits() {
    if (layout_.frozen_format != FrozenFormat::int8) {
      if (layout_.outlier_share > 0)
        list_.problem("lora.outliers", "lora.outliers is {} with lora.base {}; allowed: 0, or int8",
                      layout_.outlier_share, word(layout_.frozen_format));
      return;
    }
    const auto refuse = [&](std::string what, std::string_view allowed) {
      list_.problem("lora.base", "lora.base is int8 with {}, which is not modelled; allowed: {}",
                    what, allowed);
    };
    if (is_quantized(layout_.compute_dtype))
      refuse(fmt::format("{} products", word(layout_.compute_dtype)), "bf16, fp16");
    if (layout_.zero_stage == 3) refuse("zero_stage 3", "0 to 2");
    if (layout_.tensor_parallel > 1)
      refuse(fmt::format("tensor_parallel {}", layout_.tensor_parallel), "1");
    if (model_.has_experts()) refuse("routed experts", "as_trained, nf4");
    if (layout_.recompute == Recompute::operators) refuse("recompute operators", "none, full");
  }

  // DoRA as PEFT has it.
  void magnitudes() {
    if (!layout_.lora_magnitudes) return;
    const auto refuse = [&](std::string what, std::string_view allowed) {
      list_.problem("lora.magnitudes",
                    "lora.magnitudes is true with {}, which is not modelled; allowed: {}", what,
                    allowed);
    };
    if (layout_.tensor_parallel > 1)
      refuse(fmt::format("tensor_parallel {}", layout_.tensor_parallel), "1");
    if (layout_.expert_adapters != ExpertAdapters::none) refuse("lora.experts", "none");
    if (layout_.lora_dropout > 0) refuse("lora.dropout", "0");
    if (model_.execution.operation_fuser) refuse("framework.operation_fuser", "false");
    if (is_quantized(layout_.compute_dtype))
      refuse(fmt::format("{} products", word(layout_.compute_dtype)), "bf16, fp16");
  }

  void repeated_layers() {
    if (model_.shape && model_.shape->mtp_repeated && model_.shape->mtp_layers > 1)
      list_.problem("lora.rank",
                    "{} runs a layer of multi-token prediction more than once, which is not "
                    "modelled with adapters; allowed: 0",
                    model_.name);
  }

  void trained_whole() {
    if (!layout_.trains_embedding && !layout_.trains_head) return;
    const char* key = layout_.trains_embedding ? "lora.embedding" : "lora.head";
    if (model_.tied_embedding)
      list_.problem(key, "{} is true, but {} has one table for embedding and head; allowed: false",
                    key, model_.name);
    const auto& input = model_.input.ops;
    const bool tokens_alone = !input.empty() && input.front().kind == ModelOpKind::embedding &&
                              std::none_of(input.begin() + 1, input.end(),
                                           [](const ModelOp& op) { return op.weights > 0; });
    if (layout_.trains_embedding && !tokens_alone)
      list_.problem("lora.embedding",
                    "lora.embedding is true, but {} has tables beside that of tokens; allowed: "
                    "false",
                    model_.name);
    if (is_quantized(layout_.compute_dtype))
      list_.problem(key, "{} is true with {} products, which is not modelled; allowed: bf16, fp16",
                    key, word(layout_.compute_dtype));
  }

  void orders() {
    if (layout_.frozen_orders == FrozenOrders::both) return;
    const EightBit software = model_.execution.eight_bit;
    const bool one_scale = layout_.compute_dtype == DType::fp8 &&
                           (software == EightBit::transformer_engine ||
                            software == EightBit::transformer_engine_tensorwise ||
                            software == EightBit::transformer_engine_linear);
    if (layout_.eight_bit_parameters && one_scale) return;
    list_.problem("lora.orders",
                  "lora.orders is {}, which needs fp8_parameters and 8-bit products with one scale "
                  "for a tensor; allowed here: both",
                  word(layout_.frozen_orders));
  }

  void modules() {
    for (const LoraModule module : layout_.lora_modules) {
      const auto has = [&](const Block& layer) {
        return std::any_of(layer.ops.begin(), layer.ops.end(), [&](const ModelOp& op) {
          return has_adapter(layer, op, layout_) && lora_module(layer, op) == module;
        });
      };
      if (std::any_of(model_.layers.begin(), model_.layers.end(), has)) continue;
      list_.problem("lora.modules", "{} has no {} beside routed experts{}", model_.name,
                    word(module),
                    model_.has_experts() ? "; lora.experts puts adapters there: shared, each" : "");
    }
    if (layout_.lora_modules.empty())
      list_.problem("lora.modules",
                    "lora.modules is empty: nothing would be trained; allowed: "
                    "linear_qkv, linear_proj, linear_fc1, linear_fc2");
  }

  // Checks adapters of routed experts.
  void experts() {
    if (layout_.expert_adapters == ExpertAdapters::none) return;
    const std::string_view kind = word(layout_.expert_adapters);
    if (!model_.has_experts())
      return list_.problem("lora.experts", "lora.experts is {}, but {} has no routed experts", kind,
                           model_.name);
    const auto is_of_experts = [](LoraModule module) {
      return module == LoraModule::linear_fc1 || module == LoraModule::linear_fc2;
    };
    if (std::ranges::none_of(layout_.lora_modules, is_of_experts))
      list_.problem("lora.experts",
                    "lora.experts is {}, but lora.modules has no linear of experts; allowed with "
                    "it: linear_fc1, linear_fc2",
                    kind);
    if (layout_.expert_tensor() > 1)
      list_.problem("lora.experts",
                    "lora.experts is {} with expert_tensor_parallel {}, which is not modelled; "
                    "allowed: 1",
                    kind, layout_.expert_tensor());
    if (layout_.expert_adapters == ExpertAdapters::each && is_quantized(layout_.compute_dtype))
      list_.problem("lora.experts",
                    "lora.experts is each with {} products, in which these adapters multiply, too; "
                    "allowed: shared, or compute_dtype bf16, fp16",
                    word(layout_.compute_dtype));
  }

  void frameworks() {
    const Execution& runs = model_.execution;
    if (runs.flat_parameters || runs.keeps_gathered_inputs || runs.copies_tokens)
      list_.problem(
          "lora.rank",
          "adapters are modelled as Megatron-Bridge and PEFT run them; allowed: framework "
          "megatron, megatron_bridge, pytorch, transformers, deepspeed");
  }

  void others() {
    const auto refuse = [&](const char* key, std::string_view what, std::string_view allowed) {
      list_.problem(key, "{} with lora.rank, which is not modelled; allowed: {}", what, allowed);
    };
    if (layout_.recompute == Recompute::operators)
      refuse("recompute", "recompute is operators", "none, selective, full");
    if (layout_.recompute == Recompute::selective && !layout_.recompute_modules.empty())
      refuse("recompute_modules", "recompute_modules is given", "[]");
    if (splits_backward(layout_.schedule) || layout_.delay_weight_gradients)
      refuse("schedule", "weight gradients are deferred",
             "schedules that do not split the backward pass");
    if (layout_.cuts_products())
      refuse("overlap.tensor_products", "overlap.tensor_products is true", "false");
    if (layout_.overlap_expert_exchange)
      refuse("overlap.expert_exchange", "overlap.expert_exchange is true", "false");
    if (layout_.compression != GradientCompression::none)
      refuse("compression.gradients", "compression.gradients is given", "none");
    if (layout_.offloads() && !layout_.offloads_parameters())
      refuse("offload.optimizer", "offload.optimizer is given without offload.parameters", "none");
    if (layout_.offloads_activations() && layout_.recompute != Recompute::full)
      refuse("offload.activations", "offload.activations is given without recompute full", "none");
    if (layout_.trains_apart()) refuse("local_steps.every", "local_steps.every is above 1", "1");
    if (layout_.has_servers()) refuse("servers.mode", "servers.mode is given", "none");
    const bool reads_tokens =
        !model_.input.ops.empty() && model_.input.ops.front().kind == ModelOpKind::embedding;
    if (!reads_tokens && !model_.is_layer_list)
      refuse("lora.rank", "the model reads no tokens", "0");
    const bool norm_first = !model_.layers.empty() && !model_.layers.front().ops.empty() &&
                            model_.layers.front().ops.front().kind == ModelOpKind::norm;
    if (!norm_first && shares_maxima(model_.execution, layout_))
      refuse("compute_dtype", "delayed scaling of a model with norms behind its branches",
             "bf16, fp16");
    if (model_.is_layer_list) refuse("lora.rank", "a list of layers has no modules", "0");
  }

  const Layout& layout_;
  const Model& model_;
  LayoutProblemList& list_;
};

}  // namespace

void check_adapters(const Layout& layout, const Model& model, LayoutProblemList& list) {
  AdapterChecker{layout, model, list}.run();
}

namespace {

void check_eight_bit_attention(const Layout& layout, const Model& model, LayoutProblemList& list) {
  const Execution& runs = model.execution;
  if (runs.eight_bit_attention == EightBitAttention::none) return;
  if (!is_quantized(layout.compute_dtype))
    list.problem("compute_dtype", "compute_dtype is {} and framework.fp8_attention {}; allowed: {}",
                 word(layout.compute_dtype), word(runs.eight_bit_attention), "fp8, nvfp4");
  if (!is_transformer_engine(runs.eight_bit))
    list.problem("compute_dtype",
                 "framework.fp8_attention is {}, which is Transformer Engine's, and framework.fp8 "
                 "{}",
                 word(runs.eight_bit_attention), word(runs.eight_bit));
  if (layout.attention != AttentionKernel::flash)
    list.problem("attention", "attention is {} and framework.fp8_attention {}; allowed: flash",
                 word(layout.attention), word(runs.eight_bit_attention));
}

}  // namespace

void check_quantized(const Layout& layout, const Model& model, LayoutProblemList& list) {
  check_module_formats(layout, model, list);
  const bool ends = layout.first_bf16_layers > 0 || layout.last_bf16_layers > 0;
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  if (ends && !is_quantized(layout.compute_dtype))
    list.problem("bf16_layers", "bf16_layers is given with {} products; allowed with: fp8, nvfp4",
                 word(layout.compute_dtype));
  if (std::int64_t{layout.first_bf16_layers} + layout.last_bf16_layers > layers)
    list.problem("bf16_layers",
                 "bf16_layers.first {} and bf16_layers.last {} are more than the {} "
                 "layers of {}",
                 layout.first_bf16_layers, layout.last_bf16_layers, layers, model.name);
  check_eight_bit_attention(layout, model, list);
  if (layout.compute_dtype != DType::nvfp4) return;
  if (layout.recompute == Recompute::operators)
    list.problem("recompute",
                 "recompute is operators, and compute_dtype nvfp4, whose inputs are kept in 4 "
                 "bits; allowed: none, full");
  if (model.execution.keeps_gathered_inputs && layout.tensor_parallel > 1)
    list.problem("compute_dtype",
                 "nvfp4 is not modelled where gathered inputs are kept in 16 bits (framework "
                 "torchtitan) with tensor_parallel {}; allowed: tensor_parallel 1",
                 layout.tensor_parallel);
  if (layout.eight_bit_parameters && !is_transformer_engine(model.execution.eight_bit))
    list.problem("fp8_parameters",
                 "fp8_parameters is true with nvfp4 products of torchao, which gathers in 16 bits; "
                 "allowed: false");
  if (layout.cuts_products())
    list.problem("overlap.tensor_products",
                 "overlap.tensor_products is not modelled with nvfp4; allowed: false");
}

}  // namespace sim
