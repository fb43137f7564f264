// Formats of linears where a recipe says them by the names of modules.
//
// Names: those of PyTorch's named_modules() of GPTModel and HybridModel, which Megatron-LM matches
// (core/models/gpt/gpt_model.py, finish_init; at d98e8a64). Layers are numbered within a stage.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "sim/interop/megatron/megatron_config.hpp"
#include "sim/model/linear_module.hpp"
#include "sim/model/transformer.hpp"
#include "sim/plan/sharding/eight_bit.hpp"

namespace sim {
namespace {

// Behind the name of the layer.
std::string_view megatron_name(LinearModule module) {
  switch (module) {
    case LinearModule::qkv:
      return "self_attention.linear_qkv";
    case LinearModule::query:
      return "self_attention.linear_q_proj";
    case LinearModule::query_down:
      return "self_attention.linear_q_down_proj";
    case LinearModule::query_up:
      return "self_attention.linear_q_up_proj";
    case LinearModule::key_value_down:
      return "self_attention.linear_kv_down_proj";
    case LinearModule::key_value_up:
      return "self_attention.linear_kv_up_proj";
    case LinearModule::attention_projection:
      return "self_attention.linear_proj";
    case LinearModule::mlp_up:
      return "mlp.linear_fc1";
    case LinearModule::mlp_down:
      return "mlp.linear_fc2";
    case LinearModule::expert_up:
      return "mlp.experts.linear_fc1";
    case LinearModule::expert_down:
      return "mlp.experts.linear_fc2";
    case LinearModule::expert_latent_down:
      return "mlp.fc1_latent_proj";
    case LinearModule::expert_latent_up:
      return "mlp.fc2_latent_proj";
    case LinearModule::shared_expert_up:
      return "mlp.shared_experts.linear_fc1";
    case LinearModule::shared_expert_down:
      return "mlp.shared_experts.linear_fc2";
    case LinearModule::mamba_in:
      return "mixer.in_proj";
    case LinearModule::mamba_out:
      return "mixer.out_proj";
    case LinearModule::delta_in:
      return "self_attention.in_proj";
    case LinearModule::delta_out:
      return "self_attention.out_proj";
    case LinearModule::head:
      return "output_layer";
  }
  return "";
}

// can_be_built() holds unless a problem of the shape has been told.
bool can_be_built(const TransformerShape& shape) {
  return shape.layers > 0 && shape.hidden > 0 && shape.heads > 0 && shape.kv_heads > 0 &&
         shape.heads % shape.kv_heads == 0 && hybrid_problem(shape).empty() &&
         mtp_problem(shape).empty() && experts_problem(shape).empty();
}

// Chosen is what a module multiplies in.
struct Chosen {
  DType format = DType::bf16;
  std::optional<EightBit> software{};  // of 8 bits
  std::string path{};
};

class FormatReader {
 public:
  FormatReader(const MegatronConfig& config, const SettingProblems& problems, Imported& result)
      : config_{config}, recipe_{*config.module_recipe}, problems_{problems}, result_{result} {}

  void read() {
    if (!can_be_built(result_.shape)) return;
    const Model model = build_transformer(result_.shape);
    for (std::size_t i = 0; i < model.layers.size(); ++i)
      for (const ModelOp& op : model.layers[i].ops)
        add(op, i);
    // A layer without linears of its own, or none at all, keeps the format of the job.
    if (chosen_.empty()) return;
    depths(model.output);
    write();
  }

  // Whether a pattern keeps the head in 16 bits.
  bool keeps_head() const {
    const ModuleRecipe::Format* format = recipe_.of(megatron_name(LinearModule::head));
    return format != nullptr && format->over_quantized && format->is_plain();
  }

 private:
  Layout& layout() { return result_.layout; }

  Chosen base(const ModelOp& op) {
    const DType format = format_of(op, result_.layout);
    if (format != DType::fp8) return {.format = format};
    return {.format = format, .software = result_.framework.execution.eight_bit};
  }

  Chosen choice(const ModelOp& op, std::string path) {
    const ModuleRecipe::Format* const format = recipe_.of(path);
    Chosen chosen = base(op);
    chosen.path = std::move(path);
    const bool quantized = is_quantized(chosen.format);
    if (format == nullptr || !(quantized ? format->over_quantized : format->over_plain))
      return chosen;
    chosen.software.reset();
    chosen.format = layout().activation_dtype;
    if (format->four_bit) chosen.format = DType::nvfp4;
    if (!format->eight_bit.empty()) {
      chosen.format = DType::fp8;
      chosen.software = software_of_fp8_recipe(format->eight_bit);
    }
    stored_ = stored_ || (format->own_parameters && !format->is_plain());
    return chosen;
  }

