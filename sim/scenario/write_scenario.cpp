#include "sim/scenario/write_scenario.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "sim/base/check.hpp"
#include "sim/config/yaml_text.hpp"
#include "sim/model/transformer.hpp"
#include "sim/scenario/framework_values.hpp"
#include "sim/scenario/layout_values.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

class Lines {
 public:
  // "key: value" of the section that was begun last.
  template <class Value>
  void add(std::string_view key, const Value& value) {
    text_ += fmt::format("{}{}: {}\n", indent_, key, value);
  }
  void add(std::string_view key, bool value) { add(key, value ? "true" : "false"); }
  void section(std::string_view name) {
    text_ += fmt::format("\n{}:\n", name);
    indent_ = "  ";
  }
  void raw(const std::string& text) { text_ += text; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  std::string_view indent_;
};

// Relative where the two share a folder, absolute where they have nothing but the root in common.
std::string reference(const std::string& path, const std::string& folder) {
  const fs::path target = fs::absolute(path).lexically_normal();
  const fs::path base =
      (folder.empty() ? fs::current_path() : fs::absolute(folder)).lexically_normal();
  const fs::path relative = target.lexically_relative(base);
  const fs::path from_root = target.relative_path(), base_from_root = base.relative_path();
  const bool apart =
      from_root.empty() || base_from_root.empty() || *from_root.begin() != *base_from_root.begin();
  return yaml_quoted(apart || relative.empty() ? target.string() : relative.string());
}

// is_default_word() holds for words that --set needs and that a file can leave out.
bool is_default_word(const std::string& key, const std::string& value) {
  return value == "auto" || (key == "expert_tensor_parallel" && value == "0");
}

// Keys with a dot go into a mapping: overlap: {gradients: true, ...}.
void write_layout(const Layout& layout, const Model& model, const std::string& folder, Lines& out) {
  out.section("layout");
  std::vector<std::pair<std::string, std::vector<std::string>>> mappings;
  const bool names_file = layout.expert_load.exists() && !layout.expert_load.file().empty();
  for (const auto& [key, text] : layout_values(layout, model)) {
    const std::string value =
        key == "moe.load" && names_file ? reference(layout.expert_load.file(), folder) : text;
    if (is_default_word(key, value)) continue;
    const std::size_t dot = key.find('.');
    if (dot == std::string::npos) {
      out.add(key, value);
      continue;
    }
    const std::string name = key.substr(0, dot);
    if (mappings.empty() || mappings.back().first != name) mappings.push_back({name, {}});
    const bool path = key == "packing.lengths" && layout.packing_lengths.is_file();
    mappings.back().second.push_back(
        fmt::format("{}: {}", key.substr(dot + 1),
                    path ? reference(layout.packing_lengths.name, folder) : value));
  }
  for (const auto& [name, entries] : mappings)
    out.add(name, fmt::format("{{{}}}", fmt::join(entries, ", ")));
}

void write_simulation(const Scenario& scenario, const std::string& folder, Lines& out) {
  const SimulationOptions& options = scenario.options;
  out.section("simulation");
  out.add("collectives", word(options.collectives));
  out.add("fold", options.fold);
  out.add("graphs", options.graphs);
  if (!options.graph_scope.empty()) {
    std::vector<std::string_view> modules;
    for (const GraphModule module : options.graph_scope)
      modules.push_back(word(module));
    out.add("graph_scope", fmt::format("[{}]", fmt::join(modules, ", ")));
  }
  out.add("device_spread", options.device_spread);
  out.add("jitter", options.jitter);
  out.add("seed", options.seed);
  out.add("tensor_algorithm", word(options.tensor_choice.algorithm));
  out.add("tensor_protocol", word(options.tensor_choice.protocol));
  out.add("data_algorithm", word(options.data_choice.algorithm));
  out.add("data_protocol", word(options.data_choice.protocol));
  out.add("server_shards", options.tensor_choice.server_shards);
  if (!scenario.anchor_path.empty()) out.add("anchor", reference(scenario.anchor_path, folder));
  std::vector<std::string> items;
  for (const BlockLimitField& field : block_limit_fields)
    if (options.most_blocks.*field.member > 0)
      items.push_back(fmt::format("{}: {}", field.name, options.most_blocks.*field.member));
  if (!items.empty()) out.add("most_blocks", fmt::format("{{{}}}", fmt::join(items, ", ")));
  items.clear();
  for (const TimeFactorField& field : time_factor_fields)
    if (scenario.anchor_path.empty() && options.factors.*field.member != 1)
      items.push_back(fmt::format("{}: {}", field.name, options.factors.*field.member));
  if (!items.empty()) out.add("time_factors", fmt::format("{{{}}}", fmt::join(items, ", ")));
  items.clear();
  for (const Straggler& straggler : options.stragglers)
    items.push_back(
        fmt::format("{{rank: {}, factor: {}}}", straggler.rank.value, straggler.factor));
  if (!items.empty()) out.add("stragglers", fmt::format("[{}]", fmt::join(items, ", ")));
  items.clear();
  for (const LinkFault& fault : scenario.faults)
    items.push_back(
        fmt::format("{{where: {}, factor: {}}}", yaml_quoted(fault.where), fault.factor));
  if (!items.empty()) out.add("faults", fmt::format("[{}]", fmt::join(items, ", ")));
}

void write_framework(const Framework& framework, const Preset* preset, bool named, Lines& out) {
  out.section("framework");
  if (named) out.add("name", preset != nullptr ? word(preset->name) : word(framework.name));
  if (preset != nullptr && !preset->version.empty())
    out.add("version", yaml_quoted(std::string{preset->version}));
  // Settings that few jobs change are left out where they are as the framework has them.
  constexpr std::array rare{"fp8_attention", "experts", "expert_rows", "host_update"};
  const auto bare =
      framework_values(preset != nullptr ? preset->framework : framework_of(framework.name));
  for (const auto& entry : framework_values(framework))
    if (std::ranges::find(rare, entry.first) == rare.end() ||
        std::ranges::find(bare, entry) == bare.end())
      out.add(entry.first, entry.second);
}

// A number alone is a constant rate; else what has an effect.
std::string learning_rate_text(const LearningRate& rate) {
  if (rate.is_constant()) return fmt::format("{}", rate.peak);
  std::string text = fmt::format("{{peak: {}", rate.peak);
  if (rate.warmup_steps > 0)
    text += fmt::format(", initial: {}, warmup_steps: {}", rate.initial, rate.warmup_steps);
  if (rate.decay != RateDecay::constant)
    text += fmt::format(", decay: {}, minimum: {}, decay_steps: {}", word(rate.decay), rate.minimum,
                        rate.decay_steps);
  return text + "}";
}

void write_training(const Training& training, const std::string& folder, Lines& out) {
  out.section("training");
  out.add("steps", training.steps);
  out.add("seed", training.seed);
  if (!training.data.empty()) out.add("data", reference(training.data, folder));
  out.add("learning_rate", learning_rate_text(training.learning_rate));
  out.add("beta1", training.beta1);
  out.add("beta2", training.beta2);
  out.add("epsilon", training.epsilon);
  out.add("weight_decay", training.weight_decay);
  out.add("clip", training.clip);
  if (training.routing != TokenRouting::automatic) out.add("routing", word(training.routing));
}

void write_model(const Scenario& scenario, const std::string& folder, Lines& out) {
  const bool carried = scenario.model_path.empty() || scenario.model_path == scenario.path;
  if (!carried) {
    out.add("model", reference(scenario.model_path, folder));
    return;
  }
  SIM_CHECK(scenario.model.shape.has_value(), scenario.model.name);
  out.raw("model:\n" + transformer_yaml(*scenario.model.shape, 2));
}

// Dotted keys as nested mappings; keys of one section stand together, in the order of the first.
void write_changes(std::string_view name, const std::vector<Change>& changes, Lines& out) {
  struct Section {
    std::string key, value;
    std::vector<Section> inner;
  };
  std::vector<Section> root;
  for (const Change& change : changes) {
    std::vector<Section>* level = &root;
    for (std::string_view rest = change.key; !rest.empty();) {
      const std::size_t dot = std::min(rest.find('.'), rest.size());
      const std::string key{rest.substr(0, dot)};
      auto place = std::ranges::find(*level, key, &Section::key);
      if (place == level->end()) place = level->insert(place, Section{key, {}, {}});
      rest.remove_prefix(std::min(dot + 1, rest.size()));
      if (rest.empty()) place->value = change.value;
      level = &place->inner;
    }
  }
  const auto write = [&](const auto& self, const std::vector<Section>& level,
                         std::size_t indent) -> void {
    for (const Section& section : level) {
      out.raw(fmt::format("{:{}}{}:{}{}\n", "", indent, section.key,
                          section.value.empty() ? "" : " ",
                          section.value.empty() ? "" : yaml_quoted(section.value)));
      self(self, section.inner, indent + 2);
    }
  };
  if (root.empty()) return;
  out.raw(fmt::format("  {}:\n", name));
  write(write, root, 4);
}

void write_allocation(const NodeAllocation& allocation, Lines& out) {
  if (!allocation.is_drawn()) {
    out.add("  node_list", yaml_quoted(allocation.node_list));
    return;
  }
  const bool fragmented = allocation.kind == AllocationKind::fragmented;
  out.add("  allocation",
          fmt::format("{{kind: {}, {}seed: {}}}", word(allocation.kind),
                      fragmented ? fmt::format("occupancy: {}, ", allocation.occupancy) : "",
                      allocation.seed));
}

void write_cluster(const Scenario& scenario, const std::string& folder, Lines& out) {
  out.raw(fmt::format("cluster:\n  path: {}\n  nodes: {}\n  gpus: {}\n",
                      reference(scenario.cluster_path, folder), scenario.cluster.nodes(),
                      scenario.layout.world_size()));
  if (scenario.cluster.gpus_per_node() < scenario.cluster.node_gpus())
    out.add("  gpus_per_node", scenario.cluster.gpus_per_node());
  if (scenario.allocation) write_allocation(*scenario.allocation, out);
  write_changes("change", scenario.changes.cluster, out);
  write_changes("device", scenario.changes.device, out);
}

}  // namespace

std::string scenario_yaml(const Scenario& scenario, const std::string& folder,
                          const std::string& comment) {
  Lines out;
  for (std::size_t at = 0; at < comment.size();) {
    const std::size_t end = std::min(comment.find('\n', at), comment.size());
    out.raw(fmt::format("# {}\n", comment.substr(at, end - at)));
    at = end + 1;
  }
  out.add("name", yaml_quoted(scenario.name));
  write_model(scenario, folder, out);
  write_cluster(scenario, folder, out);
  write_layout(scenario.layout, scenario.model, folder, out);
  write_simulation(scenario, folder, out);
  write_framework(scenario.framework, scenario.preset, scenario.names_framework, out);
  out.section("flops");
  out.add("attention", word(scenario.flops.attention));
  write_training(scenario.training, folder, out);
  out.raw(imported_facts_yaml(scenario.notes, scenario.carried));
  return out.take();
}

}  // namespace sim
