#include "sim/interop/job_importers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/config/input_log.hpp"
#include "sim/config/reader.hpp"
#include "sim/interop/bridge/bridge_launch.hpp"
#include "sim/interop/bridge/bridge_recipe.hpp"
#include "sim/interop/foreign_start.hpp"
#include "sim/interop/megatron/mlperf.hpp"
#include "sim/interop/torchtitan/torchtitan_launch.hpp"
#include "sim/interop/torchtitan/torchtitan_registry.hpp"
#include "sim/interop/trainers/trainer_job.hpp"
#include "sim/interop/trainers/trainer_launch.hpp"
#include "sim/scripts/flags/primus_yaml.hpp"
#include "sim/scripts/scripts.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

std::pair<std::string, std::string> split_pair(const std::string& text, const char* option,
                                               const char* example) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw InputError{{option, 0, 0},
                     fmt::format("is '{}'; expected NAME=VALUE, as {}", text, example)};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::vector<Definition> definitions_of(const JobFile& job) {
  std::vector<Definition> all;
  for (const std::string& text : job.definitions) {
    auto [name, value] = split_pair(text, "--define", "--define TP=4");
    all.push_back({std::move(name), std::move(value)});
  }
  return all;
}

// The values that were set on top of the file's, told in notes.
struct SetValues {
  std::vector<Change> changes;
  std::vector<Note> notes;
};
// `of_flags`: "tensor_model_parallel_size" is "--tensor-model-parallel-size".
SetValues set_values(const JobFile& job, bool of_flags) {
  SetValues set;
  for (const std::string& text : job.changes) {
    auto [key, value] = split_pair(text, "--set", "--set optimizer=adam");
    if (of_flags) {
      if (!key.starts_with("--")) key.insert(0, "--");
      std::replace(key.begin(), key.end(), '_', '-');
    }
    set.notes.push_back({key, fmt::format("'{}', as --set says, whatever the file does", value)});
    set.changes.push_back({std::move(key), std::move(value)});
  }
  return set;
}
Imported with_notes(Imported imported, const SetValues& set) {
  imported.notes.insert(imported.notes.end(), set.notes.begin(), set.notes.end());
  return imported;
}

void add_notes(const std::vector<Remark>& remarks, Imported& imported) {
  for (const Remark& remark : remarks)
    imported.notes.push_back({remark.about, remark.what});
}

// with_gpus() sets as many GPUs as the launch line says, where no option does.
ImportRequest with_gpus(const ImportRequest& known, std::int64_t gpus) {
  ImportRequest made = known;
  if (made.gpus == 0) made.gpus = static_cast<int>(std::clamp<std::int64_t>(gpus, 0, 1 << 20));
  return made;
}

// The file of an experiment of Primus, for the back end that was asked for.
Document load_primus(const JobFile& job, std::string_view framework, std::string_view asked) {
  if (!asked.empty() && framework != asked)
    throw InputError{{job.file, 0, 0},
                     fmt::format("this experiment of Primus trains with {}: give it to stepcast "
                                 "import primus",
                                 framework)};
  return load_flags(job.file, definitions_of(job));
}

Imported from_primus(const JobFile& job, const ImportRequest& known, std::string_view framework,
                     std::string_view asked) {
  Document tree = load_primus(job, framework, asked);
  const bool flags = framework == "megatron";
  const SetValues set = set_values(job, flags);
  tree.change(set.changes);
  if (flags) return with_notes(import_megatron(tree, known), set);
  Imported imported = import_torchtitan(tree, known);
  add_notes(tree.remarks(), imported);
  return with_notes(std::move(imported), set);
}

