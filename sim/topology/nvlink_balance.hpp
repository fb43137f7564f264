// Whether all GPUs of an imported node have as many NVLinks as each other.
#pragma once

#include <cstdint>
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

// mesh: GPU to GPU; half of a hybrid cube mesh has GPUs of four and of five links. xgmi: a mesh of
// AMD's links.
enum class NvlinkShape : std::uint8_t { mesh, nvswitch, xgmi };

// A machine where a GPU has no NVLink, or fewer to an NVSwitch than the others, is seldom what a
// forecast is for: the GPU has fallen off, or the text is cut. Throws InputError that names the
// GPUs; with `accept`, or where GPUs of a mesh differ, the sentence goes into `warnings`.
void settle_nvlinks(std::span<const NvlinkCount> gpus, NvlinkShape shape, bool accept,
                    std::vector<std::string>& warnings);

}  // namespace sim
