#include "sim/scenario/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "sim/base/rounding.hpp"
#include "sim/collective/load_cluster.hpp"
#include "sim/config/data_files.hpp"
#include "sim/config/reader.hpp"
#include "sim/config/shipped_only.hpp"
#include "sim/config/text_check.hpp"
#include "sim/model/transformer.hpp"
#include "sim/plan/plan.hpp"
#include "sim/scenario/followers.hpp"
#include "sim/scenario/layered.hpp"
#include "sim/scenario/machine_checks.hpp"
#include "sim/scenario/near_files.hpp"
#include "sim/scenario/node_use.hpp"
#include "sim/scenario/read/read_allocation.hpp"
#include "sim/scenario/read/read_anchor.hpp"
#include "sim/scenario/read/read_changes.hpp"
#include "sim/scenario/read/read_framework.hpp"
#include "sim/scenario/read/read_layout.hpp"
#include "sim/scenario/read/read_simulation.hpp"
#include "sim/scenario/read/read_training.hpp"
#include "sim/scenario/sources.hpp"
#include "sim/topology/coupled_changes.hpp"

namespace sim {
namespace {

// Sections that other rooms read from the same file: sim/search and its commands.
constexpr std::array sections_of_others{"search", "sweep", "budget", "disturbance"};
constexpr int most_gpus = 1 << 21;

struct ClusterText {
  std::string path;
  std::optional<int> nodes;
  NodeUse use;
  std::optional<NodeAllocation> allocation;
  ClusterChanges changes;
  std::vector<Followed> followed;
};

// The path at `key` of `holder`: relative to the scenario file, or in --set (`by_hand`) to where
// the user stands; where no such file is, that of the shipped one of this name.
// `kind`: the folder of shipped files of its kind; empty: there are none.
std::string referenced_path(const ObjectReader& holder, std::string_view key, bool by_hand,
                            const std::string& scenario_path, const std::string& kind) {
  const std::string text = holder.text(key);
  if (std::string alone = only_shipped(kind, text); !alone.empty()) return alone;
  std::string path = by_hand ? text : resolve_path(scenario_path, text);
  check_readable(path, kind);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    if (std::string shipped = shipped_file(kind, text); !shipped.empty()) return shipped;
  if (key == "model" && !text.empty() && std::filesystem::is_directory(path, ignored)) {
    // A folder as Hugging Face's tools write it.
    path = (std::filesystem::path{path} / "config.json").string();
    if (!std::filesystem::is_regular_file(path, ignored))
      holder.problem(key,
                     fmt::format("the folder holds no config.json; there is no file {}", path));
    return path;
  }
  if (!text.empty() && !std::filesystem::is_regular_file(path, ignored))
    holder.problem(key, fmt::format("there is no file {}{}", path, near_files_text(path, kind)));
  return path;
}

// path_in() is the path of a section's key; empty: it is not there.
std::string path_in(const Layered& section, std::string_view key, const std::string& scenario_path,
                    const std::string& kind) {
  const ObjectReader* holder = section.holder(key);
  if (holder == nullptr) return {};
  return referenced_path(*holder, key, section.overridden(key), scenario_path, kind);
}

struct ModelText {
  std::string path;
  std::optional<TransformerShape> shape;  // of a model that the scenario carries
};

ModelText read_model_text(const Layered& top, const std::string& scenario_path,
                          const std::string& scenario_name) {
  top.require("model");
  const ObjectReader* holder = top.holder("model");
  if (!holder) return {};
  const ValueReader value = holder->at("model");
  if (!value.is_object())
    return {referenced_path(*holder, "model", top.overridden("model"), scenario_path, "models"),
            {}};
  if (top.is_upper(holder)) {
    value.problem("--set model takes the name of a file, not single keys of a model");
    value.object().ignore_unknown();
    return {};
  }
  return {scenario_path, read_transformer_shape(value.object(), scenario_name)};
}

// Another cluster under the same job, which keeps its number of GPUs: on as many nodes as that
// takes where the file says the nodes of its own cluster.
void keep_gpus(const Layered& top, const Layered& section, const std::string& scenario_path,
               ClusterText& text) {
  const std::optional<std::string> nodes = section.text_of_file("nodes");
  const std::optional<std::string> own =
      section.text_of_file("path") ? section.text_of_file("path") : top.text_of_file("cluster");
  if (!nodes || !own || section.overridden("nodes") || section.overridden("gpus")) return;
  try {
    const NodeRoom room = room_of(Cluster::load(text.path));
    const Cluster before =
        Cluster::load(referenced_file(scenario_path, *own, "topologies"), text.nodes);
    if (room.gpus == before.node_gpus()) return;
    const int gpus = text.use.gpus > 0 ? text.use.gpus : before.gpus();
    const int now = nodes_for(room, gpus);
    text.followed.push_back({"cluster.nodes", *nodes, std::to_string(now),
                             fmt::format("{} GPUs in nodes of {}", gpus, room.gpus)});
    text.nodes = now;
    if (gpus != now * room.gpus) text.use.gpus = gpus;
  } catch (const InputError&) {
    return;  // what is wrong with the new one is reported where it is loaded
  }
}

// "cluster: FILE" is short for "cluster: {path: FILE}"; --set cluster.nodes goes with both.
ClusterText read_cluster(const Layered& top, const std::string& scenario_path) {
  ClusterText text;
  top.require("cluster");
  const Layered section = top.object("cluster");
  const ObjectReader* plain = top.scalar_holder("cluster");
  if (plain && !section.overridden("path")) {
    text.path =
        referenced_path(*plain, "cluster", top.is_upper(plain), scenario_path, "topologies");
  } else {
    section.require("path");
    if (const ObjectReader* holder = section.holder("path"))
      text.path =
          referenced_path(*holder, "path", section.overridden("path"), scenario_path, "topologies");
  }
  if (section.has("nodes")) text.nodes = section.int_or("nodes", 1, {1, most_nodes});
  text.use.gpus = section.int_or("gpus", 0, {1, most_gpus});
  text.use.gpus_per_node = section.int_or("gpus_per_node", 0, {1, most_gpus});
  if (section.overridden("path") || (plain && top.is_upper(plain)))
    keep_gpus(top, section, scenario_path, text);
  text.allocation = read_allocation(section, text.nodes);
  text.changes = read_changes(section);
  if (text.changes.cluster.empty() || text.path.empty()) return text;
  for (Change& change : coupled_changes(text.path, text.changes.cluster)) {
    text.followed.push_back({"cluster.change." + change.key, "the file's", change.value,
                             "what it follows from is changed so"});
    text.changes.cluster.push_back(std::move(change));
  }
  return text;
}

// Loads a file that the scenario names; its problems join those of the other such file. A name that
// leads nowhere has been told by who read it.
template <class Load>
auto load_named(const std::string& path, Load load, std::vector<Problem>& problems)
    -> std::optional<decltype(load())> {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored)) return std::nullopt;
  try {
    return load();
  } catch (const InputError& error) {
    problems.insert(problems.end(), error.problems().begin(), error.problems().end());
    return std::nullopt;
  }
}

