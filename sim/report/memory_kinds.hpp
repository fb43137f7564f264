// Kinds of jobs by how their memory is held. The rows that the error of the memory forecast rests
// on have a kind or have it not.
#pragma once

#include <string>
#include <vector>

#include "sim/framework/framework.hpp"
#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"

namespace sim {

// memory_kinds: "framework torchtitan", "experts under torchtitan", "optimizer on the host", ...
std::vector<std::string> memory_kinds(FrameworkName framework, const Layout& layout,
                                      const Model& model);

}  // namespace sim
