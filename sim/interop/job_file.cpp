#include "sim/interop/job_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/base/rounding.hpp"
#include "sim/config/data_files.hpp"
#include "sim/config/input_log.hpp"
#include "sim/config/reader.hpp"
#include "sim/engine/device_spread.hpp"
#include "sim/interop/bridge_recipe.hpp"
#include "sim/interop/mlperf.hpp"
#include "sim/interop/torchtitan_registry.hpp"
#include "sim/model/transformer.hpp"
#include "sim/scenario/machine_checks.hpp"
#include "sim/scenario/node_use.hpp"
#include "sim/scenario/write_scenario.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

using Importer = Imported (*)(const JobFile& job, const ImportRequest& known);

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

Imported from_megatron(const JobFile& job, const ImportRequest& known) {
  Document flags = Document::load_flags(job.file, definitions_of(job));
  const SetValues set = set_values(job, true);
  flags.change(set.changes);
  return with_notes(import_megatron(flags, known), set);
}
Imported from_torchtitan(const JobFile& job, const ImportRequest& known) {
  if (!job.file.ends_with(".py")) {
    if (!job.recipe.empty())
      throw InputError{{"--recipe", 0, 0}, "is for configurations in Python (FILE.py)"};
    Document toml = Document::load(job.file, Syntax::toml);
    const SetValues set = set_values(job, false);
    toml.change(set.changes);
    return with_notes(import_torchtitan(toml, known), set);
  }
  Document python = Document::load(job.file, Syntax::python);
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
  python.change(set.changes);
  return with_notes(import_bridge_recipe(python, name, known), set);
}
Imported from_nemo(const JobFile& job, const ImportRequest& known) {
  if (job.file.ends_with(".py")) return from_recipe(job, known);
  if (!job.recipe.empty())
    throw InputError{{"--recipe", 0, 0}, "is for recipes in Python (FILE.py)"};
  Document yaml = Document::load(job.file, Syntax::yaml);
  const SetValues set = set_values(job, false);
  yaml.change(set.changes);
  return with_notes(import_nemo(yaml, known), set);
}
Imported from_deepspeed(const JobFile& job, const ImportRequest& known) {
  const Document json = Document::load(job.file, Syntax::json);
  if (job.flags.empty()) return import_deepspeed(json, nullptr, known);
  const Document flags = Document::load_flags(job.flags, definitions_of(job));
  Imported imported = import_deepspeed(json, &flags, known);
  for (const Remark& remark : flags.remarks())
    imported.notes.push_back({remark.about, remark.what});
  return imported;
}

Imported from_accelerate(const JobFile& job, const ImportRequest& known) {
  const std::string folder = fs::absolute(job.file).parent_path().string();
  return import_accelerate(Document::load(job.file, Syntax::yaml), folder, known);
}

Imported from_automodel(const JobFile& job, const ImportRequest& known) {
  Document yaml = Document::load(job.file, Syntax::yaml);
  const SetValues set = set_values(job, false);
  yaml.change(set.changes);
  return with_notes(import_automodel(yaml, known), set);
}