// key_to_blame() is the degree that is set on top, among those that the GPUs must hold; else the
// first that is used.
std::string_view key_to_blame(const Layout& layout, const Layered& section) {
  for (const std::string_view key : {"tensor_parallel", "context_parallel", "pipeline_parallel"})
    if (section.overridden(key)) return key;
  return layout.tensor_parallel > 1    ? "tensor_parallel"
         : layout.context_parallel > 1 ? "context_parallel"
                                       : "pipeline_parallel";
}

// load_model_of() builds no model from a shape in the scenario while the scenario may be
// wrong.
std::optional<Model> load_model_of(const ModelText& text, bool scenario_is_right,
                                   std::vector<Problem>& problems) {
  if (!text.shape)
    return load_named(
        text.path, [&] { return load_model(text.path); }, problems);
  if (!scenario_is_right) return std::nullopt;
  return build_transformer(*text.shape);
}

// The machine of the job: with an allocation the whole of the file's, of which the job has a part.
Cluster machine_of(const ClusterText& text, const Layered& section) {
  if (!text.allocation) return load_cluster(text.path, text.nodes, text.changes);
  Cluster machine = load_cluster(text.path, std::nullopt, text.changes);
  const bool by_gpus = !text.nodes && text.use.gpus > 0 && text.allocation->is_drawn();
  const int nodes = by_gpus ? nodes_for(room_of(machine), text.use.gpus) : text.nodes.value_or(0);
  allocate(*text.allocation, nodes, section, machine);
  return machine;
}

