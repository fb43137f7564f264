// Checks of what a layout asks of the machine: what the machine's files do not have is recorded at
// the layout's keys.
#pragma once

#include <string_view>

#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"
#include "sim/scenario/layered.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

// formats_without_mxfp8 is what framework.fp8 may be in the place of MXFP8 on a device that does
// not have it; empty: it has, or the job does not ask.
std::string_view formats_without_mxfp8(const Layout& layout, const Execution& runs,
                                       const Device& device);

// MXFP8, and rates of the attention kernels. `top`: the top level of the scenario.
void check_kernels(const Layout& layout, const Model& model, const Device& device,
                   const Layered& top);
// check_host() checks what lies on the host. `section`: the layout.
void check_host(const Layout& layout, const Cluster& cluster, const Layered& section);
// Memory of other GPUs, for products that are cut into pieces.
void check_cut_products(const Layout& layout, const Cluster& cluster, const Layered& section);

}  // namespace sim
