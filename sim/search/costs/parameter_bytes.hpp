// Least bytes of parameters, their gradients and their optimizer states on one rank, under a
// sharding: on the device and on the host.
#pragma once

#include <cstdint>

#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"

namespace sim {

// Elements that a rank holds before anything is sharded over replicas.
struct ParameterCounts {
  std::int64_t parameters = 0, expert_parameters = 0;
  std::int64_t frozen_bytes = 0;  // beside them: what is not trained, in its own format
};

// Whether ZeRO-3 shares all weights of a stage, so that those of a block are gathered.
bool gathers_weights(const Layout& layout, const ParameterCounts& counts);

// Persistent bytes on the device.
std::int64_t parameter_bytes(const Model& model, const Layout& layout,
                             const ParameterCounts& counts);

// Bytes in the host's memory. Of an optimizer that is there in part: 0, since buckets are rounded.
std::int64_t host_parameter_bytes(const Model& model, const Layout& layout,
                                  const ParameterCounts& counts);

}  // namespace sim
