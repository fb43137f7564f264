// The catalogue of keys against the readers: what they ask for, and what they refuse.
#include "sim/catalog/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "sim/catalog/values.hpp"
#include "sim/economics/budget.hpp"
#include "sim/economics/quantities.hpp"
#include "sim/scenario/disturbance.hpp"
#include "sim/scenario/sources.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/catalog/hosts.hpp"

using namespace sim;

namespace {

const std::string root = test::source_dir();

// is_no_knob() holds in cluster and device files for names, texts, lists, and what no forecast
// reads.
bool is_no_knob(const std::string& path) {
  static const std::set<std::string> ends{".name",
                                          ".aliases",
                                          ".unlike",
                                          ".origin",
                                          ".not_validated",
                                          ".sources",
                                          ".device",
                                          ".measured",
                                          ".pools",
                                          ".node_names",
                                          ".measured_kernels",
                                          ".node.nvlink.pairs",
                                          ".node.pcie.layout",
                                          ".fabric.dims",
                                          ".host.source",
                                          ".reference",
                                          ".reference.product",
                                          ".reference.copy",
                                          ".reference.whole"};
  for (const std::string prefix : {"cluster.change", "cluster.device"})
    if (path.starts_with(prefix + ".") && ends.count(path.substr(prefix.size())) > 0) return true;
  // Asked for, to be refused.
  for (const char* share :
       {".gradient_share", ".block_share", ".row_share", ".micro_share", ".either_order"})
    if (path.ends_with(share) && path.find(".fp8.") == std::string::npos) return true;
  return path == "search" || path == "sweep";
}

bool is_section(const std::string& path) {
  return std::ranges::any_of(key_catalog(),
                             [&](const Key& key) { return key.path.starts_with(path + "."); });
}

// A value that no reader of that type takes, and what is said about it.
struct Refusal {
  std::string value, text;
};

template <class Quantity>
Refusal without_unit(Parsed<Quantity> (*parse)(std::string_view)) {
  return {"7", std::get<QuantityError>(parse("7")).problem};
}

Refusal refusal_of(const Key& key) {
  switch (key.type) {
    case KeyType::integer:
    case KeyType::number: {
      const double beyond = key.type == KeyType::integer ? 1 : key.greatest.value_or(0);
      const double value = key.greatest ? *key.greatest + beyond : *key.least - 1;
      return {fmt::format("{}", value), "allowed: " + allowed_text(key)};
    }
    case KeyType::boolean:
      return {"7", "expected true or false"};
    case KeyType::word:
      return {"no_such_word", "allowed: " + allowed_text(key)};
    case KeyType::file:
      return {"no/such/file", "there is no file"};
    case KeyType::size:
      return without_unit(parse_bytes);
    case KeyType::bandwidth:
      return without_unit(parse_bandwidth);
    case KeyType::duration:
      return without_unit(parse_duration);
    case KeyType::rate:
      return without_unit(parse_flop_rate);
    case KeyType::long_time:
      return without_unit(parse_time);
    case KeyType::power:
      return without_unit(parse_power);
    case KeyType::money:
      return without_unit(parse_money);
    case KeyType::text:
    case KeyType::list:
      return {};
  }
  return {};
}

}  // namespace

TEST_CASE("every key that a reader asks for is in the catalogue, and the other way round",
          "[catalog]") {
  std::set<std::string> asked;
  for (const test::Host& host : test::hosts()) {
    const test::Answer answer = host.read("", "");
    asked.insert(answer.asked.begin(), answer.asked.end());
  }
  std::vector<std::string> unlisted, unread;
  for (const std::string& path : asked)
    if (find_key(path) == nullptr && !is_section(path) && !is_no_knob(path))
      unlisted.push_back(path);
  for (const Key& key : key_catalog())
    if (asked.count(key.path) == 0) unread.push_back(key.path);
  CAPTURE(unlisted, unread);
  CHECK(unlisted.empty());
  CHECK(unread.empty());
}