std::optional<Cluster> load_cluster_of(const ClusterText& text, const Layered& section,
                                       std::vector<Problem>& problems) {
  return load_named(
      text.path, [&] { return machine_of(text, section); }, problems);
}

void fill_data_parallel(LayoutText& text, const Cluster& cluster, int gpus, const Layered& layout) {
  const std::int64_t inner = std::int64_t{text.layout.tensor_parallel} *
                             text.layout.context_parallel * text.layout.pipeline_parallel;
  const std::string context =
      text.layout.context_parallel > 1
          ? fmt::format(" x context_parallel {}", text.layout.context_parallel)
          : std::string{};
  const std::string machine = gpus == cluster.gpus() ? fmt::format("the cluster has {} GPUs ({})",
                                                                   gpus, nodes_text(cluster))
                                                     : fmt::format("the job has {} GPUs", gpus);
  // A file's own number of replicas has followed, unless there is none that goes.
  const bool follows = gpus % inner != 0 && !layout.overridden("data_parallel");
  if (text.has_data_parallel && !follows) {
    const std::int64_t ranks = inner * text.layout.data_parallel;
    if (ranks != gpus)
      layout.problem(
          "data_parallel",
          fmt::format("tensor_parallel {}{} x pipeline_parallel {} x data_parallel {} is {} ranks, "
                      "but {}; {} to match",
                      text.layout.tensor_parallel, context, text.layout.pipeline_parallel,
                      text.layout.data_parallel, ranks, machine, what_to_set(cluster)));
    return;
  }
  if (gpus % inner != 0) {
    layout.problem(
        key_to_blame(text.layout, layout),
        fmt::format("tensor_parallel {}{} x pipeline_parallel {} is {}, which does not "
                    "divide the GPUs: {}{}",
                    text.layout.tensor_parallel, context, text.layout.pipeline_parallel, inner,
                    machine, gpus == cluster.gpus() ? whole_replicas_hint(cluster, inner) : ""));
    return;
  }
  text.layout.data_parallel = static_cast<int>(gpus / inner);
}

// forget_parallelism() is for a layout that is still to be found: every GPU is a replica until
// then.
void forget_parallelism(Layout& layout, int gpus) {
  layout.tensor_parallel = layout.context_parallel = layout.pipeline_parallel =
      layout.virtual_stages = layout.expert_parallel = 1;
  layout.data_parallel = gpus;
  layout.schedule = Schedule::one_f_one_b;
}

// The GPUs of the job: all of the cluster, or as many as the file says.
int gpus_of_job(const ClusterText& machine, const Cluster& cluster, const Layered& top) {
  if (machine.use.gpus > cluster.gpus())
    top.object("cluster").problem(
        "gpus",
        fmt::format(
            "gpus is {}, but the cluster has {} ({}); set cluster.nodes{}", machine.use.gpus,
            cluster.gpus(), nodes_text(cluster),
            cluster.gpus_per_node() < cluster.node_gpus() ? " or cluster.gpus_per_node" : ""));
  return machine.use.gpus > 0 ? machine.use.gpus : cluster.gpus();
}

// The GPUs of the job as the layout of the file has them, where its data_parallel follows a knob.
std::int64_t gpus_of_file(const Layered& layout) {
  std::int64_t gpus = 1;
  for (const char* degree :
       {"tensor_parallel", "context_parallel", "pipeline_parallel", "data_parallel"}) {
    const std::string text = layout.text_of_file(degree).value_or("1");
    int value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec != std::errc{} || value < 1) return 0;  // told where the layout is read
    gpus = std::min<std::int64_t>(gpus * value, most_gpus);
  }
  return gpus;
}

void use_nodes_of_layout(NodeUse use, const LayoutText& text, const Layered& top,
                         Cluster& cluster) {
  const Layered layout = top.object("layout");
  const bool follows =
      text.has_data_parallel && knob_is_set(top) && !layout.overridden("data_parallel");
  if (follows && use.gpus == 0) use.gpus = static_cast<int>(gpus_of_file(layout));
  use_nodes(use, &text.layout, text.has_data_parallel && !follows, top.object("cluster"), cluster);
}

