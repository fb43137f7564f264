// stepcast import megatron|torchtitan|deepspeed|accelerate|nemo: the file of a training job as a
// scenario.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "sim/cli/command.hpp"
#include "sim/config/reader.hpp"
#include "sim/engine/device_spread.hpp"
#include "sim/interop/handover.hpp"
#include "sim/model/transformer.hpp"
#include "sim/scenario/node_use.hpp"
#include "sim/scenario/write_scenario.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

struct JobRequest {
  std::string file, flags, cluster, model, output;
  std::vector<std::string> definitions;  // NAME=VALUE
  std::vector<std::string> changes;      // KEY=VALUE
  ImportRequest known{};
};

using Importer = Imported (*)(const JobRequest& request, const ImportRequest& known);

std::pair<std::string, std::string> split_pair(const std::string& text, const char* option,
                                               const char* example) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw InputError{{option, 0, 0},
                     fmt::format("is '{}'; expected NAME=VALUE, as {}", text, example)};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::vector<Definition> definitions_of(const JobRequest& request) {
  std::vector<Definition> all;
  for (const std::string& text : request.definitions) {
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
SetValues set_values(const JobRequest& request, bool of_flags) {
  SetValues set;
  for (const std::string& text : request.changes) {
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

Imported from_megatron(const JobRequest& request, const ImportRequest& known) {
  Document flags = Document::load_flags(request.file, definitions_of(request));
  const SetValues set = set_values(request, true);
  flags.change(set.changes);
  return with_notes(import_megatron(flags, known), set);
}
Imported from_torchtitan(const JobRequest& request, const ImportRequest& known) {
  return import_torchtitan(Document::load(request.file, Syntax::toml), known);
}
Imported from_nemo(const JobRequest& request, const ImportRequest& known) {
  Document yaml = Document::load(request.file, Syntax::yaml);
  const SetValues set = set_values(request, false);
  yaml.change(set.changes);
  return with_notes(import_nemo(yaml, known), set);
}
Imported from_deepspeed(const JobRequest& request, const ImportRequest& known) {
  const Document json = Document::load(request.file, Syntax::json);
  if (request.flags.empty()) return import_deepspeed(json, nullptr, known);
  const Document flags = Document::load_flags(request.flags, definitions_of(request));
  Imported imported = import_deepspeed(json, &flags, known);
  for (const Remark& remark : flags.remarks())
    imported.notes.push_back({remark.about, remark.what});
  return imported;
}

Imported from_accelerate(const JobRequest& request, const ImportRequest& known) {
  const std::string folder = fs::absolute(request.file).parent_path().string();
  return import_accelerate(Document::load(request.file, Syntax::yaml), folder, known);
}

// The shipped model of that shape: its file, or "".
std::string shipped_model(const TransformerShape& shape) {
  for (const std::string& name : data_files("models")) {
    std::string path = find_data_file("models", name);
    const Model model = load_model(path);
    if (model.shape && same_shape(*model.shape, shape)) return path;
  }
  return {};
}

// As many nodes as the job takes, with whole groups; a cluster of a fixed size stays as it is.
Cluster cluster_for(const std::string& path, const Layout& layout) {
  Cluster whole = Cluster::load(path);
  const int gpus = layout.world_size();
  NodeRoom room = room_of(whole);
  room.nodes = most_nodes;
  const int used = whole_gpus_per_node(layout, room, gpus);
  const int nodes = (gpus + used - 1) / used;
  try {
    Cluster sized = nodes == whole.nodes() ? std::move(whole) : Cluster::load(path, nodes);
    sized.use_gpus_per_node(used);
    return sized;
  } catch (const InputError&) {
    if (gpus > whole.gpus()) throw;
    whole.use_gpus_per_node(whole_gpus_per_node(layout, room_of(whole), gpus));
    return whole;
  }
}

Scenario scenario_of(const JobRequest& request, const Imported& imported,
                     const std::string& cluster_path) {
  std::string model_path = request.model.empty() ? shipped_model(imported.shape)
                                                 : find_data_file("models", request.model);
  Scenario scenario{.path = {},
                    .name = fs::path{request.file}.stem().string(),
                    .model = build_transformer(imported.shape),
                    .model_path = std::move(model_path),
                    .layout = imported.layout,
                    .cluster = cluster_for(cluster_path, imported.layout),
                    .cluster_path = cluster_path,
                    .changes = {},
                    .framework = imported.framework,
                    .options = {},
                    .faults = {},
                    .flops = {},
                    .training = {}};
  scenario.options.graphs = imported.graphs;
  scenario.options.device_spread = published_device_spread;
  return scenario;
}

void tell(const Imported& imported) {
  for (const Note& note : imported.notes)
    print_note(fmt::format("note: {}: {}", note.key, note.what));
  if (!imported.ignored.empty())
    print_note(fmt::format("without an effect on a step: {} keys: {}", imported.ignored.size(),
                           fmt::join(imported.ignored, ", ")));
}

// What is known beside the file; a cluster that is not named leaves its part open.
ImportRequest known_of(const JobRequest& request, const std::string& cluster_path) {
  ImportRequest known = request.known;
  if (!cluster_path.empty()) {
    const Cluster cluster = Cluster::load(cluster_path);
    known.has_flash_2 = cluster.device().flash_attention_2.has_value();
    known.gpus_per_node = cluster.gpus_per_node();
  }
  if (request.model.empty()) return known;
  const std::string path = find_data_file("models", request.model);
  known.model = load_model(path).shape;
  if (!known.model)
    throw InputError{SourcePosition{path, 0, 0}, "a list of layers is no transformer"};
  return known;
}

Problem no_cluster(const JobRequest& request, std::string_view name) {
  return {SourcePosition{request.file, 0, 0},
          fmt::format("the cluster is not in the file: give --cluster NAME, a cluster file or a "
                      "name of 'topo list', for example: stepcast import {} {} --cluster dgx-h100",
                      name, request.file),
          ""};
}

// With the mistakes of the file what is missing beside it.
Imported read_job(const JobRequest& request, const ImportRequest& known, Importer importer,
                  std::string_view name) {
  std::vector<Problem> problems;
  if (request.cluster.empty()) problems.push_back(no_cluster(request, name));
  try {
    Imported imported = importer(request, known);
    if (problems.empty()) return imported;
  } catch (const InputError& error) {
    problems.insert(problems.end(), error.problems().begin(), error.problems().end());
  }
  throw InputError{std::move(problems)};
}

ExitCode import_job(const JobRequest& request, Importer importer, std::string_view name) {
  const std::string cluster_path =
      request.cluster.empty() ? "" : find_data_file("topologies", request.cluster);
  const Imported imported = read_job(request, known_of(request, cluster_path), importer, name);
  std::string comment = "Imported from " + fs::path{request.file}.filename().string() + ".";
  for (const Note& note : imported.notes)
    comment += fmt::format("\n{}: {}", note.key, note.what);
  const std::string folder =
      request.output.empty() ? "" : fs::absolute(request.output).parent_path().string();
  const Scenario scenario = scenario_of(request, imported, cluster_path);
  const std::string text = scenario_yaml(scenario, folder, comment);
  tell(imported);
  if (scenario.cluster.gpus_per_node() < scenario.cluster.node_gpus())
    print_note(fmt::format("note: cluster.gpus_per_node: {} of {}, so that groups stay on one node",
                           scenario.cluster.gpus_per_node(), scenario.cluster.node_gpus()));
  if (request.output.empty())
    print_result(text);
  else
    write_text_file(request.output, text);
  return ExitCode::done;
}

// What DeepSpeed's JSON and the files of Hugging Face leave to the program.
void add_trainer_options(CLI::App& command, ImportRequest& known) {
  const auto size = [&](const char* name, std::int64_t& into, const char* what) {
    command.add_option(name, into, what)
        ->option_text("N")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 32));
  };
  size("--micro-batch-size", known.micro_batch,
       "sequences per GPU (per_device_train_batch_size), where the file says auto or nothing");
  size("--gradient-accumulation-steps", known.accumulation_steps,
       "micro-batches per step, where the file says auto or nothing");
  size("--global-batch-size", known.global_batch, "sequences per step, in place of one of the two");
  command
      .add_option("--precision", known.precision,
                  "bf16, fp16 or fp32, where the file says auto or nothing")
      ->transform(CLI::CheckedTransformer(std::map<std::string, DType>{
          {"bf16", DType::bf16}, {"fp16", DType::fp16}, {"fp32", DType::fp32}}))
      ->option_text("NAME");
  command
      .add_option("--recompute", known.recompute,
                  "full (gradient_checkpointing) or none, where the file does not say")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Recompute>{{"full", Recompute::full}, {"none", Recompute::none}}))
      ->option_text("NAME");
}

