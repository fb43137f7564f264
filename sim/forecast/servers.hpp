// What workers and parameter servers settle to (Layout::servers).
#pragma once

#include "sim/base/control.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/servers/server_run.hpp"
#include "sim/servers/server_system.hpp"

namespace sim {

// The queueing network of a plan on a cluster: its messages from a simulated step without an
// exchange, its links from the routes between workers and servers. Servers on machines of their own
// take the nodes behind those of the workers. Throws InputError where the cluster says nothing of
// its host, or has too few nodes. REQUIRES: plan.layout.has_servers().
ServerSystem server_system(const Plan& plan, const Cluster& cluster,
                           const SimulationOptions& options, const Control& control = {});

ServerRun simulate_servers(const Plan& plan, const Cluster& cluster,
                           const SimulationOptions& options, const Control& control);

}  // namespace sim
