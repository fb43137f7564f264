// Values of a scenario by their keys, as text that --set takes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/scenario.hpp"

namespace sim {

// By path. A key is absent where it has no value here: experts of a model without them, what the
// cluster file leaves out, the section `budget`. Paths of files are relative to the working folder,
// as in --set. Reads the cluster's file and its device's.
std::map<std::string, std::string, std::less<>> current_values(const Scenario& scenario);

// The same of one key. Throws InputError where there is no such key.
std::optional<std::string> current_value(const Scenario& scenario, std::string_view key);

struct LegalValue {
  std::string value;
  std::string problem;  // why it is illegal here; empty: it is legal
  bool is_legal() const { return problem.empty(); }
};

// Legal values that `key` may be set to on top of the scenario, while what follows it follows
// (--set): all words of a word, true and false, and of an integer those that may fit (of
// tensor_parallel the divisors of the GPUs), each tried. `overrides` stand beside it and do not
// follow. Empty for numbers, quantities, text, and integers that are free within their limits: Key
// has these. Throws InputError where there is no such key.
std::vector<LegalValue> legal_values(const Scenario& scenario, std::string_view key,
                                     const std::vector<std::string>& overrides = {});

}  // namespace sim