// started_elsewhere() says nothing of a file that is no script to the shell (a list of flags).
std::optional<Problem> started_elsewhere(const JobFile& job, const std::string& text) {
  if (!is_launch_file(job.file, text)) return std::nullopt;
  try {
    return foreign_start(JobKind::megatron, load_launch(job.file, definitions_of(job)), job.file);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

Imported from_flags(Document flags, const JobFile& job, const ImportRequest& known) {
  const SetValues set = set_values(job, true);
  flags.change(set.changes);
  return with_notes(import_megatron(flags, known), set);
}

Imported from_megatron(const JobFile& job, const ImportRequest& known) {
  if (!job.text.empty()) return from_flags(parse_flags(job.text, job.file), job, known);
  const std::string text = read_input(job.file);
  if (const std::string framework = primus_framework(text); !framework.empty())
    return from_primus(job, known, framework, "megatron");
  if (const auto problem = started_elsewhere(job, text)) throw InputError{{*problem}};
  return from_flags(load_flags(job.file, definitions_of(job)), job, known);
}

Imported from_toml(const JobFile& job, const std::string& file, const ImportRequest& known,
                   const std::vector<Change>& of_line) {
  Document toml = Document::load(file, Syntax::toml);
  const SetValues set = set_values(job, false);
  toml.change(of_line);
  toml.change(set.changes);
  return with_notes(import_torchtitan(toml, known), set);
}

Imported from_torchtitan(const JobFile& job, const ImportRequest& known) {
  if (!job.file.ends_with(".py")) {
    const std::string text = read_input(job.file);
    if (const std::string framework = primus_framework(text); !framework.empty())
      return from_primus(job, known, framework, "torchtitan");
    if (!job.recipe.empty())
      throw InputError{{"--recipe", 0, 0}, "is for configurations in Python (FILE.py)"};
    if (!is_launch_file(job.file, text)) return from_toml(job, job.file, known, {});
    const TitanLaunch launch =
        torchtitan_launch(load_launch(job.file, definitions_of(job)), job.file);
    return from_toml(job, launch.file, with_gpus(known, launch.gpus), launch.changes);
  }
  Document python = load_python(job.file);
  const std::string name = registry_function(python, job.recipe);
  SetValues set = set_values(job, false);
  for (Change& change : set.changes)
    change.key = name + "." + change.key;
  python.change(set.changes);
  return with_notes(import_torchtitan_registry(python, name, known), set);
}

Imported from_recipe(const JobFile& job, const ImportRequest& known) {
  const std::string text = read_input(job.file);
  const std::string name = recipe_name(text, job.file, job.recipe);
  EvaluatedPython python = evaluate_recipe(text, job.file, name, true);
  const SetValues set = set_values(job, false);
  if (!set.changes.empty()) python.add_sections(config_container_sections());
  python.change(set.changes);
  return with_notes(import_bridge_recipe(python, name, known), set);
}

// The recipe that a launch line names, with what the line changes of it.
Imported from_bridge_launch(const JobFile& job, const ImportRequest& known) {
  const Launch launch = load_launch(job.file, definitions_of(job));
  if (const auto problem = foreign_start(JobKind::nemo, launch, job.file))
    throw InputError{{*problem}};
  const std::vector<BridgeLaunch> launches = bridge_launches(launch);
  if (launches.empty())
    throw InputError{{job.file, 0, 0},
                     "no line of this script starts a recipe of Megatron-Bridge (train.sh, "
                     "run_recipe.py or run_script.py with --recipe or --model_recipe_name)"};
  BridgeLaunch line = chosen_launch(launches, job.file, job.recipe);
  const std::string source = source_of_recipe(job.file, line.recipe);
  if (source.empty()) throw InputError{line.where, missing_source_text(line)};
  JobFile recipe = job;
  recipe.file = source;
  recipe.recipe = line.recipe;
  std::vector<std::string> on_top;
  for (const Change& change : line.changes)
    on_top.push_back(fmt::format("{}={}", change.key, change.value));
  recipe.changes.insert(recipe.changes.begin(), on_top.begin(), on_top.end());
  Imported imported = from_recipe(recipe, with_gpus(known, line.gpus));
  for (Note& note : imported.notes)
    if (std::ranges::any_of(line.changes,
                            [&](const Change& change) { return change.key == note.key; }))
      note.what = fmt::format("{}", note.what.substr(0, note.what.find(", as --set"))) +
                  ", as the launch line says";
  imported.notes.insert(imported.notes.end(), line.notes.begin(), line.notes.end());
  return imported;
}

Imported from_nemo(const JobFile& job, const ImportRequest& known) {
  if (job.file.ends_with(".py")) return from_recipe(job, known);
  if (is_launch_file(job.file, read_input(job.file))) return from_bridge_launch(job, known);
  if (!job.recipe.empty())
    throw InputError{{"--recipe", 0, 0}, "is for recipes in Python (FILE.py)"};
  Document yaml = Document::load(job.file, Syntax::yaml);
  const SetValues set = set_values(job, false);
  yaml.change(set.changes);
  return with_notes(import_nemo(yaml, known), set);
}

Imported from_deepspeed(const JobFile& job, const ImportRequest& known) {
  Document json = Document::load(job.file, Syntax::json);
  const SetValues set = set_values(job, false);
  json.change(set.changes);
  if (job.flags.empty()) return with_notes(import_deepspeed(json, nullptr, known), set);
  const Document flags = load_flags(job.flags, definitions_of(job));
  Imported imported = import_deepspeed(json, &flags, known);
  add_notes(flags.remarks(), imported);
  return with_notes(std::move(imported), set);
}

Imported from_trainer_launch(const JobFile& job, const ImportRequest& known) {
  const Launch launch = load_launch(job.file, definitions_of(job));
  std::optional<TrainerLaunch> trainer = trainer_launch(launch, job.file);
  if (!trainer) {
    if (const auto problem = foreign_start(JobKind::accelerate, launch, job.file))
      throw InputError{{*problem}};
    throw InputError{{job.file, 0, 0},
                     "no line of this script starts a trainer that is known (accelerate launch, "
                     "trl sft, axolotl train, llamafactory-cli train, torchrun with "
                     "--model_name_or_path)"};
  }
  const SetValues set = set_values(job, false);
  trainer->arguments.change(set.changes);
  Imported imported =
      import_trainer(trainer->arguments, trainer->accelerate ? &*trainer->accelerate : nullptr,
                     trainer->folder, with_gpus(known, trainer->gpus));
  imported.notes.insert(imported.notes.end(), trainer->notes.begin(), trainer->notes.end());
  return with_notes(std::move(imported), set);
}

Imported from_accelerate(const JobFile& job, const ImportRequest& known) {
  if (is_launch_file(job.file, read_input(job.file))) return from_trainer_launch(job, known);
  const std::string folder = fs::absolute(job.file).parent_path().string();
  Document yaml = Document::load(job.file, Syntax::yaml);
  const SetValues set = set_values(job, false);
  yaml.change(set.changes);
  return with_notes(import_accelerate(yaml, folder, known), set);
}

Imported from_automodel(const JobFile& job, const ImportRequest& known) {
  Document yaml = Document::load(job.file, Syntax::yaml);
  const SetValues set = set_values(job, false);
  yaml.change(set.changes);
  return with_notes(import_automodel(yaml, known), set);
}

Imported from_mlperf(const JobFile& job, const ImportRequest& known) {
  Document variables = load_variables(job.file, definitions_of(job));
  const SetValues set = set_values(job, false);
  variables.change(set.changes);
  return with_notes(import_mlperf(variables, known), set);
}

Imported from_experiment(const JobFile& job, const ImportRequest& known) {
  const std::string framework = primus_framework(read_input(job.file));
  if (framework.empty())
    throw InputError{{job.file, 0, 0},
                     "is no experiment of Primus: expected modules: {pre_trainer: {framework: "
                     "megatron, model: ..., overrides: ...}}"};
  return from_primus(job, known, framework, "");
}

}  // namespace

Imported import_file(JobKind kind, const JobFile& job, const ImportRequest& known) {
  switch (kind) {
    case JobKind::megatron:
      return from_megatron(job, known);
    case JobKind::torchtitan:
      return from_torchtitan(job, known);
    case JobKind::deepspeed:
      return from_deepspeed(job, known);
    case JobKind::accelerate:
      return from_accelerate(job, known);
    case JobKind::automodel:
      return from_automodel(job, known);
    case JobKind::mlperf:
      return from_mlperf(job, known);
    case JobKind::primus:
      return from_experiment(job, known);
    case JobKind::nemo:
      break;
  }
  return from_nemo(job, known);
}

}  // namespace sim
