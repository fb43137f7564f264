// The schemes of synchronisation among which `choose` chooses.
#pragma once

#include <string>
#include <vector>

#include "sim/convergence/scheme.hpp"
#include "sim/scenario/scenario.hpp"

namespace sim {

struct SchemeCandidate {
  std::string name;              // "top_k-0.01"
  std::vector<std::string> set;  // "section.key=value", on top of the scenario
  // learns: the keys that change what is learned, as a file of statistical factors has them. None:
  // the same sums in another way.
  std::vector<SchemeKey> learns{};
};

// The scenario as it is, first; then other algorithms of the same all-reduce, compressed gradients,
// local steps. A candidate may turn out not to be possible: its forecast says why.
std::vector<SchemeCandidate> candidates_for(const Scenario& scenario);

// "NAME: KEY=VALUE, KEY=VALUE" of --scheme: all of its keys change what is learned. Throws
// InputError.
SchemeCandidate parse_candidate(const std::string& text);

}  // namespace sim
