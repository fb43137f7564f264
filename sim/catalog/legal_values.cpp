// Legal values of a key: those that may fit are tried, as --set would.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "sim/base/input_error.hpp"
#include "sim/catalog/catalog.hpp"
#include "sim/catalog/values.hpp"
#include "sim/scenario/sources.hpp"
#include "sim/scenario/write_scenario.hpp"

namespace sim {
namespace {

constexpr std::size_t most_tried = 64;

using Numbers = std::vector<std::int64_t>;

Numbers divisors(std::int64_t of) {
  Numbers numbers;
  for (std::int64_t d = 1; d <= of / d; ++d)
    if (of % d == 0) {
      numbers.push_back(d);
      if (d != of / d) numbers.push_back(of / d);
    }
  std::ranges::sort(numbers);
  return numbers;
}

Numbers up_to(std::int64_t first, std::int64_t last) {
  Numbers numbers;
  for (std::int64_t n = first; n <= last; ++n)
    numbers.push_back(n);
  return numbers;
}

// A quarter to four times of what there is, by factors of two.
Numbers around(std::int64_t value) {
  Numbers numbers;
  for (const int factor : {4, 2})
    if (value % factor == 0) numbers.push_back(value / factor);
  for (const int factor : {1, 2, 4})
    numbers.push_back(value * factor);
  return numbers;
}

Numbers gpus(const Scenario& s) {
  return divisors(s.layout.world_size());
}
Numbers stages(const Scenario& s) {
  Numbers numbers = gpus(s);
  std::erase_if(numbers, [&](std::int64_t n) {
    return n > static_cast<std::int64_t>(s.model.layers.size());
  });
  return numbers;
}
Numbers experts(const Scenario& s) {
  return s.model.has_experts() ? divisors(s.model.shape->experts.count) : Numbers{1};
}
Numbers expert_tensor(const Scenario& s) {
  return s.model.has_experts() ? gpus(s) : Numbers{};
}
Numbers chunks(const Scenario& s) {
  const auto layers = static_cast<std::int64_t>(s.model.layers.size());
  return divisors(std::max<std::int64_t>(1, layers / s.layout.pipeline_parallel));
}
Numbers recomputed(const Scenario& s) {
  return divisors(std::max<std::int64_t>(
      1, static_cast<std::int64_t>(s.model.layers.size()) / s.layout.chunks()));
}
Numbers micro_batches(const Scenario& s) {
  return divisors(std::max<std::int64_t>(1, s.layout.global_batch / s.layout.data_parallel));
}
Numbers shard_groups(const Scenario& s) {
  Numbers numbers = divisors(s.layout.replicas());
  numbers.insert(numbers.begin(), 0);
  return numbers;
}
Numbers nodes(const Scenario& s) {
  return around(s.cluster.nodes());
}
Numbers job(const Scenario& s) {
  return around(s.layout.world_size());
}
Numbers node_gpus(const Scenario& s) {
  return up_to(1, s.cluster.node_gpus());
}
Numbers batches(const Scenario& s) {
  return around(s.layout.global_batch);
}
Numbers layers_ahead(const Scenario&) {
  return up_to(0, 4);
}

struct Knob {
  std::string_view path;
  Numbers (*candidates)(const Scenario&);
};
constexpr std::array knobs{Knob{"layout.tensor_parallel", gpus},
                           Knob{"layout.context_parallel", gpus},
                           Knob{"layout.pipeline_parallel", stages},
                           Knob{"layout.data_parallel", gpus},
                           Knob{"layout.expert_parallel", experts},
                           Knob{"layout.expert_tensor_parallel", expert_tensor},
                           Knob{"layout.virtual_stages", chunks},
                           Knob{"layout.micro_batch", micro_batches},
                           Knob{"layout.global_batch", batches},
                           Knob{"layout.shard_group", shard_groups},
                           Knob{"layout.recompute_every", recomputed},
                           Knob{"layout.prefetch_layers", layers_ahead},
                           Knob{"cluster.nodes", nodes},
                           Knob{"cluster.gpus", job},
                           Knob{"cluster.gpus_per_node", node_gpus}};

std::vector<std::string> texts(Numbers numbers) {
  if (numbers.size() > most_tried) numbers.resize(most_tried);
  std::vector<std::string> values;
  for (const std::int64_t number : numbers)
    values.push_back(std::to_string(number));
  return values;
}

std::vector<std::string> candidates(const Scenario& scenario, const Key& key) {
  if (key.type == KeyType::word || key.type == KeyType::boolean)
    return {key.words.begin(), key.words.end()};
  if (key.type != KeyType::integer) return {};
  const auto knob = std::ranges::find(knobs, key.path, &Knob::path);
  if (knob != knobs.end()) return texts(knob->candidates(scenario));
  constexpr double few = 16;
  if (!key.greatest || *key.greatest - *key.least >= few) return {};
  return texts(
      up_to(static_cast<std::int64_t>(*key.least), static_cast<std::int64_t>(*key.greatest)));
}

// problem_of() is what loading says first against `overrides` on top of `yaml`.
std::string problem_of(const std::string& yaml, const std::string& path,
                       const std::vector<std::string>& overrides) {
  try {
    static_cast<void>(load_scenario(ScenarioSources::of_text(yaml, path, overrides)));
    return {};
  } catch (const InputError& error) {
    return error.problems().front().what;
  }
}

}  // namespace

std::vector<LegalValue> legal_values(const Scenario& scenario, std::string_view path,
                                     const std::vector<std::string>& overrides) {
  const Key& key = require_key(path);
  if (key.only_in_file) return {};
  const std::string folder = std::filesystem::path{scenario.path}.parent_path().string();
  const std::string yaml = scenario_yaml(scenario, folder, "");
  std::vector<std::string> set;
  for (const std::string& text : overrides)
    if (text.substr(0, text.find('=')) != key.path) set.push_back(text);
  set.emplace_back();
  std::vector<LegalValue> values;
  for (std::string& value : candidates(scenario, key)) {
    set.back() = fmt::format("{}={}", key.path, value);
    std::string problem = problem_of(yaml, scenario.path, set);
    values.push_back({std::move(value), std::move(problem)});
  }
  return values;
}

}  // namespace sim