void add_job_import(CLI::App& import, ChosenCommand& action, const char* name, const char* what,
                    Importer importer) {
  const auto request = std::make_shared<JobRequest>();
  CLI::App* command = import.add_subcommand(name, what);
  command->add_option("FILE", request->file, "the file")->required();
  command->add_option("--cluster", request->cluster, "cluster file, or name as 'topo list' has it")
      ->option_text("NAME");
  command->add_option("--gpus", request->known.gpus, "of the job, where the file does not say")
      ->option_text("N")
      ->check(CLI::Range(1, 1 << 20));
  command
      ->add_option("--model", request->model,
                   "model file, or name as 'models list' has it, where the file has none")
      ->option_text("NAME");
  command
      ->add_option("--seq-length", request->known.sequence_length,
                   "tokens, where the file does not say")
      ->option_text("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 32));
  if (importer == from_deepspeed || importer == from_accelerate)
    add_trainer_options(*command, request->known);
  if (importer == from_deepspeed)
    command->add_option("--flags", request->flags, "arguments of Megatron-DeepSpeed beside it")
        ->option_text("FILE");
  if (importer == from_megatron || importer == from_deepspeed)
    command
        ->add_option("--define", request->definitions,
                     "a variable of the script that the file does not set; 1=VALUE: its first "
                     "argument")
        ->option_text("NAME=VALUE")
        ->allow_extra_args(false);
  if (importer == from_megatron || importer == from_nemo)
    command
        ->add_option(
            "--set", request->changes,
            "another value than the file's, as optimizer=adam or model.mtp_num_layers=null")
        ->option_text("KEY=VALUE")
        ->allow_extra_args(false);
  command->add_option("-o,--output", request->output, "where to; default: the standard output")
      ->option_text("FILE");
  command->footer(
      fmt::format("Example: stepcast import {} FILE --cluster dgx-h100 --gpus 64", name));
  command->callback([request, importer, name, &action] {
    action = [request, importer, name] { return import_job(*request, importer, name); };
  });
}

}  // namespace

void add_job_imports(CLI::App& import, ChosenCommand& action) {
  add_job_import(import, action, "megatron",
                 "a scenario from Megatron-LM's arguments, as a file or a pasted bash array",
                 from_megatron);
  add_job_import(import, action, "torchtitan", "a scenario from torchtitan's TOML",
                 from_torchtitan);
  add_job_import(import, action, "deepspeed",
                 "a scenario from DeepSpeed's JSON; the model comes with --model", from_deepspeed);
  add_job_import(import, action, "accelerate",
                 "a scenario from the YAML of Hugging Face Accelerate, TRL or axolotl",
                 from_accelerate);
  add_job_import(import, action, "nemo", "a scenario from the YAML of Megatron-Bridge or NeMo 1.x",
                 from_nemo);
}

}  // namespace sim
