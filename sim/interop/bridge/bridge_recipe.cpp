// Sources (NVIDIA-NeMo/Megatron-Bridge at 067f987d): recipes/common.py, _pretrain_common;
// perf_recipes/_common.py, _benchmark_common and _perf_precision; training/mixed_precision.py,
// get_mixed_precision_config; recipes/utils/optimizer_utils.py.
#include "sim/interop/bridge/bridge_recipe.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "sim/base/near_names.hpp"
#include "sim/config/input_log.hpp"
#include "sim/interop/bridge/bridge_keys.hpp"
#include "sim/scripts/python/python_recipe.hpp"

namespace sim {
namespace {

// Python that stands for Megatron-Bridge's own functions, whose files need not be there.
constexpr std::string_view prelude = R"(
def _pretrain_common():
    cfg = pretrain_common()
    cfg.mixed_precision = "bf16_mixed"
    cfg.comm_overlap = None
    return cfg

def _sft_common():
    cfg = sft_common()
    cfg.mixed_precision = "bf16_mixed"
    cfg.comm_overlap = None
    return cfg

def _peft_common():
    cfg = peft_common()
    cfg.peft = LoRA()
    cfg.mixed_precision = "bf16_mixed"
    cfg.comm_overlap = None
    return cfg

def apply_flex_dispatcher_backend(model, backend=None):
    if backend == "deepep" or backend == "hybridep":
        model.moe_token_dispatcher_type = "flex"
        model.moe_flex_dispatcher_backend = backend
        model.moe_shared_expert_overlap = False

def set_cuda_graph_modules(model, modules):
    model.cuda_graph_scope = modules

def clear_cuda_graph_modules(model):
    model.cuda_graph_scope = []

def load_quantization_recipe(recipe_path):
    return QuantizationRecipeFile(recipe_path)

def get_mixed_precision_config(name):
    if isinstance(name, str):
        return named_mixed_precision(name)
    return name

def distributed_fused_adam_with_cosine_annealing(**settings):
    return OptimizerConfig(optimizer="adam", use_distributed_optimizer=True), SchedulerConfig()

def distributed_fused_adam_with_cosine_annealing_samples(**settings):
    return OptimizerConfig(optimizer="adam", use_distributed_optimizer=True), SchedulerConfig()

def distributed_muon_with_cosine_annealing(muon_num_ns_steps=5, muon_tp_mode="blockwise", **settings):
    optimizer = OptimizerConfig(optimizer="dist_muon")
    optimizer.muon_num_ns_steps = muon_num_ns_steps
    optimizer.muon_tp_mode = muon_tp_mode
    return optimizer, SchedulerConfig()
)";
constexpr std::array<std::string_view, 1> opaque{"_perf_precision"};

PythonRules rules_of_recipes(bool from_files) {
  return {.prelude = prelude, .opaque = opaque, .modules = "recipes", .from_files = from_files};
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
                                   RecipeModel{"nemotron_3_nano_4b_", ""},
                                   RecipeModel{"nemotron_3_nano_", "nemotron-3-nano"},
                                   RecipeModel{"gpt_oss_20b_", "gpt-oss-20b"},
                                   RecipeModel{"gpt_oss_120b_", "gpt-oss-120b"},
                                   RecipeModel{"kimi_k2_", "kimi-k2"}};

class RecipeReader {
 public:
  RecipeReader(const ObjectReader& root, MegatronConfig& config, Imported& result)
      : root_{root}, config_{config}, result_{result} {}

  void read() {
    const std::string base = root_.text("_base");
    for (Flag* on : {&config_.distributed_optimizer, &config_.overlap_grad_reduce,
                     &config_.overlap_param_gather, &config_.average_in_collective})
      if (!*on) *on = true;
    // Every bridge of a model with experts sets it (models/conversion at 067f987d).
    if (!config_.token_dispatcher) config_.token_dispatcher = std::string{"alltoall"};
    common(base);
    calls();
    precision();
    if (base.find("sft_") != std::string::npos || base.find("peft_") != std::string::npos)
      note("dataset",
           "the lengths of packed sequences are not in the file: layout.packing.lengths");
    if (base != "pretrain_common" && base != "sft_common" && base != "peft_common")
      root_.problem("_base",
                    fmt::format("begins from {}(), which is neither in the file nor in a module "
                                "beside or above it: what it sets is not known; put the recipe "
                                "where its imports lie, or forecast without it: --set "
                                "_base=pretrain_common (or sft_common, peft_common)",
                                base));
    for (const ValueReader& line : told("_unread"))
      unread(line);
    unknown();
  }

 private:
  void note(const char* key, std::string what) { result_.notes.push_back({key, std::move(what)}); }

  // A list of what was told, or none where --set says that it does not count.
  std::vector<ValueReader> told(const char* key) const {
    const std::optional<ValueReader> all = root_.find(key);
    return all && all->is_list() ? all->list() : std::vector<ValueReader>{};
  }

