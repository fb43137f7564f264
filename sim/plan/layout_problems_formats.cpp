// Checks of a layout: formats by module, and of what activations keep.
#include <fmt/ranges.h>

#include "sim/plan/layout_problem_list.hpp"

namespace sim {
namespace {

// Formats by module are Transformer Engine's under Megatron-LM (core/extensions/
// transformer_engine.py, TEQuantizationRecipe; at d98e8a64).
class ModuleFormatChecker {
 public:
  ModuleFormatChecker(const Layout& layout, const Model& model, LayoutProblemList& list)
      : layout_{layout}, model_{model}, list_{list} {}

  void run() {
    if (layout_.bf16_modules.empty() && layout_.fp8_modules.empty()) return;
    const char* key = layout_.bf16_modules.empty() ? "fp8_modules" : "bf16_modules";
    if (!is_quantized(layout_.compute_dtype))
      return list_.problem(key, "{} is given with {} products; allowed with: fp8, nvfp4", key,
                           word(layout_.compute_dtype));
    if (!is_transformer_engine(model_.execution.eight_bit))
      list_.problem(key, "{} is Transformer Engine's, and framework.fp8 is {}; allowed: []", key,
                    word(model_.execution.eight_bit));
    if (layout_.trains_adapters())
      list_.problem(key, "{} is not modelled with lora.rank; allowed: []", key);
    for (const LinearModule module : layout_.bf16_modules) {
      known("bf16_modules", module);
      if (module == LinearModule::head || lists(layout_.fp8_modules, module))
        list_.problem("bf16_modules", "bf16_modules has {}, which is {}", word(module),
                      module == LinearModule::head ? "in 16 bits where fp8_modules does not name it"
                                                   : "in fp8_modules, too");
    }
    for (const LinearModule module : layout_.fp8_modules)
      eight_bits(module);
  }

 private:
  static bool lists(const std::vector<LinearModule>& list, LinearModule module) {
    return std::ranges::find(list, module) != list.end();
  }

  void known(const char* key, LinearModule module) {
    std::vector<std::string_view> there;
    const auto add = [&](const Block& block) {
      for (const ModelOp& op : block.ops) {
        const std::optional<LinearModule> one = linear_module(op.name);
        if (one && op.kind == ModelOpKind::linear &&
            std::ranges::find(there, word(*one)) == there.end())
          there.push_back(word(*one));
      }
    };
    for (const Block* layer : model_.layers_of_each_kind())
      add(*layer);
    add(model_.output);
    if (std::ranges::find(there, word(module)) == there.end())
      list_.problem(key, "{} has {}, which {} has not; allowed: {}", key, word(module), model_.name,
                    fmt::join(there, ", "));
  }

  void eight_bits(LinearModule module) {
    known("fp8_modules", module);
    const EightBit software = model_.execution.eight_bit;
    if (module == LinearModule::head) return head(software);
    if (layout_.compute_dtype == DType::fp8)
      list_.problem("fp8_modules",
                    "fp8_modules has {}, and compute_dtype is fp8; allowed: the head alone",
                    word(module));
    if (delays_scaling(software))
      list_.problem("fp8_modules",
                    "fp8_modules has {} with framework.fp8 {}; formats by module have no delayed "
                    "scaling; allowed: transformer_engine_tensorwise, "
                    "transformer_engine_blockwise, transformer_engine_mxfp8",
                    word(module), word(software));
  }

  // TELMHeadColumnParallelLinear: MXFP8 alone, with a weight of its own.
  void head(EightBit software) {
    if (layout_.compute_dtype != DType::fp8 || software != EightBit::transformer_engine_mxfp8)
      list_.problem("fp8_modules",
                    "fp8_modules has head, which Megatron-LM has with fp8 products in MXFP8 alone");
    const auto head = std::ranges::find(model_.output.ops, "head", &ModelOp::name);
    if (head != model_.output.ops.end() && head->tied_to_embedding)
      list_.problem("fp8_modules",
                    "fp8_modules has head, and {} has a head that shares the embedding's table, "
                    "for which Megatron-LM has none",
                    model_.name);
  }

  const Layout& layout_;
  const Model& model_;
  LayoutProblemList& list_;
};

// Megatron-LM at d98e8a64, core/transformer/transformer_config.py: of SwiGLU alone.
void check_gate_inputs(const Layout& layout, const Model& model, LayoutProblemList& list) {
  if (!model.execution.keeps_gate_inputs_in_fp8) return;
  const char* key = "framework.activation_func_fp8_input_store";
  const auto gates = [](const Block* layer) {
    return std::ranges::find(layer->ops, Function::swiglu, &ModelOp::function) != layer->ops.end();
  };
  if (std::ranges::none_of(model.layers_of_each_kind(), gates))
    list.problem(key, "{} is true, and {} has no SwiGLU in one kernel; allowed: false", key,
                 model.name);
  const char* excludes = layout.recompute == Recompute::operators ? "recompute operators"
                         : layout.mlp_tiles > 1                   ? "mlp_tiles"
                                                                  : nullptr;
  if (excludes != nullptr)
    list.problem(key, "{} is true, which is not modelled with {}; allowed: false", key, excludes);
}

}  // namespace

void check_module_formats(const Layout& layout, const Model& model, LayoutProblemList& list) {
  ModuleFormatChecker{layout, model, list}.run();
  check_gate_inputs(layout, model, list);
}

}  // namespace sim