TEST_CASE("readers refuse what the catalogue does not allow, in its words", "[catalog]") {
  const std::vector<test::Host> hosts = test::hosts();
  std::map<std::string, std::vector<const test::Host*>> hosts_of;
  for (const test::Host& host : hosts)
    for (const std::string& path : host.read("", "").asked)
      hosts_of[path].push_back(&host);
  int refused = 0;
  for (const Key& key : key_catalog()) {
    const Refusal refusal = refusal_of(key);
    // Its limit depends on the GPUs of a tray.
    if (refusal.value.empty() || key.path == "cluster.change.node.trays") continue;
    CAPTURE(key.path, refusal.value, refusal.text);
    // A reader may ask for a key in order to refuse it: that host says something else.
    const auto refuses = [&](const test::Host* host) {
      const test::Answer answer = host->read(key.path, refusal.value);
      return std::ranges::any_of(answer.problems, [&](const Problem& problem) {
        return problem.what.find(refusal.text) != std::string::npos;
      });
    };
    CHECK(std::ranges::any_of(hosts_of[key.path], refuses));
    ++refused;
  }
  CHECK(refused > 200);
}

TEST_CASE("a default of the catalogue is what a silent file gets", "[catalog]") {
  std::map<std::string, std::string, std::less<>> values;
  for (const char* model : {"gpt2", "mixtral-8x7b", "qwen3-vl-8b"}) {
    const std::string yaml = fmt::format(
        "model: {0}/models/{1}.yaml\ncluster: {{path: {0}/topologies/dgx-h100.yaml, nodes: 8}}\n"
        "layout: {{sequence_length: 1024, global_batch: 64}}\n",
        root, model);
    const Scenario scenario = load_scenario(ScenarioSources::of_text(yaml, root + "/s.yaml"));
    for (auto& [path, value] : current_values(scenario))
      values.insert_or_assign(path, value);
  }
  int compared = 0;
  for (const Key& key : key_catalog()) {
    const bool scenario = !key.only_in_file && !key.path.starts_with("budget.") &&
                          !key.path.starts_with("disturbance.");
    if (!scenario || key.fallback.value.empty() || key.path == "training.learning_rate.peak")
      continue;
    // A schedule of the rate is written only where there is one.
    if (key.path.starts_with("training.learning_rate.")) continue;
    CAPTURE(key.path);
    CHECK(values[key.path] == key.fallback.value);
    ++compared;
  }
  CHECK(compared > 40);
}

TEST_CASE("a default of the catalogue is what a silent budget gets", "[catalog]") {
  const ScenarioSources sources = ScenarioSources::of_text(
      "model: " + root + "/models/gpt2.yaml\ncluster: {path: " + root +
          "/topologies/dgx-h100.yaml, nodes: 8}\nlayout: {sequence_length: 1024, global_batch: "
          "64}\nbudget: {tokens: 1e9, finish_in: 60 d}\n",
      root + "/s.yaml");
  const Budget budget = load_budget(load_scenario(sources), sources);
  int compared = 0;
  for (const Assumption& assumption : budget.assumptions) {
    const Key& key = require_key("budget." + assumption.key);
    if (key.fallback.value.empty()) continue;
    CAPTURE(key.path);
    if (key.type == KeyType::long_time)
      CHECK(std::get<Seconds>(parse_time(assumption.value)) ==
            std::get<Seconds>(parse_time(key.fallback.value)));
    else if (key.type == KeyType::bandwidth)
      CHECK(std::get<Bandwidth>(parse_bandwidth(assumption.value)) ==
            std::get<Bandwidth>(parse_bandwidth(key.fallback.value)));
    else
      CHECK(assumption.value == key.fallback.value);
    ++compared;
  }
  CHECK(compared > 15);
}

