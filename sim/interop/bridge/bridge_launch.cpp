// Sources (NVIDIA-NeMo/Megatron-Bridge at 067f987d): scripts/training/setup_experiment.py and
// run_recipe.py; scripts/performance/argument_parser.py, utils/overrides.py, and utils/utils.py,
// _canonical_perf_recipe_name.
#include "sim/interop/bridge/bridge_launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "sim/base/near_names.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

// Flags that set a field of the configuration, with '_' for '-'.
struct FieldFlag {
  std::string_view name, brief, field;
};
constexpr std::array field_flags{
    FieldFlag{"seq_length", "sl", "model.seq_length"},
    FieldFlag{"global_batch_size", "gb", "train.global_batch_size"},
    FieldFlag{"gbs", "", "train.global_batch_size"},
    FieldFlag{"micro_batch_size", "mb", "train.micro_batch_size"},
    FieldFlag{"mbs", "", "train.micro_batch_size"},
    FieldFlag{"tensor_model_parallel_size", "tp", "model.tensor_model_parallel_size"},
    FieldFlag{"pipeline_model_parallel_size", "pp", "model.pipeline_model_parallel_size"},
    FieldFlag{"context_parallel_size", "cp", "model.context_parallel_size"},
    FieldFlag{"virtual_pipeline_model_parallel_size", "vp",
              "model.virtual_pipeline_model_parallel_size"},
    FieldFlag{"expert_model_parallel_size", "ep", "model.expert_model_parallel_size"},
    FieldFlag{"expert_tensor_parallel_size", "et", "model.expert_tensor_parallel_size"},
    FieldFlag{"num_layers", "", "model.num_layers"},
    FieldFlag{"hidden_size", "", "model.hidden_size"},
    FieldFlag{"pipeline_model_parallel_layout", "", "model.pipeline_model_parallel_layout"},
    FieldFlag{"cuda_graph_impl", "", "model.cuda_graph_impl"},
    FieldFlag{"cuda_graph_scope", "", "model.cuda_graph_scope"},
    FieldFlag{"moe_flex_dispatcher_backend", "", "model.moe_flex_dispatcher_backend"},
    FieldFlag{"nccl_ub", "", "ddp.nccl_ub"},
};

// other_flags change nothing of a step, or choose the recipe.
constexpr std::array<std::string_view, 76> other_flags{"recipe",
                                                       "nodes",
                                                       "gpus_per_node",
                                                       "gn",
                                                       "num_gpus",
                                                       "ng",
                                                       "mode",
                                                       "task",
                                                       "max_steps",
                                                       "ms",
                                                       "wait",
                                                       "account",
                                                       "a",
                                                       "partition",
                                                       "p",
                                                       "time",
                                                       "time_limit",
                                                       "t",
                                                       "gres",
                                                       "additional_slurm_params",
                                                       "no_gpu_resource_request",
                                                       "container_image",
                                                       "i",
                                                       "mount",
                                                       "env",
                                                       "E",
                                                       "srun_arg",
                                                       "experiment_name",
                                                       "submission_dry_run",
                                                       "dry_run",
                                                       "dryrun",
                                                       "d",
                                                       "detach",
                                                       "domain",
                                                       "model_family_name",
                                                       "m",
                                                       "model_recipe_name",
                                                       "mr",
                                                       "use_recipes",
                                                       "nemo_home",
                                                       "nh",
                                                       "max_retries",
                                                       "gpu",
                                                       "g",
                                                       "compute_dtype",
                                                       "c",
                                                       "config_variant",
                                                       "cv",
                                                       "lr",
                                                       "min_lr",
                                                       "warmup_iters",
                                                       "pretrained_checkpoint",
                                                       "save_dir",
                                                       "load_dir",
                                                       "save_interval",
                                                       "most_recent_k",
                                                       "data",
                                                       "dataset",
                                                       "dataset_paths",
                                                       "dataset_root",
                                                       "index_mapping_dir",
                                                       "tokenizer_type",
                                                       "tokenizer_model",
                                                       "hf_token",
                                                       "hf",
                                                       "offline",
                                                       "custom_mounts",
                                                       "cm",
                                                       "custom_env_vars",
                                                       "ce",
                                                       "custom_srun_args",
                                                       "cs",
                                                       "step_func",
                                                       "wandb_key",
                                                       "wdk",
                                                       "distributed_timeout_minutes"};

// utils/utils.py, _normalize_precision_name and _recipe_variant_suffix.
std::string precision_name(std::string name) {
  std::erase(name, '_');
  return name;
}
std::string variant_ending(const std::string& variant) {
  return variant.empty() || variant == "v1" || variant == "v2" ? "" : "_" + variant;
}

