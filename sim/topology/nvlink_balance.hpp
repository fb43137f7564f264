// Whether all GPUs of an imported node have as many NVLinks as each other.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/base/input_error.hpp"

namespace sim {

struct NvlinkCount {
  std::string gpu{};  // "gpu 2 (busid 0010:06:00.0)"
  int links = 0;      // to an NVSwitch, or to other GPUs together
  SourcePosition at{};
};

// A machine whose GPUs differ is seldom what a forecast is for: a GPU has fallen off, or the text
// is cut. Throws InputError that names the GPUs; with `accept` the sentence goes into `warnings`.
void settle_nvlinks(std::span<const NvlinkCount> gpus, bool accept,
                    std::vector<std::string>& warnings);

}  // namespace sim
