#include "sim/catalog/values.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "sim/catalog/catalog.hpp"
#include "sim/config/data_files.hpp"
#include "sim/config/reader.hpp"
#include "sim/layout/layout_fields.hpp"
#include "sim/model/transformer.hpp"
#include "sim/scenario/write_scenario.hpp"

namespace sim {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;

// "[tp, cp]", "{every: 6, first_layer: 5}", or the text of a scalar.
std::string flow_text(const ValueReader& value) {
  std::vector<std::string> parts;
  if (value.is_list()) {
    for (const ValueReader& item : value.list())
      parts.push_back(flow_text(item));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
  if (!value.is_object()) return value.peek_text().value_or("");
  const ObjectReader object = value.object();
  for (const std::string& key : object.keys())
    parts.push_back(fmt::format("{}: {}", key, flow_text(object.at(key))));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

void flatten(const ObjectReader& object, const std::string& prefix, Values& values) {
  for (const std::string& key : object.keys()) {
    const ValueReader value = object.at(key);
    const std::string path = prefix + key;
    if (find_key(path) != nullptr) values[path] = flow_text(value);
    if (value.is_object()) flatten(value.object(), path + '.', values);
  }
}

void add_machine(const Scenario& scenario, Values& values) {
  Document cluster = Document::load(scenario.cluster_path);
  cluster.change(scenario.changes.cluster);
  const ObjectReader top = cluster.root_object();
  flatten(top, "cluster.change.", values);
  if (!top.has("device")) return;  // pools have several, which no key changes
  Document device = Document::load(
      referenced_file(scenario.cluster_path, top.text("device"), "topologies/devices"));
  device.change(scenario.changes.device);
  flatten(device.root_object(), "cluster.device.", values);
}

// add_implied() adds what a scenario file leaves out because it follows from something else.
void add_implied(const Scenario& scenario, Values& values) {
  values["cluster.gpus_per_node"] = std::to_string(scenario.cluster.gpus_per_node());
  for (const LayoutField& field : layout_fields())  // written or not
    if (!field.applies || field.applies(scenario.model))
      values[fmt::format("layout.{}", field.key.path)] = value_text(scenario.layout, field);
  values["training.routing"] = word(scenario.training.routing);
  if (scenario.layout.sequence_length > 0)
    values["layout.sequence_length"] = std::to_string(scenario.layout.sequence_length);
  if (scenario.model.shape && has_transformer_yaml(*scenario.model.shape)) {
    const Document model =
        Document::parse_yaml(transformer_yaml(*scenario.model.shape, 0), "the model");
    flatten(model.root_object(), "model.", values);
  }
}

}  // namespace

Values current_values(const Scenario& scenario) {
  Values values;
  const Document file = Document::parse_yaml(scenario_yaml(scenario, "", ""), "the scenario");
  flatten(file.root_object(), "", values);
  values.erase("cluster");
  if (!scenario.model_path.empty() && scenario.model_path == scenario.path) values.erase("model");
  add_implied(scenario, values);
  add_machine(scenario, values);
  return values;
}

std::optional<std::string> current_value(const Scenario& scenario, std::string_view key) {
  const Values values = current_values(scenario);
  const auto found = values.find(require_key(key).path);
  return found == values.end() ? std::nullopt : std::optional{found->second};
}

}  // namespace sim
