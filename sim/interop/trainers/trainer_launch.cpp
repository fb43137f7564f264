// Sources: huggingface/accelerate at 16cb6eb8, commands/launch.py (flags, and those of FSDP,
// DeepSpeed and parallelism_config); huggingface/trl at f2cd5771, cli.py and accelerate_configs/;
// axolotl-ai-cloud/axolotl at 067b021c, cli/; hiyouga/LLaMA-Factory at ff6d4d12, launcher.py.
#include "sim/interop/trainers/trainer_launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "sim/config/input_log.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

// TrainerWords is what a line starts, and where its parts begin.
struct TrainerWords {
  const LaunchedProgram* program = nullptr;
  std::optional<std::size_t> accelerate;  // behind "accelerate launch"
  std::size_t begin = 0;                  // behind the trainer's program
  bool trl = false;
  bool takes_file = false;  // the first word behind is a file of arguments (axolotl)
};

// Flags by which a Python program is one of transformers' trainers.
constexpr std::array<std::string_view, 5> trainer_flags{
    "model_name_or_path", "per_device_train_batch_size", "gradient_accumulation_steps",
    "gradient_checkpointing", "output_dir"};

bool has_trainer_flags(const LaunchLine& line) {
  const auto known = [](const LineFlag& flag) {
    return std::ranges::find(trainer_flags, underscored(flag.name)) != trainer_flags.end();
  };
  return std::ranges::count_if(line.flags, known) >= 2;
}

void refuse_other_loss(const LaunchedProgram& program, std::size_t at) {
  if (at >= program.words.size()) return;
  const LaunchWord& word = program.words[at];
  constexpr std::array<std::string_view, 7> others{"dpo",  "grpo", "kto", "reward",
                                                   "rloo", "gkd",  "orpo"};
  if (std::ranges::find(others, word.text) != others.end())
    throw InputError{word.where,
                     fmt::format("trl {} trains with a loss over other models or samples, which is "
                                 "not modelled; modelled: trl sft",
                                 word.text)};
}

std::optional<TrainerWords> trainer_of(const LaunchedProgram& program) {
  TrainerWords found{&program, {}, 0, false, false};
  const std::vector<LaunchWord>& words = program.words;
  const auto accelerate = word_at(program, {"accelerate"});
  if (accelerate && *accelerate + 1 < words.size() && words[*accelerate + 1].text == "launch")
    found.accelerate = *accelerate + 2;
  const auto tool = word_at(program, {"trl", "axolotl", "llamafactory-cli", "axolotl.cli.train"});
  if (tool && *tool + 1 < words.size()) {
    const std::string& name = words[*tool].text;
    found.trl = name.ends_with("trl");
    if (found.trl) refuse_other_loss(program, *tool + 1);
    const bool module = name.ends_with("axolotl.cli.train");
    if (!module && words[*tool + 1].text != (found.trl ? "sft" : "train")) return std::nullopt;
    found.takes_file = !found.trl;
    found.begin = *tool + (module ? 1 : 2);
    return found;
  }
  for (std::size_t i = found.accelerate.value_or(0); i < words.size(); ++i) {
    if (!words[i].text.ends_with(".py")) continue;
    found.begin = i + 1;
    const LaunchLine line = read_line(program, i + 1);
    const bool named = line.find({"config"}) != nullptr && found.accelerate;
    if (has_trainer_flags(line) || named) return found;
  }
  return std::nullopt;
}

// ---- Accelerate's configuration.

// Files that TRL brings along (trl/accelerate_configs).
std::string shipped_by_trl(const std::string& name) {
  const bool deepspeed = name == "zero1" || name == "zero2" || name == "zero3";
  if (deepspeed)
    return fmt::format(
        "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 8\n"
        "deepspeed_config: {{zero_stage: {}}}\n",
        name.back());
  if (name == "fsdp1" || name == "fsdp2")
    return fmt::format(
        "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config: "
        "{{fsdp_version: {}, fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP}}\n",
        name.back());
  if (name == "multi_gpu" || name == "single_gpu")
    return fmt::format("distributed_type: {}\nmixed_precision: bf16\nnum_processes: {}\n",
                       name == "multi_gpu" ? "MULTI_GPU" : "\"NO\"", name == "multi_gpu" ? 8 : 1);
  return {};
}

// place_of() is where a flag of accelerate launch stands in its file; empty: it says nothing of a
// step.
std::string place_of(const std::string& name) {
  constexpr std::array<std::string_view, 9> top{
      "num_processes", "num_machines", "mixed_precision", "dynamo_backend", "distributed_type",
      "machine_rank",  "debug",        "use_cpu",         "downcast_bf16"};
  constexpr std::array<std::string_view, 8> of_deepspeed{
      "zero_stage",           "deepspeed_config_file",  "offload_optimizer_device",
      "offload_param_device", "gradient_clipping",      "offload_optimizer_nvme_path",
      "zero3_init_flag",      "offload_param_nvme_path"};
  if (std::ranges::find(top, name) != top.end()) return name;
  if (name.starts_with("fsdp_")) return "fsdp_config." + name;
  if (name.starts_with("parallelism_config_")) return "parallelism_config." + name;
  if (std::ranges::find(of_deepspeed, name) != of_deepspeed.end())
    return "deepspeed_config." + name;
  return {};
}

