// The software that a forecast is of.
#pragma once

#include <string>
#include <vector>

#include "sim/scenario/scenario.hpp"

namespace sim {

// Software is what of a framework the kernels, waits and memory of a forecast are those of.
struct Software {
  std::string framework;  // "Megatron-LM"; "framework not named"
  std::string version;    // of its preset; empty: kernels of no one version
  std::string preset;     // "torchtitan 2025", key framework.name and .version
  std::string kernels;    // "layers compiled, loss eager, optimizer eager"
  std::string attention;  // "flash (cuDNN 9)"
  std::string allocator;  // "PyTorch's, segments grow"
  // Keys of `framework` that are not as in the preset: "rms_norm eager".
  std::vector<std::string> unlike_preset;
  // newest is set where no version is named: the newest one, and what of the preset it has
  // otherwise.
  std::string newest;
  std::vector<std::string> newest_has;
};

Software software_of(const Scenario& scenario);

// software_line is all but what differs: "torchtitan without a version (preset torchtitan): layers
// compiled, ...; attention flash (...); allocator PyTorch's, segments grow".
std::string software_line(const Software& software);

// software_differences is a line of what is unlike the preset, and one of what the newest version
// has otherwise; empty where there is nothing.
std::vector<std::string> software_differences(const Software& software);

}  // namespace sim
