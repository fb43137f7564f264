// Sources (NVIDIA-NeMo/Megatron-Bridge at 067f987d): recipes/common.py, _pretrain_common;
// perf_recipes/_common.py, _benchmark_common and _perf_precision.
#include "sim/interop/bridge_recipe.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "sim/base/near_names.hpp"

namespace sim {
namespace {

std::vector<std::string> recipes_of(const ObjectReader& file) {
  std::vector<std::string> names;
  for (const std::string& name : file.keys()) {
    const ObjectReader function = file.object(name);
    function.ignore_unknown();  // what is not known of the one that is read is told
    if (function.has("_base") && !name.starts_with('_')) names.push_back(name);
  }
  return names;
}

struct Precision {
  std::string_view name, recipe;  // of _perf_precision(); of what is cast
};
constexpr std::array precisions{Precision{"bf16", ""}, Precision{"fp8_cs", "tensorwise"},
                                Precision{"fp8_ds", "delayed"}, Precision{"fp8_mx", "mxfp8"},
                                Precision{"nvfp4", "nvfp4"}};

struct RecipeModel {
  std::string_view prefix, model;
};
constexpr std::array recipe_models{RecipeModel{"llama3_8b_", "llama-3.1-8b"},
                                   RecipeModel{"llama31_8b_", "llama-3.1-8b"},
                                   RecipeModel{"llama3_70b_", "llama-3.1-70b"},
                                   RecipeModel{"llama31_70b_", "llama-3.1-70b"},
                                   RecipeModel{"llama31_405b_", "llama-3.1-405b"},
                                   RecipeModel{"llama32_1b_", "llama-3.2-1b"},
                                   RecipeModel{"llama32_3b_", "llama-3.2-3b"},
                                   RecipeModel{"qwen25_500m_", "qwen2-0.5b"},
                                   RecipeModel{"qwen25_1p5b_", "qwen2.5-1.5b"},
                                   RecipeModel{"qwen25_7b_", "qwen2.5-7b"},
                                   RecipeModel{"qwen25_14b_", "qwen2.5-14b"},
                                   RecipeModel{"qwen25_32b_", "qwen2.5-32b"},
                                   RecipeModel{"qwen25_72b_", "qwen2.5-72b"},
                                   RecipeModel{"qwen3_600m_", "qwen3-0.6b"},
                                   RecipeModel{"qwen3_1p7b_", "qwen3-1.7b"},
                                   RecipeModel{"qwen3_4b_", "qwen3-4b"},
                                   RecipeModel{"qwen3_8b_", "qwen3-8b"},
                                   RecipeModel{"qwen3_14b_", "qwen3-14b"},
                                   RecipeModel{"qwen3_32b_", "qwen3-32b"},
                                   RecipeModel{"qwen3_30b_a3b_", "qwen3-30b-a3b"},
                                   RecipeModel{"qwen3_235b_a22b_", "qwen3-235b-a22b"},
                                   RecipeModel{"qwen3_next_80b_a3b_", "qwen3-next-80b-a3b"},
                                   RecipeModel{"deepseek_v3_", "deepseek-v3-mtp"},
                                   RecipeModel{"moonlight_16b_", "moonlight-16b-a3b"},
                                   RecipeModel{"nemotronh_8b_", "nemotron-h-8b"},
                                   RecipeModel{"nemotronh_56b_", "nemotron-h-56b"},
                                   RecipeModel{"nemotron_3_nano_", "nemotron-3-nano"}};

class RecipeReader {
 public:
  RecipeReader(const RecipeChain& chain, MegatronConfig& config, Imported& result)
      : chain_{chain}, config_{config}, result_{result} {}

  void read() {
    const std::string base = chain_.base();
    for (Flag* on : {&config_.distributed_optimizer, &config_.overlap_grad_reduce,
                     &config_.overlap_param_gather, &config_.average_in_collective})
      if (!*on) *on = true;
    common(base);
    helpers();
    precision();
    if (base.find("sft_") != std::string::npos || base.find("peft_") != std::string::npos)
      note("dataset",
           "the lengths of packed sequences are not in the file: layout.packing.lengths");
    if (base != "_pretrain_common" && base != "_sft_common" && base != "_peft_common")
      note("recipe", fmt::format("what {}() sets beside Megatron-Bridge's common settings is not "
                                 "read",
                                 base));
    for (const ObjectReader& layer : chain_.layers())
      if (layer.has("_unread"))
        for (const ValueReader& line : layer.list("_unread"))
          unread(line.text());
  }

 private:
  void note(const char* key, std::string what) { result_.notes.push_back({key, std::move(what)}); }

  // Conditions on what kind of adapters is asked for hold for the one that is read.
  void unread(const std::string& line) {
    constexpr std::array<std::string_view, 6> harmless{"if isinstance(peft_scheme",
                                                       "if cfg.model.context_parallel_size > 1",
                                                       "cfg.dataset.",
                                                       "opt_cfg, scheduler",
                                                       "opt_config, scheduler",
                                                       "from megatron."};
    const bool none = std::ranges::any_of(
        harmless, [&](std::string_view begin) { return line.starts_with(begin); });
    if (!none) note("recipe", "not read: " + line);
  }

