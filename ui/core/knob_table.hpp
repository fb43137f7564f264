// The knobs that are always in sight: layout keys as chips or lists, machine parameters as sliders.
#pragma once

#include <QString>
#include <functional>
#include <string>
#include <vector>

#include "sim/scenario/scenario.hpp"

namespace ui {

// A key of the layout that takes one of a few values.
struct ChoiceKnob {
  std::string key;  // "layout.tensor_parallel"
  QString title;
  QString help;
  bool chips = true;  // side by side; else a list
  // Values worth a look for this scenario, as --set takes them; and the one that holds now.
  std::vector<std::string> (*values)(const sim::Scenario&);
  std::string (*current)(const sim::Scenario&);
  bool (*applies)(const sim::Scenario&);
};

const std::vector<ChoiceKnob>& choice_knobs();

}  // namespace ui
