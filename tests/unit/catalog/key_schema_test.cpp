// The JSON Schema of a scenario against the scenarios that are shipped, and against mistakes.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "sim/catalog/catalog.hpp"
#include "sim/config/reader.hpp"
#include "sim/config/scalars.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;
using Json = nlohmann::json;

namespace {

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  return type == "number" && value.is_number();
}

bool is_of_types(const Json& value, const Json& types) {
  if (types.is_string()) return is_of_type(value, types);
  return std::ranges::any_of(types, [&](const Json& type) { return is_of_type(value, type); });
}

// What is wrong with `value` by the words of JSON Schema that ours uses; empty: nothing. A word
// that it does not know fails the test.
std::string problem_of(const Json& value, const Json& schema, const std::string& path) {
  const auto wrong = [&](const std::string& word) { return fmt::format("{}: {}", path, word); };
  for (const auto& [word, rule] : schema.items()) {
    if (word == "type") {
      if (!is_of_types(value, rule)) return wrong("type");
    } else if (word == "enum") {
      if (std::ranges::find(rule, value) == rule.end()) return wrong("enum");
    } else if (word == "const") {
      if (value != rule) return wrong("const");
    } else if (word == "minimum") {
      if (value.is_number() && value < rule) return wrong("minimum");
    } else if (word == "maximum") {
      if (value.is_number() && value > rule) return wrong("maximum");
    } else if (word == "pattern") {
      if (value.is_string() &&
          !std::regex_search(value.get<std::string>(), std::regex{rule.get<std::string>()}))
        return wrong("pattern");
    } else if (word == "anyOf") {
      std::string problem;
      if (std::ranges::none_of(rule, [&](const Json& one) {
            problem = problem_of(value, one, path);
            return problem.empty();
          }))
        return problem;
    } else if (word == "required") {
      for (const Json& key : rule)
        if (value.is_object() && !value.contains(key.get<std::string>()))
          return wrong("required " + key.get<std::string>());
    } else if (word == "properties") {
      if (!value.is_object()) continue;
      for (const auto& [key, part] : value.items())
        if (rule.contains(key))
          if (const std::string problem = problem_of(part, rule[key], path + "." + key);
              !problem.empty())
            return problem;
    } else if (word == "additionalProperties") {
      REQUIRE(rule == false);
      for (const auto& [key, part] : value.items())
        if (value.is_object() && !schema["properties"].contains(key)) return wrong("key " + key);
    } else {
      CAPTURE(word);
      REQUIRE((word == "description" || word == "default" || word == "title" || word == "$schema"));
    }
  }
  return {};
}

// A value of YAML as JSON.
Json json_of(const ValueReader& value) {
  Json json;
  if (value.is_list()) {
    json = Json::array();
    for (const ValueReader& item : value.list())
      json.push_back(json_of(item));
  } else if (value.is_object()) {
    json = Json::object();
    const ObjectReader object = value.object();
    for (const std::string& key : object.keys())
      json[key] = json_of(object.at(key));
  } else if (const std::optional<std::string> text = value.peek_text()) {
    const ParsedNumber<std::int64_t> whole = parse_integer(*text, false);
    const ParsedNumber<double> number = parse_real(*text);
    if (*text == "true" || *text == "false")
      json = *text == "true";
    else if (std::holds_alternative<std::int64_t>(whole))
      json = std::get<std::int64_t>(whole);
    else if (std::holds_alternative<double>(number))
      json = std::get<double>(number);
    else
      json = *text;
  }
  return json;
}

std::string problem_of_yaml(const std::string& yaml) {
  static const Json schema = Json::parse(scenario_schema());
  const Document document = Document::parse_yaml("root:\n" + yaml, "s.yaml");
  return problem_of(json_of(document.root_object().at("root")), schema, "scenario");
}

// `lines` of a section of a scenario that is right without them.
std::string problem_with(const std::string& section, const std::string& lines) {
  std::string yaml = "  model: m.yaml\n  cluster: c.yaml\n  layout: {global_batch: 8";
  if (section == "layout") return problem_of_yaml(yaml + ", " + lines + "}\n");
  return problem_of_yaml(yaml + "}\n  " + section + ": {" + lines + "}\n");
}

}  // namespace