  // Linears that are whole on every tensor rank multiply in 16 bits, whatever their format
  // (sim/plan/rules/fp8.md).
  void add(const ModelOp& op, std::size_t layer) {
    const std::optional<LinearModule> module = linear_module(op.name);
    if (!module || !is_linear_of_layer(op)) return;
    Chosen made = choice(op, fmt::format("decoder.layers.{}.{}", layer, megatron_name(*module)));
    const auto [held, is_new] = chosen_.try_emplace(*module, made);
    if (is_new || told_ || same(held->second, made)) return;
    told_ = true;
    problems_.problem(config_.module_recipe,
                      "gives {} and {} different formats; modelled: one for all linears of a kind "
                      "(and layers at the ends in bf16: first_last_layers_bf16)",
                      held->second.path, made.path);
  }

  static bool same(const Chosen& a, const Chosen& b) {
    return a.format == b.format && a.software == b.software;
  }

  // depths() reads multi-token prediction: the layers' formats, or 16 bits for all of it.
  void depths(const Block& output) {
    bool all_plain = true, as_layers = true;
    std::string odd;
    for (const ModelOp& op : output.ops) {
      const std::optional<LinearModule> module = linear_module(op.name);
      if (!module || !is_linear_of_layer(op) || !op.name.starts_with("mtp.")) continue;
      const Chosen made =
          choice(op, fmt::format("mtp.layers.0.mtp_model_layer.{}", megatron_name(*module)));
      const auto held = chosen_.find(*module);
      if (held == chosen_.end() || !same(held->second, made)) as_layers = false, odd = made.path;
      all_plain = all_plain && !is_quantized(made.format);
    }
    if (as_layers) return;
    if (!all_plain)
      return problems_.problem(config_.module_recipe,
                               "gives {} another format than the same linear of layers; modelled: "
                               "all of multi-token prediction in bf16, or as layers",
                               odd);
    result_.shape.mtp_sixteen_bits = true;
  }

  bool any(DType format) const {
    return std::ranges::any_of(chosen_,
                               [&](const auto& one) { return one.second.format == format; });
  }

  // The narrowest format is the layout's, the others are lists beside it.
  void write() {
    const DType compute = any(DType::nvfp4) ? DType::nvfp4
                          : any(DType::fp8) ? DType::fp8
                                            : layout().activation_dtype;
    software();
    if (!is_quantized(compute)) layout().eight_bit_parameters = false;
    layout().compute_dtype = compute;
    for (const auto& [module, made] : chosen_) {
      if (made.format == compute) continue;
      (is_quantized(made.format) ? layout().fp8_modules : layout().bf16_modules).push_back(module);
    }
    if (stored_ && !layout().eight_bit_parameters)
      problems_.problem(config_.module_recipe,
                        "has formats whose parameters are in 8 bits (fp8_param, fp4_param), and "
                        "the job has none; modelled: with fp8_param_gather");
  }

  void software() {
    const Chosen* first = nullptr;
    for (const auto& [module, made] : chosen_) {
      if (!made.software) continue;
      if (first == nullptr) first = &made;
      if (made.software != first->software)
        return problems_.problem(config_.module_recipe,
                                 "gives {} and {} different recipes in 8 bits; modelled: one",
                                 first->path, made.path);
    }
    if (first != nullptr) result_.framework.execution.eight_bit = *first->software;
  }

  const MegatronConfig& config_;
  const ModuleRecipe& recipe_;
  const SettingProblems& problems_;
  Imported& result_;
  std::map<LinearModule, Chosen> chosen_;
  bool told_ = false;
  bool stored_ = false;  // parameters of some are in their format
};

}  // namespace

void read_module_formats(const MegatronConfig& config, const SettingProblems& problems,
                         Imported& result) {
  bool head = config.fp8_head.value_or(false);
  if (config.module_recipe) {
    FormatReader reader{config, problems, result};
    reader.read();
    head = head && !reader.keeps_head();
  }
  if (head) result.layout.fp8_modules.push_back(LinearModule::head);
}

ModuleRecipe module_recipe_of(const Layout& layout, const Execution& runs) {
  ModuleRecipe recipe;
  const auto add = [&](const std::vector<LinearModule>& modules,
                       const ModuleRecipe::Format& format) {
    bool written = false;
    for (const LinearModule module : modules) {
      if (module == LinearModule::head) continue;
      if (!std::exchange(written, true)) recipe.formats.push_back(format);
      recipe.matchers.push_back(
          {fmt::format("*.{}", megatron_name(module)), recipe.formats.size() - 1});
    }
  };
  add(layout.bf16_modules, {.name = "bf16"});
  const std::optional<std::string_view> scaling = fp8_recipe_of(runs.eight_bit);
  add(layout.fp8_modules, {.name = "fp8", .eight_bit = std::string{scaling.value_or("mxfp8")}});
  return recipe;
}

}  // namespace sim
