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
    if (function.has("_base")) names.push_back(name);
  }
  return names;
}

struct Precision {
  std::string_view name, recipe;  // of _perf_precision(); of what is cast
};
constexpr std::array precisions{Precision{"bf16", ""}, Precision{"fp8_cs", "tensorwise"},
                                Precision{"fp8_ds", "delayed"}, Precision{"fp8_mx", "mxfp8"},
                                Precision{"nvfp4", "nvfp4"}};

class RecipeReader {
 public:
  RecipeReader(const ObjectReader& root, MegatronConfig& config, Imported& result)
      : root_{root}, config_{config}, result_{result} {}

  void read() {
    const std::string base = root_.text("_base");
    for (Flag* on : {&config_.distributed_optimizer, &config_.overlap_grad_reduce,
                     &config_.overlap_param_gather, &config_.average_in_collective})
      if (!*on) *on = true;
    helpers();
    precision();
    if (base.find("_sft_") != std::string::npos || base.find("_peft_") != std::string::npos)
      note("dataset",
           "the lengths of packed sequences are not in the file: layout.packing.lengths");
    note("recipe",
         fmt::format("what {}() sets beside Megatron-Bridge's common settings is not read", base));
    if (root_.has("_unread"))
      for (const ValueReader& line : root_.list("_unread"))
        note("recipe", fmt::format("not read: {}", line.text()));
  }

 private:
  void note(const char* key, std::string what) { result_.notes.push_back({key, std::move(what)}); }

  void helpers() {
    if (!root_.has("_calls")) return;
    for (const ValueReader& call : root_.list("_calls")) {
      const std::string name = call.text();
      if (name.ends_with("_benchmark_common"))
        benchmark();
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
    const std::optional<ValueReader> value = root_.find("mixed_precision");
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

bool is_recipe(const ObjectReader& root) {
  return root.has("_base");
}

void read_recipe(const ObjectReader& root, MegatronConfig& config, Imported& result) {
  RecipeReader{root, config, result}.read();
}

}  // namespace sim