// Replicas that alone are set on top come with their GPUs, on as many nodes as these need.
void add_gpus_for_replicas(LayoutText& text, const Layered& top, ClusterText& machine,
                           Cluster& cluster) {
  const std::int64_t wanted = gpus_for_replicas(text, top);
  const int before = machine.use.gpus > 0 ? machine.use.gpus : cluster.gpus();
  const std::int64_t per_node = cluster.gpus_per_node();
  const std::int64_t nodes = divide_up(wanted, per_node);
  if (wanted == 0 || wanted == before || nodes > most_nodes) return;
  machine.nodes = static_cast<int>(nodes);
  machine.use.gpus = static_cast<int>(wanted);
  cluster = machine_of(machine, top.object("cluster"));
  use_nodes_of_layout(machine.use, text, top, cluster);
  text.followed.push_back(
      {"cluster.gpus", std::to_string(before), fmt::format("{} on {} nodes", wanted, nodes),
       fmt::format("data_parallel {} replicas of {} GPUs", text.layout.data_parallel,
                   wanted / text.layout.data_parallel)});
}

void fill_sequence_length(LayoutText& text, const Model& model, const Layered& layout) {
  const std::int64_t fixed = model.is_layer_list ? 1 : model.fixed_sequence;
  if (fixed == 0) {
    if (!text.has_sequence_length)
      layout.problem("sequence_length",
                     fmt::format("the key is missing: tokens per sequence of {}", model.name));
    return;
  }
  if (text.has_sequence_length && text.layout.sequence_length != fixed)
    layout.problem("sequence_length",
                   fmt::format("{} fixes it at {}: leave the key out", model.name, fixed));
  text.layout.sequence_length = fixed;
}

void report_layout_problems(const Layout& layout, const Model& model, const Layered& section) {
  for (const LayoutProblem& problem : layout_problems(layout, model)) {
    if (problem.key == "layers_per_chunk" && splits_by_stage(section))
      section.problem("layers_per_stage", problem.what);
    else
      section.problem(problem.key, problem.what);
  }
}

// The layout as the file has it, or the workload of one that is still to be found.
enum class LayoutState : std::uint8_t { given, open };

// How many GPUs of which nodes the job takes.
int place_job(LayoutState state, const ScenarioSources& sources, LayoutText& text,
              ClusterText& machine, Cluster& cluster) {
  const Layered top = sources.top();
  if (state == LayoutState::given) {
    use_nodes_of_layout(machine.use, text, top, cluster);
    add_gpus_for_replicas(text, top, machine, cluster);
  } else {
    use_nodes(machine.use, nullptr, false, top.object("cluster"), cluster);
  }
  sources.finish();
  const int gpus = gpus_of_job(machine, cluster, top);
  sources.finish();
  return gpus;
}

// Fills in what the file leaves open, and tells what does not go together.
void complete_layout(LayoutState state, int gpus, const Model& model, const Cluster& cluster,
                     const ScenarioSources& sources, const Layered& section, const Preset& preset,
                     LayoutText& text) {
  if (state == LayoutState::open) {
    forget_parallelism(text.layout, gpus);
    fill_message_overlap(preset, text);
    return sources.finish();
  }
  if (knob_is_set(sources.top())) {
    follow_knobs(text, model, gpus, cluster.gpus_per_node(), section);
    fill_message_overlap(preset, text);
  }
  fill_data_parallel(text, cluster, gpus, section);
  sources.finish();
  spread_layers(text, static_cast<int>(model.layers.size()), section, text.layout);
  if (preset.fills_scenarios()) split_as_preset(preset, model, section, text);
  sources.finish();
  report_layout_problems(text.layout, model, section);
}

void take_host_times(const Framework& framework, SimulationOptions& options) {
  options.host_issue = framework.host_issue;
  options.host_calls = framework.host_calls;
  options.host_update = framework.host_update;
}

// The lengths of sequences that the layout names, of a file relative to the scenario.
void find_lengths(const Layered& layout, const std::string& scenario_path, Layout& made) {
  if (!made.packing_lengths.is_file()) return;
  const std::string path = path_in(layout.object("packing"), "lengths", scenario_path, "");
  if (!path.empty()) made.packing_lengths.name = path;
}

// Called when the layout is known to be right so far.
void load_lengths(Layout& layout, std::vector<Problem>& problems) {
  if (!layout.packing_lengths.is_file()) return;
  std::optional<std::vector<LengthCount>> lengths = load_named(
      layout.packing_lengths.name, [&] { return read_lengths(layout.packing_lengths.name); },
      problems);
  if (lengths)
    layout.packing_lengths.measured =
        std::make_shared<const std::vector<LengthCount>>(std::move(*lengths));
}

