// The worth of each mechanism of the forecast: the error of every set with one of them switched
// off.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/scores/score.hpp"

namespace sim {

// The scores of all sets without one mechanism; those of the same sets with all of them stand
// beside it.
struct AblationColumn {
  Mechanism without = Mechanism::none;
  std::vector<SetScore> sets;
  SetScore together;  // of the scored rows of all sets
};
struct Ablation {
  std::vector<std::string> sets;        // names
  std::vector<AblationColumn> columns;  // first: nothing switched off
};

// Sets without a scored row are left out. Runs every set once per mechanism.
Ablation ablate(std::span<const MeasuredSet> sets);

std::string ablation_table(const Ablation& ablation);
std::string ablation_markdown(const Ablation& ablation);
std::string ablation_csv(const Ablation& ablation);
std::string ablation_json(const Ablation& ablation);

}  // namespace sim
