// A launch line of Megatron-Bridge: scripts/training/train.sh --recipe NAME key=value, and
// scripts/performance/run_script.py with the parts of a recipe's name.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/config/change.hpp"
#include "sim/interop/handover.hpp"
#include "sim/interop/launch_line.hpp"

namespace sim {

struct BridgeLaunch {
  std::string recipe;
  std::int64_t gpus = 0;  // 0: the line does not say, or it is not known
  std::string sizes;      // "2 x 8"; empty: as gpus
  std::vector<Change> changes;
  std::vector<Note> notes;
  SourcePosition where;
};

// The sections of Megatron-Bridge's configuration, which a line may change where no recipe sets
// them.
std::span<const std::string_view> config_container_sections();

// The lines of a file that start a recipe, in order.
std::vector<BridgeLaunch> bridge_launches(const Launch& launch);

// chosen_launch() is that of `recipe`, or the only one. Throws InputError, at `file`, with their
// names.
BridgeLaunch chosen_launch(const std::vector<BridgeLaunch>& launches, const std::string& file,
                           const std::string& recipe);

// The Python file that has the recipe: beside `file`, or in src/megatron/bridge of a folder above
// it; empty: none.
std::string source_of_recipe(const std::string& file, const std::string& recipe);

// missing_source_text() says what to give where that source is not at hand.
std::string missing_source_text(const BridgeLaunch& launch);

}  // namespace sim