Scenario load(const ScenarioSources& sources, LayoutState state) {
  const std::string& path = sources.path();
  const Layered top = sources.top();
  const std::string name = top.text_or("name", std::filesystem::path{path}.stem().string());
  if (top.has("name") && (find_bad_byte(name) || name.find('\n') != std::string::npos))
    top.problem("name", "expected one line of text, without control characters");
  const ModelText model_text = read_model_text(top, path, name);
  ClusterText machine = read_cluster(top, path);
  top.require("layout");
  const Layered layout_section = top.section("layout");
  SimulationOptions options;
  const Trouble trouble = read_simulation(top.section("simulation"), options);
  const Layered simulation_section = top.section("simulation");
  const std::string anchor_path = path_in(simulation_section, "anchor", path, "");
  const Preset& preset = read_preset(top.section("framework"));
  const Framework framework = read_framework(top.section("framework"), preset.framework);
  LayoutText text = read_layout(layout_section, framework.execution, preset);
  find_lengths(layout_section, path, text.layout);
  std::vector<Note> notes = read_notes(top);
  CarriedSettings carried = read_carried(top);
  const FlopConvention flops{top.section("flops").word_or("attention", AttentionFlops::full)};
  const Layered training_section = top.section("training");
  Training training = read_training(training_section);
  if (training_section.holder("data"))
    training.data = path_in(training_section, "data", path, "data/corpus");
  for (const char* section : sections_of_others)
    static_cast<void>(top.has(section));
  // All that is known to be wrong is told at once, in the files that the scenario names too.
  std::vector<Problem> named;
  std::optional<Model> model = load_model_of(model_text, sources.problems().empty(), named);
  std::optional<Cluster> cluster = load_cluster_of(machine, top.object("cluster"), named);
  load_lengths(text.layout, named);
  if (model && !layout_section.empty()) fill_sequence_length(text, *model, layout_section);
  std::vector<Problem> problems = sources.problems();
  problems.insert(problems.end(), named.begin(), named.end());
  if (!problems.empty()) throw InputError{std::move(problems)};

  if (text.layout.images == 0) leave_out_vision(*model);
  run_with(framework, *model);
  model->execution.reads_either_order = cluster->device().reads_either_order();
  take_host_times(framework, options);
  const int gpus = place_job(state, sources, text, machine, *cluster);
  complete_layout(state, gpus, *model, *cluster, sources, layout_section, preset, text);
  check_kernels(text.layout, *model, cluster->device(), top);
  check_host(text.layout, *cluster, layout_section);
  if (state == LayoutState::given) check_cut_products(text.layout, *cluster, layout_section);
  apply_trouble(trouble, options, gpus, *cluster);
  sources.finish();
  std::vector<Followed> followed = std::move(machine.followed);
  followed.insert(followed.end(), text.followed.begin(), text.followed.end());
  Scenario made{.path = path,
                .name = name,
                .model = std::move(*model),
                .model_path = model_text.path,
                .layout = std::move(text.layout),
                .cluster = std::move(*cluster),
                .cluster_path = machine.path,
                .changes = machine.changes,
                .allocation = machine.allocation,
                .asked_gpus_per_node = machine.use.gpus_per_node,
                .framework = framework,
                .names_framework = top.section("framework").has("name"),
                .preset = &preset,
                .options = std::move(options),
                .anchored = {},
                .anchor_path = anchor_path,
                .faults = trouble.faults,
                .flops = flops,
                .training = std::move(training),
                .followed = std::move(followed),
                .notes = std::move(notes),
                .carried = std::move(carried)};
  if (!anchor_path.empty()) add_anchor(simulation_section, made);
  sources.finish();
  return made;
}

}  // namespace

Scenario load_scenario(const std::string& path, const std::vector<std::string>& overrides) {
  return load(ScenarioSources{path, overrides}, LayoutState::given);
}

Scenario load_scenario(const ScenarioSources& sources) {
  return load(sources, LayoutState::given);
}

Scenario load_workload(const ScenarioSources& sources) {
  return load(sources, LayoutState::open);
}

}  // namespace sim