  // recipes/common.py.
  void common(std::string_view base) {
    const bool trains = base == "_pretrain_common";
    if (!trains && base != "_sft_common" && base != "_peft_common") return;
    if (!config_.micro_batch_size) config_.micro_batch_size = trains ? 2 : 1;
    if (!config_.global_batch_size) config_.global_batch_size = trains ? 32 : 128;
    if (!config_.seq_length) config_.seq_length = trains ? 4096 : 2048;
  }

  // training/flex_dispatcher_backend.py.
  void dispatcher() {
    if (!config_.flex_backend) return;
    config_.token_dispatcher = std::string{"flex"};
    config_.overlap_shared_experts = false;
  }

  void helpers() {
    for (const ObjectReader& layer : chain_.layers())
      if (layer.has("_calls")) calls(layer);
  }

  void calls(const ObjectReader& layer) {
    for (const ValueReader& call : layer.list("_calls")) {
      const std::string name = call.text();
      if (name.ends_with("_benchmark_common"))
        benchmark();
      else if (name == "apply_flex_dispatcher_backend")
        dispatcher();
      else if (name != "_enable_overlap_param_gather_with_optimizer_step")
        note("recipe", fmt::format("not read: what {}() sets", name));
    }
  }

  void benchmark() {
    if (!config_.grads_in_fp32) config_.grads_in_fp32 = false;
    if (!config_.check_gradients) config_.check_gradients = false;
    if (!config_.loss_fusion) config_.loss_fusion = std::string{"te"};
    if (!config_.fused_loss) config_.fused_loss = true;
  }

  void precision() {
    std::optional<ValueReader> value;
    for (const ObjectReader& layer : chain_.layers()) {
      const std::optional<ValueReader> found = layer.find("mixed_precision");
      if (found && !value) value = found;
    }
    if (!value) config_.bf16 = true;
    if (!value || !value->is_object()) {
      if (!config_.grads_in_fp32) config_.grads_in_fp32 = true;
      return;
    }
    const ObjectReader made = value->object();
    if (!made.has("_target_") || !made.has("_0")) return;
    if (made.text("_target_") != "_perf_precision") return;
    const std::string name = made.text("_0");
    const auto found = std::ranges::find(precisions, name, &Precision::name);
    if (found == precisions.end())
      return made.problem("_0", fmt::format("'{}' is no precision that is known; allowed: bf16, "
                                            "fp8_cs, fp8_ds, fp8_mx, nvfp4",
                                            name.substr(0, 80)));
    config_.bf16 = true;
    if (!config_.grads_in_fp32) config_.grads_in_fp32 = false;
    if (found->recipe.empty()) return;
    Flag& gathers = multiply_as(found->recipe, value, config_);
    if (!gathers) gathers = true;
  }

  const RecipeChain& chain_;
  MegatronConfig& config_;
  Imported& result_;
};

}  // namespace

Flag& multiply_as(std::string_view recipe, const std::optional<ValueReader>& place,
                  MegatronConfig& config) {
  if (recipe == "nvfp4") {
    config.fp4 = Text{"e2m1", place};
    return config.fp4_param_gather;
  }
  config.fp8 = Text{"hybrid", place};
  config.fp8_recipe = Text{std::string{recipe}, place};
  return config.fp8_param_gather;
}

std::string recipe_name(const Document& file, const std::string& name) {
  const ObjectReader all = file.root_object();
  all.ignore_unknown();
  const std::vector<std::string> names = recipes_of(all);
  if (name.empty() && names.size() == 1) return names.front();
  if (std::ranges::find(names, name) != names.end()) return name;
  const std::vector<std::string_view> views{names.begin(), names.end()};
  const std::string allowed = names.empty() ? "the file has none" : choices_text(name, views);
  throw InputError{{file.name(), 0, 0},
                   name.empty() ? fmt::format("which recipe? give --recipe NAME; {}", allowed)
                                : fmt::format("there is no recipe '{}'; {}", name, allowed)};
}

std::vector<std::string> recipe_names(const std::string& path) {
  try {
    const Document file = Document::load(path, Syntax::python);
    const ObjectReader all = file.root_object();
    all.ignore_unknown();
    return recipes_of(all);
  } catch (const InputError&) {
    return {};
  }
}

ObjectReader recipe_in(const Document& file, const std::string& name) {
  const ObjectReader all = file.root_object();
  all.ignore_unknown();
  return all.object(name);
}

int gpus_of_recipe(std::string_view name) {
  const std::size_t end = name.find("gpu_");
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9')
    --begin;
  int gpus = 0;
  const auto read = std::from_chars(name.data() + begin, name.data() + end, gpus);
  return read.ec == std::errc{} && gpus <= 1 << 20 ? gpus : 0;
}

std::string model_of_recipe(std::string_view name) {
  for (const RecipeModel& row : recipe_models)
    if (name.starts_with(row.prefix)) return std::string{row.model};
  return {};
}

bool is_recipe(const ObjectReader& root) {
  return root.has("_base");
}

void read_recipe(const RecipeChain& chain, MegatronConfig& config, Imported& result) {
  RecipeReader{chain, config, result}.read();
}

}  // namespace sim