TEST_CASE("a default of the catalogue is what a silent disturbance gets", "[catalog]") {
  const Disturbance silent = read_disturbance(
      {root + "/s.yaml", "model: " + root + "/models/gpt2.yaml\ncluster: " + root +
                             "/topologies/dgx-h100.yaml\nlayout: {global_batch: 64}\n"},
      {}, 8);
  const auto fallback = [](const char* key) {
    return require_key(std::string{"disturbance."} + key).fallback.value;
  };
  CHECK(word(silent.preset) == fallback("preset"));
  CHECK(fmt::format("{}", silent.slow_nodes) == fallback("slow_nodes"));
  CHECK(fmt::format("{}", silent.slow_factor) == fallback("slow_factor"));
}

TEST_CASE("the pages of the formats name every key", "[catalog]") {
  const std::map<std::string, std::vector<std::string>> pages{
      {"layout", {"sim/scenario/README.md", "sim/scenario/DEFAULTS.md"}},
      {"simulation", {"sim/scenario/README.md"}},
      {"training", {"sim/scenario/README.md", "sim/scenario/DEFAULTS.md"}},
      {"framework", {"sim/framework/FRAMEWORKS.md"}},
      {"budget", {"sim/economics/README.md"}},
      {"disturbance", {"docs/how-sure.md"}},
      {"model", {"models/FORMAT.md", "sim/scenario/README.md"}},
      {"cluster",
       {"topologies/README.md", "topologies/FORMAT.md", "topologies/devices/README.md",
        "topologies/devices/RULES.md", "topologies/devices/h100_sxm.yaml",
        "sim/scenario/README.md"}},
      {"flops", {"sim/scenario/README.md"}},
      {"name", {"sim/scenario/README.md"}},
      {"notes", {"sim/scenario/README.md"}},
      {"carried", {"sim/scenario/README.md"}}};
  std::map<std::string, std::string> texts;
  for (const auto& [section, files] : pages)
    for (const std::string& name : files) {
      std::ifstream file{fmt::format("{}/{}", root, name)};
      REQUIRE(file);
      texts[section] += std::string{std::istreambuf_iterator<char>{file}, {}};
    }
  for (const Key& key : key_catalog()) {
    const std::string section = key.path.substr(0, key.path.find('.'));
    const std::string leaf = key.path.substr(key.path.rfind('.') + 1);
    CAPTURE(key.path);
    REQUIRE(pages.count(section) == 1);
    CHECK(texts[section].find(leaf) != std::string::npos);
  }
}

TEST_CASE("keys are found by a part of their path and by a pattern", "[catalog]") {
  const auto paths = [](const std::string& pattern) {
    std::vector<std::string> found;
    for (const Key& key : matching_keys(pattern))
      found.push_back(key.path);
    return found;
  };
  CHECK(paths("overlap.ten") ==
        std::vector<std::string>{"layout.overlap.tensor_wgrad", "layout.overlap.tensor_products"});
  CHECK(paths("layout.*tensor*parallel") ==
        std::vector<std::string>{"layout.tensor_parallel", "layout.expert_tensor_parallel"});
  CHECK(paths("layout.*").front() == "layout.tensor_parallel");
  CHECK(paths("no_such").empty());
  CHECK(matching_keys("").size() == key_catalog().size());
  REQUIRE_THROWS_WITH(require_key("layout.tensor_paralel"),
                      "key: error: unknown key 'layout.tensor_paralel'; did you mean "
                      "'layout.tensor_parallel'?");
}

TEST_CASE("a key is printed with its unit, its limits and its default", "[catalog]") {
  const std::vector<Key> keys = matching_keys("layout.zero_stage");
  CHECK(keys_text(keys) ==
        "layout.zero_stage  integer\n    ZeRO stage: shards optimizer states (1), gradients (2), "
        "parameters (3, FSDP)\n    allowed: 0 to 3\n    default: 0\n");
  CHECK(keys_csv(matching_keys("power.pue")) ==
        "key,type,allowed,default,help\nbudget.power.pue,number,1 to 10,1.09,power usage "
        "effectiveness\n");
  CHECK(keys_json(keys).find("\"greatest\": 3.0") != std::string::npos);
}