std::string value_text(const LineFlag& flag) {
  std::string text = flag.text();
  if (text == "None" || text == "none") return "null";
  if (text == "True") return "true";
  if (text == "False") return "false";
  const bool flat = text.size() > 2 && text.front() == '[' && text.back() == ']' &&
                    text.find('[', 1) == std::string::npos;
  if (!flat) return text;
  // A list as the readers of single values have it.
  text = text.substr(1, text.size() - 2);
  std::erase_if(text, [](char c) { return c == '"' || c == '\''; });
  std::ranges::replace(text, ',', ' ');
  return text;
}

class LineReader {
 public:
  LineReader(const Launch& launch, const LaunchedProgram& program, std::size_t begin)
      : line_{read_line(program, begin)}, sizes_{sizes_of(launch, program, begin)} {
    made_.where = program.words[begin - 1].where;
  }

  std::optional<BridgeLaunch> read() {
    name_recipe();
    if (made_.recipe.empty()) return std::nullopt;
    count_gpus();
    for (const LineFlag& flag : line_.flags)
      take(flag);
    for (const LineFlag& change : line_.overrides)
      set(change.name, change);
    return std::move(made_);
  }

 private:
  std::string text(std::initializer_list<std::string_view> names, const char* fallback = "") const {
    const LineFlag* flag = line_.find(names);
    return flag == nullptr || flag->values.empty() ? fallback : flag->values.front().text;
  }

  void name_recipe() {
    made_.recipe = text({"recipe", "r"});
    const std::string model = text({"model_recipe_name", "mr"});
    if (!made_.recipe.empty() || model.empty()) return;
    const std::string gpu = text({"gpu", "g"}), format = text({"compute_dtype", "c"}, "bf16");
    made_.recipe =
        fmt::format("{}_{}_{}gpu_{}_{}{}_config", model, text({"task"}, "pretrain"),
                    text({"num_gpus", "ng"}, "?"), gpu.empty() ? "?" : gpu, precision_name(format),
                    variant_ending(text({"config_variant", "cv"})));
  }

  static std::int64_t number(const std::string& text) {
    const bool digits = !text.empty() && text.size() < 8 &&
                        text.find_first_not_of("0123456789") == std::string::npos;
    return digits ? std::stoll(text) : 0;
  }

  void count_gpus() {
    const std::int64_t all = number(text({"num_gpus", "ng"}));
    const std::int64_t nodes = number(text({"nodes"}, "1"));
    const std::int64_t each = number(text({"gpus_per_node", "gn"}));
    made_.gpus = all > 0 ? all : each > 0 ? nodes * each : sizes_.all();
    if (all == 0 && each > 0) made_.sizes = fmt::format("{} x {}", nodes, each);
    const bool launched = all > 0 && sizes_.all() == all && sizes_.nodes > 0;
    if (launched) made_.sizes = fmt::format("{} x {}", sizes_.nodes, sizes_.gpus_per_node);
  }

  void set(std::string key, const LineFlag& flag) {
    made_.changes.push_back({std::move(key), value_text(flag)});
  }

  void take(const LineFlag& flag) {
    std::string name = flag.name;
    std::ranges::replace(name, '-', '_');
    const auto row = std::ranges::find_if(field_flags, [&](const FieldFlag& one) {
      return one.name == name || (!one.brief.empty() && one.brief == name);
    });
    if (row != field_flags.end()) return set(std::string{row->field}, flag);
    const bool on = value_text(flag) == "true" || value_text(flag) == "1";
    if (name == "recompute_modules") {
      made_.changes.push_back({"model.recompute_granularity", "selective"});
      set("model.recompute_modules", flag);
    } else if (name == "recompute_num_layers" || name == "rl") {
      made_.changes.push_back({"model.recompute_granularity", "full"});
      made_.changes.push_back({"model.recompute_method", "block"});
      set("model.recompute_num_layers", flag);
    } else if (name == "use_megatron_fsdp") {
      if (!on) return;
      made_.changes.push_back({"ddp.use_megatron_fsdp", "true"});
      made_.changes.push_back({"ddp.data_parallel_sharding_strategy", "optim_grads_params"});
      made_.changes.push_back({"ddp.average_in_collective", "false"});
    } else if (std::ranges::find(other_flags, name) == other_flags.end() &&
               value_text(flag) != "false" && value_text(flag) != "null") {
      made_.notes.push_back({"--" + flag.name, fmt::format("not read: '{}'", flag.text())});
    }
  }

  LaunchLine line_;
  LaunchSizes sizes_;
  BridgeLaunch made_;
};

bool has_function(const fs::path& path, const std::string& name) {
  std::ifstream in{path, std::ios::binary};
  const std::string text{std::istreambuf_iterator<char>{in}, {}};
  const std::size_t at = text.find("def " + name + "(");
  return at != std::string::npos && (at == 0 || text[at - 1] == '\n');
}