  // Lines of sections that no step depends on may be left out.
  static void unread(const ValueReader& line) {
    constexpr std::array<std::string_view, 7> harmless{
        "cfg.tokenizer.", "cfg.scheduler", "cfg.checkpoint", "cfg.logger",
        "cfg.rng",        "cfg.env_vars",  "cfg.profiling"};
    const std::string text = line.text();
    const bool none = std::ranges::any_of(
        harmless, [&](std::string_view begin) { return text.starts_with(begin); });
    if (!none)
      line.problem(
          fmt::format("'{}' is not read, and may change the step: write it without "
                      "slices, while, lambda and the like, or leave it out (--set "
                      "_unread=none: all such lines) and give its values with --set",
                      text));
  }

  // Where a step depends on it, its value has to be given.
  void unknown() {
    const std::optional<ValueReader> all = root_.find("_unknown");
    if (!all || !all->is_object()) return;
    const ObjectReader paths = all->object();
    for (const std::string& path : paths.unasked_keys()) {
      const ValueReader line = paths.at(path);
      const std::string text = line.text();
      if (is_given(path)) continue;
      // The model has its own.
      const bool counts =
          bridge_key_counts(path) && (path != "tokenizer.vocab_size" || is_hybrid_provider());
      if (counts)
        line.problem(
            fmt::format("{} depends on '{}', which cannot be evaluated here; give its "
                        "value: --set {}=VALUE",
                        path, text, path));
      else
        result_.ignored.push_back(path);
    }
  }

  // A class of models whose vocabulary is the tokenizer's.
  bool is_hybrid_provider() const {
    const std::optional<ValueReader> model = root_.find("model");
    return model && model->is_object() &&
           model->object().text_or("_target_", "") == "HybridModelProvider";
  }

  // By --set: where it is not known, it is not in the tree.
  bool is_given(std::string_view whole) const {
    ObjectReader object = root_;
    std::string_view path = whole;
    for (std::size_t dot = path.find('.');; dot = path.find('.')) {
      const std::optional<ValueReader> value = object.find(path.substr(0, dot));
      if (!value) return false;
      if (dot == path.npos || !value->is_object()) return true;
      const bool section = path.data() == whole.data();
      object = value->object();
      if (!section) object.ignore_unknown();  // nobody reads it but for this
      path.remove_prefix(dot + 1);
    }
  }

  // recipes/common.py.
  void common(std::string_view base) {
    const bool trains = base == "pretrain_common";
    if (!trains && base != "sft_common" && base != "peft_common") return;
    if (!config_.micro_batch_size) config_.micro_batch_size = trains ? 2 : 1;
    if (!config_.global_batch_size) config_.global_batch_size = trains ? 32 : 128;
    if (!config_.seq_length) config_.seq_length = trains ? 4096 : 2048;
  }

  // Helpers whose files are not there.
  void calls() {
    for (const ValueReader& call : told("_calls")) {
      const std::string name = call.text();
      if (name.ends_with("_benchmark_common"))
        benchmark();
      else if (name != "_enable_overlap_param_gather_with_optimizer_step")
        call.problem(
            fmt::format("{}() is neither in the file nor in a module beside or above it: "
                        "what it sets is not known; put the recipe where its imports "
                        "lie, or forecast without such calls: --set _calls=none",
                        name));
    }
  }

  void benchmark() {
    if (!config_.grads_in_fp32) config_.grads_in_fp32 = false;
    if (!config_.check_gradients) config_.check_gradients = false;
    if (!config_.loss_fusion) config_.loss_fusion = std::string{"te"};
    if (!config_.fused_loss) config_.fused_loss = true;
  }

  void precision() {
    const std::optional<ValueReader> value = root_.find("mixed_precision");
    if (!value) config_.bf16 = true;
    if (!value || !value->is_object()) {
      if (!config_.grads_in_fp32) config_.grads_in_fp32 = true;
      return;
    }
    const ObjectReader made = value->object();
    if (made.text_or("_target_", "") != "_perf_precision") return;
    if (!made.has("_0")) return made.problem("_target_", "which precision does it make?");
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

  const ObjectReader& root_;
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

std::string recipe_name(std::string_view text, const std::string& file, const std::string& name) {
  const std::vector<std::string> names = python_configurations(text);
  if (name.empty() && names.size() == 1) return names.front();
  if (std::ranges::find(names, name) != names.end()) return name;
  const std::vector<std::string_view> views{names.begin(), names.end()};
  const std::string allowed = names.empty() ? "the file has none" : choices_text(name, views);
  throw InputError{{file, 0, 0},
                   name.empty() ? fmt::format("which recipe? give --recipe NAME; {}", allowed)
                                : fmt::format("there is no recipe '{}'; {}", name, allowed)};
}

std::vector<std::string> recipe_names(const std::string& path) {
  try {
    return python_configurations(read_input(path));
  } catch (const InputError&) {
    return {};
  }
}

EvaluatedPython evaluate_recipe(std::string_view text, const std::string& file,
                                const std::string& name, bool from_files) {
  return {text, file, name, rules_of_recipes(from_files)};
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

void read_recipe(const ObjectReader& root, MegatronConfig& config, Imported& result) {
  RecipeReader{root, config, result}.read();
}

}  // namespace sim
