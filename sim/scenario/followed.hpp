// Values that followed a knob that was set on top of a scenario file, or that are a framework's
// default.
#pragma once

#include <string>

namespace sim {

struct Followed {
  std::string key;          // "layout.data_parallel"
  std::string from, to;     // "16", "32"
  std::string why;          // "512 GPUs / (tensor_parallel 4 x pipeline_parallel 4)"
  bool is_default = false;  // of a framework preset, in place of the usual one, `from`
};

// "layout.data_parallel follows: 32 instead of 16 (512 GPUs / ...)"
// "layout.zero_stage is 1 instead of 0, the default of nemo 2 (a distributed optimizer)"
std::string text_of(const Followed& followed);

}  // namespace sim