std::vector<fs::path> python_files(const fs::path& folder, bool below) {
  std::vector<fs::path> files;
  std::error_code error;
  const auto take = [&](const fs::directory_entry& entry) {
    if (entry.path().extension() == ".py" && entry.is_regular_file(error) &&
        entry.file_size(error) < (1U << 20) && files.size() < 5000)
      files.push_back(entry.path());
  };
  if (below)
    for (auto at = fs::recursive_directory_iterator{folder, error};
         !error && at != fs::recursive_directory_iterator{}; at.increment(error))
      take(*at);
  else
    for (auto at = fs::directory_iterator{folder, error}; !error && at != fs::directory_iterator{};
         at.increment(error))
      take(*at);
  std::ranges::sort(files);
  return files;
}

}  // namespace

// megatron/bridge/training/config.py, ConfigContainer.
std::span<const std::string_view> config_container_sections() {
  static constexpr std::array<std::string_view, 18> names{
      "model",      "train",     "ddp",          "optimizer",
      "scheduler",  "dataset",   "logger",       "tokenizer",
      "checkpoint", "dist",      "comm_overlap", "rng",
      "validation", "profiling", "env_vars",     "rerun_state_machine",
      "straggler",  "ft"};
  return names;
}

std::vector<BridgeLaunch> bridge_launches(const Launch& launch) {
  std::vector<BridgeLaunch> found;
  for (const LaunchedProgram& program : launch.programs) {
    const auto at =
        word_at(program, {"train.sh", "run_recipe.py", "setup_experiment.py", "run_script.py",
                          "custom_setup_experiment.py", "launch_with_nemo_run.py"});
    if (!at) continue;
    if (std::optional<BridgeLaunch> made = LineReader{launch, program, *at + 1}.read())
      found.push_back(std::move(*made));
  }
  return found;
}

BridgeLaunch chosen_launch(const std::vector<BridgeLaunch>& launches, const std::string& file,
                           const std::string& recipe) {
  std::vector<std::string_view> names;
  for (const BridgeLaunch& one : launches) {
    if (recipe == one.recipe || (recipe.empty() && launches.size() == 1)) return one;
    if (std::ranges::find(names, one.recipe) == names.end()) names.push_back(one.recipe);
  }
  if (names.size() == 1 && recipe.empty()) return launches.front();
  throw InputError{
      {file, 0, 0},
      recipe.empty()
          ? fmt::format("which line? give --recipe NAME; {}", choices_text(recipe, names))
          : fmt::format("no line starts the recipe '{}'; {}", recipe, choices_text(recipe, names))};
}

std::string source_of_recipe(const std::string& file, const std::string& recipe) {
  fs::path folder = fs::absolute(file).parent_path();
  for (const fs::path& path : python_files(folder, false))
    if (has_function(path, recipe)) return path.string();
  for (int i = 0; i < 6; ++i) {
    const fs::path bridge = folder / "src" / "megatron" / "bridge";
    // A recipe that exists twice is the benchmark's (recipe_runner.py, load_recipe).
    for (const char* kind : {"perf_recipes", "recipes"})
      for (const fs::path& path : python_files(bridge / kind, true))
        if (has_function(path, recipe)) return path.string();
    if (folder == folder.parent_path()) break;
    folder = folder.parent_path();
  }
  return {};
}

std::string missing_source_text(const BridgeLaunch& launch) {
  std::string sets, changed;
  for (const Change& change : launch.changes) {
    const bool plain = change.value.find_first_of(" []{}()*|'\"") == std::string::npos;
    sets += plain ? fmt::format(" --set {}={}", change.key, change.value)
                  : fmt::format(" --set '{}={}'", change.key, change.value);
    changed += fmt::format("{}{}={}", changed.empty() ? "; with " : ", ", change.key, change.value);
  }
  const std::string gpus = launch.gpus == 0
                               ? ""
                               : fmt::format(" on {} GPUs{}", launch.gpus,
                                             launch.sizes.empty() ? "" : " (" + launch.sizes + ")");
  const std::string asked = launch.gpus == 0 ? "" : fmt::format(" --gpus {}", launch.gpus);
  return fmt::format(
      "this line starts Megatron-Bridge's recipe {}{}{}; the recipe itself is in a Python file, "
      "which is neither beside this one nor in src/megatron/bridge of a folder above: give the "
      "file that has 'def {}(', as: stepcast import bridge FILE.py --recipe {} --cluster "
      "dgx-h100{}{}",
      launch.recipe, gpus, changed, launch.recipe, launch.recipe, asked, sets);
}

}  // namespace sim
