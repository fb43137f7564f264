// What followed a knob that was set on top of a scenario file.
#pragma once

#include <string>

namespace sim {

struct Followed {
  std::string key;       // "layout.data_parallel"
  std::string from, to;  // "16", "32"
  std::string why;       // "512 GPUs / (tensor_parallel 4 x pipeline_parallel 4)"
};

// "layout.data_parallel follows: 32 instead of 16 (512 GPUs / ...)"
std::string text_of(const Followed& followed);

}  // namespace sim
