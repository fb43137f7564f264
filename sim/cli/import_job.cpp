// stepcast import megatron|torchtitan|deepspeed|accelerate|nemo: the file of a training job as a
// scenario.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
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

constexpr CountFrom any_count{1, std::int64_t{1} << 32};

// What DeepSpeed's JSON and the files of Hugging Face leave to the program.
Options trainer_options(ImportRequest& known) {
  return {{.name = "--micro-batch-size",
           .into = &known.micro_batch,
           .form = "N",
           .help = "sequences per GPU (per_device_train_batch_size), where the file says auto or "
                   "nothing",
           .check = any_count},
          {.name = "--gradient-accumulation-steps",
           .into = &known.accumulation_steps,
           .form = "N",
           .help = "micro-batches per step, where the file says auto or nothing",
           .check = any_count},
          {.name = "--global-batch-size",
           .into = &known.global_batch,
           .form = "N",
           .help = "sequences per step, in place of one of the two",
           .check = any_count},
          {.name = "--precision",
           .into = word_value<DType>(known.precision, {"bf16", "fp16", "fp32"}),
           .form = "NAME",
           .help = "bf16, fp16 or fp32, where the file says auto or nothing"},
          {.name = "--recompute",
           .into = word_value<Recompute>(known.recompute, {"full", "none"}),
           .form = "NAME",
           .help = "full (gradient_checkpointing) or none, where the file does not say"}};
}

// What any job may leave open.
Options job_options(JobRequest& request) {
  return {{.name = "FILE", .into = &request.file, .help = "the file", .required = true},
          {.name = "--cluster",
           .into = &request.cluster,
           .form = "NAME",
           .help = "cluster file, or name as 'topo list' has it"},
          {.name = "--gpus",
           .into = &request.known.gpus,
           .form = "N",
           .help = "of the job, where the file does not say",
           .check = CountFrom{1, 1 << 20}},
          {.name = "--model",
           .into = &request.model,
           .form = "NAME",
           .help = "model file, or name as 'models list' has it, where the file has none"},
          {.name = "--seq-length",
           .into = &request.known.sequence_length,
           .form = "N",
           .help = "tokens, where the file does not say",
           .check = any_count}};
}

// What only some kinds of files need.
Options options_of(Importer importer, JobRequest& request) {
  Options options;
  if (importer == from_deepspeed || importer == from_accelerate)
    options = trainer_options(request.known);
  if (importer == from_deepspeed)
    options.push_back({.name = "--flags",
                       .into = &request.flags,
                       .form = "FILE",
                       .help = "arguments of Megatron-DeepSpeed beside it"});
  if (importer == from_megatron || importer == from_deepspeed)
    options.push_back({.name = "--define",
                       .into = &request.definitions,
                       .form = "NAME=VALUE",
                       .help = "a variable of the script that the file does not set; 1=VALUE: its "
                               "first argument",
                       .repeated = true});
  if (importer == from_megatron || importer == from_nemo)
    options.push_back({.name = "--set",
                       .into = &request.changes,
                       .form = "KEY=VALUE",
                       .help = "another value than the file's, as optimizer=adam or "
                               "model.mtp_num_layers=null",
                       .repeated = true});
  return options;
}

Command job_command(const char* name, const char* help, Importer importer) {
  const auto request = std::make_shared<JobRequest>();
  return {
      .name = name,
      .help = help,
      .options = joined({job_options(*request),
                         options_of(importer, *request),
                         {{.name = "-o,--output",
                           .into = &request->output,
                           .form = "FILE",
                           .help = "where to; default: the standard output"}}}),
      .footer = fmt::format("Example: stepcast import {} FILE --cluster dgx-h100 --gpus 64", name),
      .run = [request, importer, name] { return import_job(*request, importer, name); }};
}

}  // namespace

std::vector<Command> job_imports() {
  return {
      job_command("megatron",
                  "a scenario from Megatron-LM's arguments, as a file or a pasted bash array",
                  from_megatron),
      job_command("torchtitan", "a scenario from torchtitan's TOML", from_torchtitan),
      job_command("deepspeed", "a scenario from DeepSpeed's JSON; the model comes with --model",
                  from_deepspeed),
      job_command("accelerate",
                  "a scenario from the YAML of Hugging Face Accelerate, TRL or axolotl",
                  from_accelerate),
      job_command("nemo", "a scenario from the YAML of Megatron-Bridge or NeMo 1.x", from_nemo)};
}

}  // namespace sim