TEST_CASE("the schema takes every scenario that is shipped", "[keys]") {
  const Json schema = Json::parse(scenario_schema());
  CHECK(schema["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  int scenarios = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_dir() + "/scenarios")) {
    if (entry.path().extension() != ".yaml") continue;
    CAPTURE(entry.path().string());
    const Document document = Document::load(entry.path().string());
    Json scenario = Json::object();
    const ObjectReader top = document.root_object();
    for (const std::string& key : top.keys())
      scenario[key] = json_of(top.at(key));
    CHECK(problem_of(scenario, schema, "scenario") == "");
    ++scenarios;
  }
  CHECK(scenarios > 10);
}

TEST_CASE("the schema refuses keys and values that the reader refuses", "[keys]") {
  CHECK(problem_with("layout", "tensor_parallel: 4") == "");
  CHECK(problem_with("layout", "tensor_paralel: 4") == "scenario.layout: key tensor_paralel");
  CHECK(problem_with("layout", "tensor_parallel: 0") == "scenario.layout.tensor_parallel: minimum");
  CHECK(problem_with("layout", "zero_stage: 4") == "scenario.layout.zero_stage: maximum");
  CHECK(problem_with("layout", "schedule: 2f2b") == "scenario.layout.schedule: enum");
  CHECK(problem_with("layout", "overlap: false") == "");
  CHECK(problem_with("layout", "overlap: {gradients: 3}") ==
        "scenario.layout.overlap.gradients: type");
  CHECK(problem_with("layout", "layers_per_chunk: {first: 1, last: 1}") == "");
  CHECK(problem_with("layout", "bucket: 40 MiB") == "");
  CHECK(problem_with("layout", "bucket: 40") != "");
  CHECK(problem_with("framework", "expert_rows: 16, host_issue: 20 us") == "");
  CHECK(problem_with("framework", "expert_row: 16") == "scenario.framework: key expert_row");
  CHECK(problem_with("simulation", "time_factors: {products: 1.1}") == "");
  CHECK(problem_with("simulation", "jitter: 3") == "scenario.simulation.jitter: maximum");
  CHECK(problem_with("training", "learning_rate: 0.1") == "");
  CHECK(problem_with("training", "learning_rate: {peak: 0.1}") == "");
  CHECK(problem_with("training", "learning_rate: {top: 0.1}") != "");
  CHECK(problem_with("budget", "tokens: 1e9, finish_in: 60 d, sources: {power.pue: ours}") == "");
  CHECK(problem_with("budget", "finish_in: sixty days") != "");
  CHECK(problem_with("disturbance", "preset: shared") == "");
  CHECK(problem_of_yaml("  model: m.yaml\n  cluster: c.yaml\n") == "scenario: required layout");
  const std::string changes = "  cluster: {path: c, change: {nodes: x2, fabric: {levels: 3}}}\n";
  CHECK(problem_of_yaml("  model: m.yaml\n  layout: {}\n" + changes) ==
        "scenario.layout: required global_batch");
  CHECK(problem_of_yaml("  model: m.yaml\n  layout: {global_batch: 8}\n" + changes) == "");
}

TEST_CASE("schemas of other files take all that are shipped, and tell wrong values", "[keys]") {
  for (const auto& [kind, folder] :
       {std::pair{SchemaOf::cluster, "topologies"},
        std::pair{SchemaOf::device, "topologies/devices"}, std::pair{SchemaOf::model, "models"}}) {
    const Json schema = Json::parse(file_schema(kind));
    CHECK(schema["properties"].size() > 1);
    int files = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(test::source_dir() + "/" + folder)) {
      if (entry.path().extension() != ".yaml") continue;
      CAPTURE(entry.path().string());
      const Document document = Document::load(entry.path().string());
      Json file = Json::object();
      const ObjectReader top = document.root_object();
      for (const std::string& key : top.keys())
        file[key] = json_of(top.at(key));
      CHECK(problem_of(file, schema, "file") == "");
      ++files;
    }
    CHECK(files > 10);
  }
  const Json cluster = Json::parse(file_schema(SchemaOf::cluster));
  CHECK(problem_of({{"fabric", {{"kind", "ring"}}}}, cluster, "file") == "file.fabric.kind: enum");
  CHECK(problem_of({{"network", {{"efficiency", 2}}}}, cluster, "file") ==
        "file.network.efficiency: maximum");
}
