// The unit of FSDP that the root module makes of what no layer holds: embedding, last norm, head.
#pragma once

#include <vector>

#include "sim/program/program.hpp"

namespace sim {

// By parameter bucket.
inline std::vector<bool> in_root_unit(const Program& program) {
  std::vector<bool> in_root(program.parameter_buckets.size());
  for (const Site& site : program.sites) {
    const bool layer = site.place == BlockPlace::layer || site.place == BlockPlace::vision_layer;
    if (!layer && site.bucket < in_root.size()) in_root[site.bucket] = true;
  }
  return in_root;
}

}  // namespace sim
