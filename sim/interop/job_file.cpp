#include "sim/interop/job_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>

#include "sim/base/rounding.hpp"
#include "sim/config/data_files.hpp"
#include "sim/config/input_log.hpp"
#include "sim/config/reader.hpp"
#include "sim/interop/job_importers.hpp"
#include "sim/interop/megatron/mlperf.hpp"
#include "sim/model/transformer.hpp"
#include "sim/options/device_spread.hpp"
#include "sim/scenario/machine_checks.hpp"
#include "sim/scenario/node_use.hpp"
#include "sim/scenario/sources.hpp"
#include "sim/scenario/write_scenario.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

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

// cluster_for() has as many nodes as the job takes; a cluster of a fixed size stays as it is.
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
  if (scenario.layout.images == 0) leave_out_vision(scenario.model);
  keep_one_order(scenario.layout, imported.framework.execution.eight_bit,
                 scenario.cluster.device());
  scenario.options.graphs = imported.graphs;
  scenario.options.graph_scope = imported.graph_scope;
  scenario.options.most_blocks = imported.most_blocks;
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

// known_of() is what is known beside the file; a cluster that is not named leaves its part open.
ImportRequest known_of(const JobFile& job, const std::string& cluster_path) {
  ImportRequest known = job.known;
  if (!cluster_path.empty()) {
    const Cluster cluster = Cluster::load(cluster_path);
    const Device& device = cluster.device();
    known.has_flash_2 = device.flash_attention_2.has_value();
    known.prefers_cudnn = takes_cudnn_attention(device);
    known.generation = device.generation;
    known.workspaces = device.workspaces;
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

// read_job() tells with the mistakes of the file what is missing beside it.
Imported read_job(JobKind kind, const JobFile& job, const ImportRequest& known) {
  std::vector<Problem> problems;
  if (job.cluster.empty()) problems.push_back(no_cluster(job, word(kind)));
  try {
    Imported imported = import_file(kind, job, known);
    if (problems.empty()) return imported;
  } catch (const InputError& error) {
    problems.insert(problems.end(), error.problems().begin(), error.problems().end());
  }
  throw InputError{std::move(problems)};
}

// take_scenario_changes() returns those of --set that are keys of a scenario, not of the file; they
// are taken out of the job.
std::vector<std::string> take_scenario_changes(JobFile& job) {
  constexpr std::array<std::string_view, 5> sections{"layout.", "framework.", "simulation.",
                                                     "cluster.", "flops."};
  const auto is_ours = [&](const std::string& text) {
    return std::ranges::any_of(sections,
                               [&](std::string_view section) { return text.starts_with(section); });
  };
  std::vector<std::string> ours;
  std::ranges::copy_if(job.changes, std::back_inserter(ours), is_ours);
  std::erase_if(job.changes, is_ours);
  return ours;
}

// The scenario with keys of its own on top, as `simulate --set` has them.
Scenario changed(const Scenario& scenario, const std::vector<std::string>& on_top,
                 Imported& imported) {
  const std::string text = scenario_yaml(scenario, fs::current_path().string(), "");
  const std::string path = (fs::current_path() / (scenario.name + ".yaml")).string();
  Scenario made = load_scenario(ScenarioSources::of_text(text, path, on_top));
  for (const std::string& change : on_top) {
    const std::size_t equals = change.find('=');
    imported.notes.push_back(
        {change.substr(0, equals),
         fmt::format("'{}', as --set says, whatever the file does", change.substr(equals + 1))});
  }
  for (const Followed& followed : made.followed)
    if (!followed.is_default)
      imported.notes.push_back({followed.key, fmt::format("{} instead of {}: {}", followed.to,
                                                          followed.from, followed.why)});
  return made;
}

}  // namespace

ImportedJob import_job(JobKind kind, const JobFile& asked) {
  JobFile job = asked;
  if (kind == JobKind::mlperf && job.cluster.empty()) job.cluster = cluster_of_mlperf(job.file);
  const std::string cluster_path =
      job.cluster.empty() ? "" : find_data_file("topologies", job.cluster);
  const ImportRequest known = known_of(job, cluster_path);
  const std::vector<std::string> on_top = take_scenario_changes(job);
  Imported imported = read_job(kind, job, known);
  Scenario scenario = scenario_of(job, known, imported, cluster_path);
  if (!on_top.empty()) scenario = changed(scenario, on_top, imported);
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
    lines.push_back(fmt::format("without an effect on a step: {} key{}: {}",
                                imported.ignored.size(), imported.ignored.size() == 1 ? "" : "s",
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
