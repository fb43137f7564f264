// The keys of a scenario file as a JSON Schema.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sim/catalog/catalog.hpp"

namespace sim {
namespace {

using Json = nlohmann::ordered_json;

// A section, or a key, or both: `overlap: false` and `overlap: {gradients: false}`.
struct SchemaNode {
  std::string name;
  const Key* key = nullptr;
  std::vector<SchemaNode> keys;

  SchemaNode& child(std::string_view of) {
    const auto found = std::ranges::find(keys, of, &SchemaNode::name);
    return found != keys.end() ? *found
                               : keys.emplace_back(SchemaNode{std::string{of}, nullptr, {}});
  }
};

SchemaNode tree_of(const std::vector<Key>& keys) {
  SchemaNode root;
  for (const Key& key : keys) {
    SchemaNode* node = &root;
    for (std::string_view rest = key.path; !rest.empty();) {
      const std::size_t dot = std::min(rest.find('.'), rest.size());
      node = &node->child(rest.substr(0, dot));
      rest.remove_prefix(std::min(dot + 1, rest.size()));
    }
    node->key = &key;
  }
  return root;
}

constexpr std::string_view quantity_pattern = R"(^[0-9][0-9.eE+-]* *[A-Za-z/]+$)";

Json number_schema(const Key& key, const char* type) {
  Json schema{{"type", type}};
  const auto number = [&](double value) {
    return key.type == KeyType::integer ? Json(static_cast<std::int64_t>(value)) : Json(value);
  };
  if (key.least) schema["minimum"] = number(*key.least);
  if (key.greatest) schema["maximum"] = number(*key.greatest);
  return schema;
}

Json value_schema(const Key& key) {
  switch (key.type) {
    case KeyType::integer:
      return number_schema(key, "integer");
    case KeyType::number:
      return number_schema(key, "number");
    case KeyType::boolean:
      return {{"type", "boolean"}};
    case KeyType::word:
      return {{"enum", key.words}};
    case KeyType::list:
      return {{"type", "array"}};
    case KeyType::text:  // some have a form of their own: a list, a mapping
      return Json::object();
    case KeyType::file:
      return {{"type", "string"}};
    case KeyType::long_time:
      return {
          {"anyOf", {{{"type", "string"}, {"pattern", quantity_pattern}}, {{"const", "never"}}}}};
    default:
      return {{"type", "string"}, {"pattern", quantity_pattern}};
  }
}

// The default as JSON, where the type is one of JSON's; else the text.
Json default_value(const Key& key) {
  const bool is_json =
      key.type == KeyType::integer || key.type == KeyType::number || key.type == KeyType::boolean;
  return is_json ? Json::parse(key.fallback.value) : Json(key.fallback.value);
}

std::string description(const Key& key) {
  std::string text = key.help;
  if (!key.unit.empty()) text += fmt::format(" ({})", key.unit);
  if (key.fallback.value.empty()) text += fmt::format("; default: {}", default_text(key));
  return text;
}

// How much of a file the schema knows: all of it, or a part.
enum class Known { all, changes, part };

Json object_schema(const SchemaNode& node, Known known);

// All forms that the value at a node may have. Of a what-if, "x0.5" is half of it.
Json node_schema(const SchemaNode& node, Known known) {
  std::vector<Json> forms;
  if (node.key != nullptr) {
    const Key& key = *node.key;
    forms.push_back(value_schema(key));
    if (key.type != KeyType::word && key.type != KeyType::boolean && !key.words.empty())
      forms.push_back({{"enum", key.words}});
    if (known == Known::changes) forms.push_back({{"type", "string"}, {"pattern", R"(^x[0-9])"}});
  }
  if (!node.keys.empty()) forms.push_back(object_schema(node, known));
  Json schema = forms.size() == 1 ? forms.front() : Json{{"anyOf", forms}};
  if (node.key != nullptr) {
    schema["description"] = description(*node.key);
    if (!node.key->fallback.value.empty()) schema["default"] = default_value(*node.key);
  }
  return schema;
}

Json object_schema(const SchemaNode& node, Known known) {
  Json schema{{"type", "object"}};
  if (known != Known::part) schema["additionalProperties"] = false;
  std::vector<std::string> required;
  for (const SchemaNode& child : node.keys) {
    const bool is_file_of_others = child.name == "change" || child.name == "device";
    const Known of = node.name == "cluster" && is_file_of_others ? Known::changes : known;
    schema["properties"][child.name] = node_schema(child, of);
    if (child.key != nullptr && child.key->fallback.is_required && of == Known::all)
      required.push_back(child.name);
  }
  if (!required.empty()) schema["required"] = required;
  return schema;
}

Json schema_titled(const std::string& title) {
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", title}};
}

}  // namespace

std::string file_schema(SchemaOf kind) {
  if (kind == SchemaOf::scenario) return scenario_schema();
  SchemaNode root = tree_of(key_catalog());
  SchemaNode& part = kind == SchemaOf::model     ? root.child("model")
                     : kind == SchemaOf::cluster ? root.child("cluster").child("change")
                                                 : root.child("cluster").child("device");
  Json schema = schema_titled(fmt::format("Stepcast {}", word(kind)));
  schema.update(object_schema(part, Known::part));
  return schema.dump(2) + "\n";
}

std::string scenario_schema() {
  const SchemaNode root = tree_of(key_catalog());
  Json schema = schema_titled("Stepcast scenario");
  schema.update(object_schema(root, Known::all));
  for (const char* section : {"cluster", "layout"})
    schema["required"].push_back(section);
  for (const char* section : {"search", "sweep"})
    schema["properties"][section] = {{"type", "object"}};
  return schema.dump(2) + "\n";
}

}  // namespace sim
