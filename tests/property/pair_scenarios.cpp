#include "tests/property/pair_scenarios.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/input_error.hpp"
#include "sim/base/random.hpp"
#include "sim/framework/presets/preset.hpp"
#include "sim/scenario/sources.hpp"
#include "tests/support/source_dir.hpp"

namespace sim::test {
namespace {

constexpr std::size_t model_key = 0, framework_key = 1, cluster_key = 2;
constexpr std::size_t first_layout_key = 3;
constexpr int more_values = 24;  // tried beside the pair that a scenario begins with

// "a.b.c" below "a" as nested mappings.
struct Tree {
  std::string value;
  std::map<std::string, Tree> below;
};
void put(Tree& tree, std::string_view path, const std::string& value) {
  const std::size_t dot = path.find('.');
  Tree& next = tree.below[std::string{path.substr(0, dot)}];
  if (dot == std::string_view::npos)
    next.value = value;
  else
    put(next, path.substr(dot + 1), value);
}
void write(const Tree& tree, const std::string& indent, std::string& text) {
  for (const auto& [name, below] : tree.below) {
    text += indent + name + ":" + (below.value.empty() ? "" : " " + below.value) + "\n";
    write(below, indent + "  ", text);
  }
}

bool is_left_out(const PairOptions& options, const std::string& path) {
  if (options.fixed.contains(path)) return true;
  return std::ranges::any_of(options.left_out,
                             [&](const std::string& begin) { return path.starts_with(begin); });
}

}  // namespace

PairOptions all_pairs() {
  PairOptions options;
  for (const SmallModel& model : small_models())
    options.models.push_back(model.yaml);
  for (const Preset& preset : presets())
    options.frameworks.push_back(
        preset.version.empty()
            ? fmt::format("name: {}", word(preset.name))
            : fmt::format("name: {}\n  version: \"{}\"", word(preset.name), preset.version));
  return options;
}

PairScenarios::PairScenarios(std::uint64_t seed, const PairOptions& options)
    : seed_{seed},
      options_{options},
      keys_{{"model", options.models},
            {"framework", options.frameworks},
            {"cluster", options.clusters}} {
  for (KeyValues& key : drawn_keys())
    if (!is_left_out(options, key.path)) keys_.push_back(std::move(key));
  values_of_key_.resize(keys_.size());
  for (std::size_t key = 0; key < keys_.size(); ++key)
    for (const std::string& text : keys_[key].values) {
      values_of_key_[key].push_back(values_.size());
      values_.push_back({key, text});
    }
  met_.resize(values_.size() * values_.size());
}

std::size_t PairScenarios::below(std::size_t sides) {
  return static_cast<std::size_t>(uniform(seed_, 0, draws_++) * static_cast<double>(sides));
}

std::string PairScenarios::text_of(const ChosenValues& chosen) const {
  Tree tree;
  put(tree, "layout.sequence_length", "256");
  put(tree, "layout.global_batch", "32");
  for (const auto& [path, value] : options_.fixed)
    put(tree, path, value);
  std::string framework;
  std::string text = "name: pair\n";
  for (const auto& [key, value] : chosen) {
    const std::string& path = keys_[key].path;
    if (key == model_key)
      text += "model: " + values_[value].text + "\n";
    else if (key == framework_key)
      framework = "  " + values_[value].text + "\n";
    else if (key == cluster_key)
      text += fmt::format("cluster: {{path: {}/topologies/{}.yaml, gpus: {}}}\n",
                          test::source_dir(), values_[value].text, options_.gpus);
    else
      put(tree, path, values_[value].text);
  }
  const Tree forms = std::exchange(tree.below["framework"], {});
  tree.below.erase("framework");
  write(tree, "", text);
  text += "framework:\n" + framework;
  write(forms, "  ", text);
  return text;
}

std::optional<Scenario> PairScenarios::loaded(const ChosenValues& chosen) {
  last_text_ = text_of(chosen);
  try {
    return load_scenario(ScenarioSources::of_text(last_text_, test::source_dir() + "/pair.yaml"));
  } catch (const InputError&) {
    return std::nullopt;
  }
}

void PairScenarios::try_value(ChosenValues& chosen, std::size_t value) {
  ChosenValues more = chosen;
  if (!more.emplace(values_[value].key, value).second) return;
  if (loaded(more)) chosen = std::move(more);
}

void PairScenarios::try_key(ChosenValues& chosen, const std::string& path) {
  for (std::size_t key = 0; key < keys_.size(); ++key) {
    if (keys_[key].path != path) continue;
    const std::vector<std::size_t>& of_key = values_of_key_[key];
    try_value(chosen, of_key[below(of_key.size())]);
  }
}

std::pair<std::size_t, std::size_t> PairScenarios::new_pair() {
  std::pair<std::size_t, std::size_t> pair;
  for (int tries = 0; tries < 100; ++tries) {
    const std::size_t a = below(values_.size()), b = below(values_.size());
    pair = {std::min(a, b), std::max(a, b)};
    if (values_[a].key != values_[b].key && !met_[values_.size() * pair.first + pair.second]) break;
  }
  return pair;
}

void PairScenarios::mark(const ChosenValues& chosen) {
  for (const auto& [key, a] : chosen)
    for (const auto& [other, b] : chosen) {
      if (a >= b) continue;
      const std::size_t at = values_.size() * a + b;
      met_count_ += met_[at] ? 0 : 1;
      met_[at] = true;
    }
}

PairScenario PairScenarios::next() {
  ChosenValues chosen;
  for (std::size_t key = 0; key < first_layout_key; ++key)
    chosen[key] = values_of_key_[key][below(values_of_key_[key].size())];
  const auto [a, b] = new_pair();
  for (const std::size_t value : {a, b})
    if (values_[value].key < first_layout_key) chosen[values_[value].key] = value;
  if (!loaded(chosen)) return next();  // a model that the framework does not run
  // Ranks of every kind, so that what needs them is not always refused.
  for (const char* path : {"layout.pipeline_parallel", "layout.virtual_stages", "layout.schedule",
                           "layout.expert_parallel", "layout.tensor_parallel",
                           "layout.context_parallel", "layout.zero_stage"})
    if (below(2) == 0) try_key(chosen, path);
  try_value(chosen, a);
  try_value(chosen, b);
  for (int i = 0; i < more_values; ++i)
    try_value(chosen, below(values_.size()));
  mark(chosen);
  return {text_of(chosen), std::move(loaded(chosen).value()), chosen};
}

PairScenario PairScenarios::shrunk(PairScenario failing,
                                   const std::function<bool(const Scenario&)>& fails) {
  const ChosenValues all = failing.chosen;
  for (const auto& [key, value] : all) {
    if (key < first_layout_key) continue;
    ChosenValues less = failing.chosen;
    less.erase(key);
    std::optional<Scenario> scenario = loaded(less);
    if (scenario && fails(*scenario)) failing = {text_of(less), std::move(*scenario), less};
  }
  return failing;
}

}  // namespace sim::test
