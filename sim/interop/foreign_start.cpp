#include "sim/interop/foreign_start.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/interop/bridge/bridge_launch.hpp"
#include "sim/interop/hub_models.hpp"

namespace sim {
namespace {

// Flags that a job of Megatron-LM does not go without, with '_' for '-'.
constexpr std::array<std::string_view, 7> megatron_flags{
    "hidden_size", "num_attention_heads",        "micro_batch_size", "global_batch_size",
    "seq_length",  "tensor_model_parallel_size", "train_iters"};
// Flags by which scripts of one's own speak of PyTorch's FSDP.
constexpr std::array<std::string_view, 7> fsdp_flags{
    "sharding_strategy",   "fsdp",        "use_fsdp",         "activation_checkpointing",
    "offload_activations", "cpu_offload", "limit_all_gathers"};

template <std::size_t N>
bool has_any(const LaunchLine& line, const std::array<std::string_view, N>& names) {
  return std::ranges::any_of(names,
                             [&](std::string_view name) { return line.find({name}) != nullptr; });
}

std::string sizes_text(const LaunchSizes& sizes) {
  if (sizes.all() == 0) return "the number of GPUs is not in it";
  if (sizes.gpus > 0 || sizes.nodes < 1) return fmt::format("{} GPUs", sizes.all());
  return fmt::format("{} GPUs ({} x {})", sizes.all(), sizes.nodes, sizes.gpus_per_node);
}

std::size_t python_program(const LaunchedProgram& program) {
  for (std::size_t i = 0; i < program.words.size(); ++i)
    if (program.words[i].text.ends_with(".py")) return i + 1;
  return 0;
}

// stated_text() lists what a custom script says of its sizes.
std::string stated_text(const LaunchLine& line) {
  std::string text;
  for (const LineFlag& flag : line.flags) {
    constexpr std::array<std::string_view, 12> about{
        "layer", "hidden", "width", "head",          "vocab",   "batch",
        "seq",   "length", "shard", "checkpointing", "offload", "intermediate"};
    const bool says = std::ranges::any_of(
        about, [&](std::string_view part) { return flag.name.find(part) != std::string::npos; });
    if (says) text += fmt::format(", {} {}", flag.name, flag.text().substr(0, 40));
  }
  return text;
}

std::optional<Problem> own_script(const Launch& launch, const LaunchedProgram& program) {
  const std::size_t begin = python_program(program);
  if (begin == 0) return std::nullopt;
  const LaunchLine line = read_line(program, begin);
  if (has_any(line, megatron_flags) || !has_any(line, fsdp_flags)) return std::nullopt;
  const LaunchWord& script = program.words[begin - 1];
  return Problem{
      script.where,
      fmt::format("{} is a script of its own, PyTorch FSDP, whose flags no reader knows: write a "
                  "scenario (framework: {{name: fsdp2}}, layout: {{zero_stage: 3, ...}}; 'stepcast "
                  "keys' lists the keys). It says: {}{}",
                  script.text, sizes_text(sizes_of(launch, program, begin)), stated_text(line)),
      ""};
}

std::string value_of(const LaunchLine& line, std::initializer_list<std::string_view> endings) {
  for (const LineFlag& one : line.overrides)
    for (const std::string_view ending : endings)
      if (one.name.ends_with(ending)) return one.text();
  return {};
}

// Sources: volcengine/verl, trainer/config/ppo_trainer.yaml and ppo_megatron_trainer.yaml;
// NVIDIA-NeMo/RL, examples/configs/grpo_math_1B.yaml.
std::optional<Problem> reinforcement(const LaunchedProgram& program) {
  const auto verl =
      word_at(program, {"verl.trainer.main_ppo", "main_ppo.py", "verl.trainer.fsdp_sft_trainer"});
  const auto nemo =
      word_at(program, {"run_grpo.py", "run_grpo_math.py", "run_sft.py", "run_dpo.py"});
  if (!verl && !nemo) return std::nullopt;
  const std::size_t at = verl ? *verl : *nemo;
  const LaunchLine line = read_line(program, at + 1);
  std::string says;
  const auto add = [&](const char* what, std::initializer_list<std::string_view> endings) {
    const std::string value = value_of(line, endings);
    if (!value.empty()) says += fmt::format("{}{} {}", says.empty() ? "" : ", ", what, value);
  };
  const std::string model = value_of(line, {"model.path", "policy.model_name"});
  if (const std::string shipped = model_of_hub(model); !shipped.empty())
    says = "model: " + shipped;
  else
    add("model", {"model.path", "policy.model_name"});
  add("nodes", {"trainer.nnodes", "cluster.num_nodes"});
  add("GPUs per node", {"n_gpus_per_node", "cluster.gpus_per_node"});
  add("layout.tensor_parallel",
      {"actor.megatron.tensor_model_parallel_size", "megatron_cfg.tensor_model_parallel_size"});
  add("layout.pipeline_parallel",
      {"actor.megatron.pipeline_model_parallel_size", "megatron_cfg.pipeline_model_parallel_size"});
  add("layout.expert_parallel",
      {"actor.megatron.expert_model_parallel_size", "megatron_cfg.expert_model_parallel_size"});
  add("layout.context_parallel",
      {"actor.megatron.context_parallel_size", "actor.ulysses_sequence_parallel_size",
       "megatron_cfg.context_parallel_size"});
  add("sequences of an update (layout.global_batch)",
      {"ppo_mini_batch_size", "train_global_batch_size"});
  add("tokens of a micro-batch", {"ppo_max_token_len_per_gpu"});
  add("layout.micro_batch", {"ppo_micro_batch_size_per_gpu", "train_micro_batch_size"});
  add("prompt", {"max_prompt_length"});
  add("response", {"max_response_length", "max_total_sequence_length"});
  return Problem{
      program.words[at].where,
      fmt::format("this starts {}: generation, rewards and the passes of a reference are no "
                  "training step, and are not modelled. Forecast the update of the actor alone: "
                  "write a scenario with its model and layout{}{}",
                  verl ? "verl" : "NeMo-RL", says.empty() ? "" : "; the line says: ", says),
      ""};
}

Problem elsewhere(const SourcePosition& where, const std::string& what, std::string_view kind,
                  const std::string& file) {
  return {where,
          fmt::format("this starts {}: give it to stepcast import {} {} --cluster dgx-h100", what,
                      kind, file),
          ""};
}

}  // namespace

std::optional<Problem> foreign_start(JobKind asked, const Launch& launch, const std::string& file) {
  const std::vector<BridgeLaunch> bridge = bridge_launches(launch);
  if (asked != JobKind::nemo && !bridge.empty())
    return elsewhere(bridge.front().where,
                     fmt::format("Megatron-Bridge's recipe {}", bridge.front().recipe), "bridge",
                     file);
  for (const LaunchedProgram& program : launch.programs) {
    if (const std::optional<Problem> problem = reinforcement(program)) return problem;
    if (const std::optional<Problem> problem = own_script(launch, program)) return problem;
    const bool accelerate =
        word_at(program, {"accelerate", "trl", "axolotl", "llamafactory-cli"}) &&
        program.words.size() > 1;
    if (asked == JobKind::megatron && accelerate && python_program(program) == 0)
      return elsewhere(program.words.front().where, "a trainer of Hugging Face's world",
                       "accelerate", file);
  }
  return std::nullopt;
}

std::optional<JobKind> kind_of_launch(std::string_view text) {
  const auto has = [&](std::string_view words) {
    return text.find(words) != std::string_view::npos;
  };
  const bool starts_recipe = has("train.sh") || has("run_recipe.py") || has("setup_experiment.py");
  if (has("--model_recipe_name") || (starts_recipe && has("--recipe "))) return JobKind::nemo;
  const bool trainer = has("accelerate launch") &&
                       (has("--model_name_or_path") || has("--per_device_train_batch_size"));
  if (trainer || has("trl sft") || has("llamafactory-cli train") || has("axolotl train") ||
      has("axolotl.cli.train"))
    return JobKind::accelerate;
  return std::nullopt;
}

bool is_own_fsdp_script(std::string_view text) {
  std::string plain{text};
  std::ranges::replace(plain, '-', '_');
  const auto has = [&](std::string_view name) {
    return plain.find("__" + std::string{name}) != std::string::npos;
  };
  return plain.find(".py") != std::string::npos && std::ranges::any_of(fsdp_flags, has) &&
         std::ranges::none_of(megatron_flags, has);
}

}  // namespace sim
