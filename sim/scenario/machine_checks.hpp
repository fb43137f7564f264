// What a layout asks of the machine, and the machine's files do not have: recorded at the layout's
// keys.
#pragma once

#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"
#include "sim/scenario/layered.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

// Rates of the attention kernels. `top`: of the scenario.
void check_kernels(const Layout& layout, const Model& model, const Device& device,
                   const Layered& top);
// What lies on the host. `section`: the layout.
void check_host(const Layout& layout, const Cluster& cluster, const Layered& section);
// Memory of other GPUs, for products that are cut into pieces.
void check_cut_products(const Layout& layout, const Cluster& cluster, const Layered& section);

}  // namespace sim