Imported from_mlperf(const JobFile& job, const ImportRequest& known) {
  return import_mlperf(Document::load_variables(job.file, definitions_of(job)), known);
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

// The file of --model, where the job trains it as it is; else a shipped one, or "".
std::string model_path_of(const JobFile& job, const ImportRequest& known,
                          const TransformerShape& shape) {
  const bool as_it_is = known.model && same_shape(*known.model, shape);
  return as_it_is ? find_data_file("models", job.model) : shipped_model(shape);
}

// GPUs of a node that a job uses: whole groups, or whole segments of a rack, and racks filled
// alike, where a scheduler has no reason to leave the last one with a few trays.
int used_gpus_of(const NodeRoom& room, const Layout& layout, int segment) {
  const bool rack = room.trays > 1 && layout.world_size() > room.gpus;
  const int used = rack && segment > 0 && segment <= room.gpus
                       ? room.gpus / segment * segment
                       : whole_gpus_per_node(layout, room, layout.world_size());
  return even_gpus_per_node(layout, room, used);
}

// As many nodes as the job takes; a cluster of a fixed size stays as it is.
Cluster cluster_for(const std::string& path, const Layout& layout, int segment) {
  Cluster whole = Cluster::load(path);
  const int gpus = layout.world_size();
  NodeRoom room = room_of(whole);
  room.nodes = most_nodes;
  const int used = used_gpus_of(room, layout, segment);
  const int nodes = divide_up(gpus, used);
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

// Frozen 8-bit weights with one scale each lie in memory once where products read either order: on
// Blackwell (compute capability 10) since Transformer Engine 2.0 (common/transformer_engine.cpp,
// nvte_is_non_tn_fp8_gemm_supported).
void keep_one_order(Layout& layout, EightBit software, const Device& device) {
  const bool one_scale = software == EightBit::transformer_engine ||
                         software == EightBit::transformer_engine_tensorwise;
  if (!layout.trains_adapters() || !layout.eight_bit_parameters || !one_scale) return;
  if (layout.compute_dtype != DType::fp8 || device.generation != Generation::blackwell) return;
  if (layout.frozen_orders == FrozenOrders::both) layout.frozen_orders = FrozenOrders::one;
}

Scenario scenario_of(const JobFile& job, const ImportRequest& known, const Imported& imported,
                     const std::string& cluster_path) {
  std::string model_path = model_path_of(job, known, imported.shape);
  Scenario scenario{.path = {},
                    .name = fs::path{job.file}.stem().string(),
                    .model = build_transformer(imported.shape),
                    .model_path = std::move(model_path),
                    .layout = imported.layout,
                    .cluster = cluster_for(cluster_path, imported.layout, imported.segment_gpus),
                    .cluster_path = cluster_path,
                    .changes = {},
                    .framework = imported.framework,
                    .options = {},
                    .faults = {},
                    .flops = {},
                    .training = {}};
  keep_one_order(scenario.layout, imported.framework.execution.eight_bit,
                 scenario.cluster.device());
  scenario.options.graphs = imported.graphs;
  scenario.options.graph_scope = imported.graph_scope;
  scenario.options.device_spread = published_device_spread;
  return scenario;
}

// Told here, refused where the scenario is read: recipes are tried on other machines, too.
void note_mxfp8(const Scenario& scenario, std::vector<Note>& notes) {
  const Device& device = scenario.cluster.device();
  if (!formats_without_mxfp8(scenario.layout, scenario.framework.execution, device).empty())
    notes.push_back(
        {"framework.fp8", fmt::format("MXFP8 needs Blackwell or CDNA 4, and the {} is of {}: a "
                                      "forecast refuses it",
                                      device.name, word(device.generation))});
}

// Compute capabilities 9 and 10; of GeForce cards the device file's own attention is
// FlashAttention-2.
bool takes_cudnn_attention(const Device& device) {
  return device.generation == Generation::hopper || device.generation == Generation::blackwell;
}

// What is known beside the file; a cluster that is not named leaves its part open.
ImportRequest known_of(const JobFile& job, const std::string& cluster_path) {
  ImportRequest known = job.known;
  if (!cluster_path.empty()) {
    const Cluster cluster = Cluster::load(cluster_path);
    const Device& device = cluster.device();
    known.has_flash_2 = device.flash_attention_2.has_value();
    known.prefers_cudnn = takes_cudnn_attention(device);
    known.gpus_per_node = cluster.gpus_per_node();
  }
  if (job.model.empty()) return known;
  const std::string path = find_data_file("models", job.model);
  known.model = load_model(path).shape;
  if (!known.model)
    throw InputError{SourcePosition{path, 0, 0}, "a list of layers is no transformer"};
  return known;
}

Problem no_cluster(const JobFile& job, std::string_view name) {
  return {SourcePosition{job.file, 0, 0},
          fmt::format("the cluster is not in the file: give --cluster NAME, a cluster file or a "
                      "name of 'topo list', for example: stepcast import {} {} --cluster dgx-h100",
                      name, job.file),
          ""};
}

// With the mistakes of the file what is missing beside it.
Imported read_job(const JobFile& job, const ImportRequest& known, Importer importer,
                  std::string_view name) {
  std::vector<Problem> problems;
  if (job.cluster.empty()) problems.push_back(no_cluster(job, name));
  try {
    Imported imported = importer(job, known);
    if (problems.empty()) return imported;
  } catch (const InputError& error) {
    problems.insert(problems.end(), error.problems().begin(), error.problems().end());
  }
  throw InputError{std::move(problems)};
}

Importer importer_of(JobKind kind) {
  switch (kind) {
    case JobKind::megatron:
      return from_megatron;
    case JobKind::torchtitan:
      return from_torchtitan;
    case JobKind::deepspeed:
      return from_deepspeed;
    case JobKind::accelerate:
      return from_accelerate;
    case JobKind::automodel:
      return from_automodel;
    case JobKind::mlperf:
      return from_mlperf;
    case JobKind::nemo:
      break;
  }
  return from_nemo;
}

}  // namespace

ImportedJob import_job(JobKind kind, const JobFile& asked) {
  JobFile job = asked;
  if (kind == JobKind::mlperf && job.cluster.empty()) job.cluster = cluster_of_mlperf(job.file);
  const std::string cluster_path =
      job.cluster.empty() ? "" : find_data_file("topologies", job.cluster);
  const ImportRequest known = known_of(job, cluster_path);
  Imported imported = read_job(job, known, importer_of(kind), word(kind));
  Scenario scenario = scenario_of(job, known, imported, cluster_path);
  note_mxfp8(scenario, imported.notes);
  scenario.notes = imported.notes;
  scenario.carried = imported.carried;
  return {.scenario = std::move(scenario),
          .notes = std::move(imported.notes),
          .ignored = std::move(imported.ignored)};
}

std::vector<std::string> note_lines(const ImportedJob& imported) {
  std::vector<std::string> lines;
  lines.reserve(imported.notes.size() + 2);
  for (const Note& note : imported.notes)
    lines.push_back(fmt::format("note: {}: {}", note.key, note.what));
  if (!imported.ignored.empty())
    lines.push_back(fmt::format("without an effect on a step: {} key{}: {}", imported.ignored.size(),
                                imported.ignored.size() == 1 ? "" : "s",
                                fmt::join(imported.ignored, ", ")));
  const Cluster& cluster = imported.scenario.cluster;
  if (cluster.gpus_per_node() < cluster.node_gpus())
    lines.push_back(
        fmt::format("note: cluster.gpus_per_node: {} of {}, so that groups stay on one node",
                    cluster.gpus_per_node(), cluster.node_gpus()));
  return lines;
}

std::string imported_yaml(const ImportedJob& imported, const JobFile& job,
                          const std::string& folder) {
  return scenario_yaml(imported.scenario, folder,
                       "Imported from " + fs::path{job.file}.filename().string() + ".");
}

}  // namespace sim