// accelerate_changes() are the flags as changes of the file.
std::vector<Change> accelerate_changes(const LaunchLine& line) {
  std::vector<Change> changes;
  for (const LineFlag& flag : line.flags) {
    const std::string name = underscored(flag.name);
    if (name == "use_fsdp") changes.push_back({"distributed_type", "FSDP"});
    if (name == "use_deepspeed") changes.push_back({"distributed_type", "DEEPSPEED"});
    if (name == "multi_gpu") changes.push_back({"distributed_type", "MULTI_GPU"});
    const std::string place = place_of(name);
    if (!place.empty()) changes.push_back({place, flag.text()});
  }
  return changes;
}

std::string found_file(const std::string& path, const LaunchWord& word) {
  const std::string file = word.known ? file_of_launch(path, word.text) : "";
  if (file.empty())
    throw InputError{word.where,
                     fmt::format("{}: this file is neither beside {} nor in a folder above it",
                                 word.text, fs::path{path}.filename().string())};
  return file;
}

// The file with an empty section for each that a change needs and that it has not.
Document with_changes(std::string text, const std::string& name,
                      const std::vector<Change>& changes) {
  const Document plain = Document::parse(text, name, Syntax::yaml);
  if (!text.empty() && text.back() != '\n') text += '\n';
  for (const char* section : {"fsdp_config", "parallelism_config", "deepspeed_config"}) {
    const std::string prefix = std::string{section} + ".";
    const bool needs = std::ranges::any_of(
        changes, [&](const Change& change) { return change.key.starts_with(prefix); });
    if (needs && !plain.root_has(section)) text += fmt::format("{}: {{}}\n", section);
  }
  Document made = Document::parse(text, name, Syntax::yaml);
  made.change(changes);
  return made;
}

std::optional<Document> accelerate_of(const TrainerWords& words, const std::string& path,
                                      TrainerLaunch& made) {
  // trl hands accelerate's flags on.
  if (!words.accelerate && !words.trl) return std::nullopt;
  const LaunchLine line = words.accelerate
                              ? read_line(*words.program, *words.accelerate, words.begin - 1)
                              : read_line(*words.program, words.begin);
  const LineFlag* file = line.find({"config_file", "accelerate_config"});
  std::vector<Change> changes = accelerate_changes(line);
  if (file != nullptr && !file->values.empty()) {
    const LaunchWord& named = file->values.front();
    const std::string shipped = shipped_by_trl(named.text);
    if (!shipped.empty()) return with_changes(shipped, "trl's " + named.text, changes);
    const std::string found = found_file(path, named);
    return with_changes(read_input(found), found, changes);
  }
  const bool typed = std::ranges::any_of(
      changes, [](const Change& change) { return change.key == "distributed_type"; });
  if (!typed)
    made.notes.push_back({"accelerate launch",
                          "the line names no --config_file: DDP, as without Accelerate's own "
                          "default file"});
  return with_changes("distributed_type: MULTI_GPU\n", path, changes);
}

// ---- The trainer's arguments.

bool is_of_accelerate(const std::string& name) {
  return name == "config_file" || name == "accelerate_config" ||
         (!place_of(name).empty() && !name.starts_with("fsdp_"));
}

// A value as YAML has it: True is true.
std::string yaml_value(const LineFlag& flag) {
  const std::string text = flag.text();
  if (text == "True" || text == "False") return text == "True" ? "true" : "false";
  return text;
}

Document arguments_of(const TrainerWords& words, const std::string& path, TrainerLaunch& made) {
  const LaunchLine line = read_line(*words.program, words.begin);
  const LineFlag* config = line.find({"config"});
  std::string text = "{}", name = path;
  if (words.takes_file || (config != nullptr && !config->values.empty())) {
    if (words.takes_file && line.words.empty())
      throw InputError{words.program->words[words.begin - 1].where,
                       "the line names no file of arguments"};
    name = found_file(path, words.takes_file ? line.words.front() : config->values.front());
    text = read_input(name);
  }
  made.folder = fs::absolute(name).parent_path().string();
  Document arguments = Document::parse(text, name, Syntax::yaml);
  std::vector<Change> changes;
  for (const LineFlag& flag : line.flags) {
    const std::string key = underscored(flag.name);
    const bool other = key == "config" || (words.trl && is_of_accelerate(key));
    if (!other && key.find('.') == std::string::npos) changes.push_back({key, yaml_value(flag)});
  }
  for (const LineFlag& value : line.overrides)
    if (value.name.find('.') == std::string::npos)
      changes.push_back({value.name, yaml_value(value)});
  arguments.change(changes);
  return arguments;
}

}  // namespace

std::optional<TrainerLaunch> trainer_launch(const Launch& launch, const std::string& path) {
  std::vector<TrainerWords> found;
  for (const LaunchedProgram& program : launch.programs)
    if (const std::optional<TrainerWords> words = trainer_of(program)) found.push_back(*words);
  if (found.empty()) return std::nullopt;
  const TrainerWords& words = found.front();
  if (found.size() > 1)
    throw InputError{found[1].program->words.front().where,
                     fmt::format("this command trains, and so does that on line {}: leave one of "
                                 "them in the file",
                                 words.program->words.front().where.line)};
  TrainerLaunch made{Document::parse("{}", path, Syntax::yaml), {}, {}, 0, {}};
  made.accelerate = accelerate_of(words, path, made);
  made.arguments = arguments_of(words, path, made);
  if (words.trl && !made.arguments.root_has("loss_type"))
    made.notes.push_back({"loss_type",
                          "the line does not say: nll; later releases of TRL take chunked_nll "
                          "(--set framework.loss=chunked)"});
  if (!words.accelerate)
    made.gpus = static_cast<int>(
        std::min<std::int64_t>(sizes_of(launch, *words.program, words.begin).all(), 1 << 20));
  return made;
}

}  // namespace sim
