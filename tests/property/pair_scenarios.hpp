// Scenarios in which every two values of keys meet: a covering array, drawn by seed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/scenario/scenario.hpp"
#include "tests/property/key_values.hpp"

namespace sim::test {

struct PairOptions {
  std::vector<std::string> models;           // as values of a scenario's key `model`
  std::vector<std::string> frameworks;       // as lines of its section `framework`
  std::map<std::string, std::string> fixed;  // keys that every scenario has
  std::vector<std::string> left_out;         // keys not drawn, by the begin of their paths
  std::vector<std::string> clusters = {"dgx-h100", "dgx-b200"};
  int gpus = 16;
};
// All small models, presets and keys.
PairOptions all_pairs();

// Indices of values by the indices of their keys.
using ChosenValues = std::map<std::size_t, std::size_t>;

struct PairScenario {
  std::string yaml;  // enough to do it again; its cluster is a shipped one
  Scenario scenario;
  ChosenValues chosen;
};

// Draws one scenario after another. Each grows from a model, a framework and a pair of values that
// have not met, by values that loading accepts beside those it has. A pure function of the seed.
class PairScenarios {
 public:
  PairScenarios(std::uint64_t seed, const PairOptions& options);

  // Throws what loading a scenario throws, but for InputError, which is a refusal.
  PairScenario next();
  // With as few values as still fail: `fails` is asked of scenarios with one value less.
  PairScenario shrunk(PairScenario failing, const std::function<bool(const Scenario&)>& fails);
  // The scenario that is being drawn, for the message of a failure.
  const std::string& last_text() const { return last_text_; }

  std::size_t values() const { return values_.size(); }
  std::size_t pairs_met() const { return met_count_; }

 private:
  struct Value {
    std::size_t key;
    std::string text;
  };

  std::size_t below(std::size_t sides);
  std::string text_of(const ChosenValues& chosen) const;
  std::optional<Scenario> loaded(const ChosenValues& chosen);
  void try_value(ChosenValues& chosen, std::size_t value);
  void try_key(ChosenValues& chosen, const std::string& path);
  std::pair<std::size_t, std::size_t> new_pair();
  void mark(const ChosenValues& chosen);

  std::uint64_t seed_, draws_ = 0;
  PairOptions options_;
  std::vector<KeyValues> keys_;  // the first three: the model, the framework, the cluster
  std::vector<Value> values_;
  std::vector<std::vector<std::size_t>> values_of_key_;
  std::vector<bool> met_;  // by values_.size() * a + b, a < b
  std::size_t met_count_ = 0;
  std::string last_text_;
};

}  // namespace sim::test
