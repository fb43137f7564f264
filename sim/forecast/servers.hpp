// The steady state of workers and parameter servers (Layout::servers).
#pragma once

#include "sim/base/control.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/servers/server_run.hpp"
#include "sim/servers/server_system.hpp"

namespace sim {

// The options of the step of a worker whose exchanges take no time. Workers that differ do so in
// the network.
SimulationOptions options_of_worker(const SimulationOptions& options);

// The queueing network of a plan on a cluster: its messages from `step`, simulated with
// options_of_worker(), its links from the routes between workers and servers. Servers on machines
// of their own take the nodes behind those of the workers. Throws InputError where the cluster says
// nothing of its host, has too few nodes, or has a worker's GPUs on several. REQUIRES:
// plan.layout.has_servers().
ServerSystem server_system(const Plan& plan, const Cluster& cluster,
                           const SimulationOptions& options, const Timeline& step);

ServerRun simulate_servers(const Plan& plan, const Cluster& cluster,
                           const SimulationOptions& options, const Timeline& step,
                           const Control& control);

}  // namespace sim
