#include "sim/forecast/unmoved.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "sim/base/input_error.hpp"
#include "sim/base/quantity.hpp"
#include "sim/collective/load_cluster.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/topology/transport.hpp"

namespace sim {
namespace {

constexpr std::string_view of_cluster = "cluster.change.";
constexpr std::string_view of_device = "cluster.device.";

// Keys and why they do not move a step. A key that ends in a dot stands for its section.
struct Timeless {
  std::string_view key, why;
};
constexpr std::array timeless{
    Timeless{"memory", "it decides what fits, not how long a step takes"},
    Timeless{"reserved.", "it decides what fits, not how long a step takes"},
    Timeless{"tdp_watts", "it is energy, which `stepcast budget` counts"},
    Timeless{"l2", "only loops over one kernel find their operands there, which `calibrate` runs"},
    Timeless{"short_loops.burst", "only loops over one kernel run so fast, which `calibrate` runs"},
    Timeless{"short_loops.burst_half",
             "only loops over one kernel run so fast, which `calibrate` runs"},
};

// Device keys, and the kernels that depend on them.
struct OfKernels {
  std::string_view key;
  std::string_view what;  // "matrix product in fp8"
  std::function<bool(const Kernel&)> uses;
};

bool has_products(const Kernel& kernel) {
  return kernel.kind == OpKind::gemm ||
         (kernel.kind == OpKind::attention && !is_flash(kernel.attention));
}

std::vector<OfKernels> kernel_keys() {
  std::vector<OfKernels> all;
  for (const auto& dtype : words_of(DType{}))
    all.push_back({dtype.text, "product", [value = dtype.value](const Kernel& kernel) {
                     return kernel.dtype == value &&
                            (has_products(kernel) || kernel.kind == OpKind::attention ||
                             kernel.kind == OpKind::generic);
                   }});
  const auto flash = [](AttentionKernel wanted) {
    return [wanted](const Kernel& kernel) {
      return kernel.kind == OpKind::attention && kernel.attention == wanted;
    };
  };
  const auto kind = [](OpKind wanted) {
    return [wanted](const Kernel& kernel) { return kernel.kind == wanted; };
  };
  const auto norm = [](bool backward) {
    return [backward](const Kernel& kernel) {
      return kernel.kind == OpKind::norm && (kernel.part == AttentionPart::backward) == backward;
    };
  };
  all.push_back({"attention.", "attention by its fastest kernels", flash(AttentionKernel::flash)});
  all.push_back(
      {"flash_attention_1.", "attention by FlashAttention 1", flash(AttentionKernel::flash_1)});
  all.push_back(
      {"flash_attention_2.", "attention by FlashAttention-2", flash(AttentionKernel::flash_2)});
  all.push_back({"memory_kernels.softmax", "unfused attention", [](const Kernel& kernel) {
                   return kernel.kind == OpKind::attention && !is_flash(kernel.attention);
                 }});
  all.push_back({"memory_kernels.optimizer", "optimizer", kind(OpKind::optimizer)});
  all.push_back({"memory_kernels.norm_forward", "norm", norm(false)});
  all.push_back({"memory_kernels.norm_backward", "backward pass of a norm", norm(true)});
  all.push_back({"memory_kernels.strided", "strided tensor",
                 [](const Kernel& kernel) { return kernel.strided.count() > 0; }});
  const auto scan = [](bool backward) {
    return [backward](const Kernel& kernel) {
      return kernel.kind == OpKind::scan && (kernel.part == AttentionPart::backward) == backward;
    };
  };
  all.push_back({"memory_kernels.scan_forward", "forward pass of a scan", scan(false)});
  all.push_back({"memory_kernels.scan_backward", "backward pass of a scan", scan(true)});
  all.push_back({"memory_kernels.transposed", "transposed tensor",
                 [](const Kernel& kernel) { return kernel.transposed.count() > 0; }});
  return all;
}

bool matches(std::string_view key, std::string_view pattern) {
  return pattern.ends_with('.') ? key.starts_with(pattern) : key == pattern;
}

bool any_kernel(const Plan& plan, const std::function<bool(const Kernel&)>& uses) {
  return std::any_of(plan.programs.begin(), plan.programs.end(), [&](const Program& program) {
    return std::any_of(program.kernels.begin(), program.kernels.end(), uses);
  });
}

std::string why_of_device(const Scenario& scenario, const Plan& plan, std::string_view key) {
  for (const Timeless& item : timeless)
    if (matches(key, item.key)) return std::string{item.why};
  const bool of_products = key.starts_with("gemm.");
  const std::string_view dtype = of_products ? key.substr(5, key.find('.', 5) - 5) : key;
  for (const OfKernels& item : kernel_keys()) {
    if (!(of_products ? dtype == item.key : matches(key, item.key))) continue;
    if (any_kernel(plan, item.uses)) continue;
    return of_products ? fmt::format("no product of this step is in {}", dtype)
                       : fmt::format("this step has no {}", item.what);
  }
  const Device& device = scenario.cluster.device();
  if (key == "host_issue") return "kernels take longer than the host needs to issue them";
  if (key == "memory_kernels.per_sm")
    return fmt::format("memory_bandwidth's {} bounds it", to_text(device.memory_bandwidth));
  if (key.starts_with("operand_feed."))
    return "the rate of the tensor cores bounds the tiles of all products";
  if (key == "short_loops.l2_bandwidth") return "no product is cut along K and added up in L2";
  if (key == "communication.compute_share" || of_products)
    return "nothing waits for it: what runs beside it takes longer";
  return "nothing waits for it: another limit of the same kernels takes longer";
}

// --- links -------------------------------------------------------------------------------------

struct OfLinks {
  std::string_view key;
  LinkKind kind;
};
constexpr std::array links{OfLinks{"node.nvlink.", LinkKind::nvlink},
                           OfLinks{"node.xgmi.", LinkKind::xgmi},
                           OfLinks{"node.pcie.", LinkKind::pcie},
                           OfLinks{"node.memory.", LinkKind::pcie},
                           OfLinks{"node.c2c", LinkKind::pcie},
                           OfLinks{"node.sockets.", LinkKind::socket},
                           OfLinks{"node.nics.", LinkKind::nic},
                           OfLinks{"fabric.per_node_limit", LinkKind::nic},
                           OfLinks{"fabric.switch_latency", LinkKind::nic},
                           OfLinks{"fabric.", LinkKind::fabric},
                           OfLinks{"network.", LinkKind::nic},
                           OfLinks{"transport.", LinkKind::nic}};

std::string_view title(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink:
      return "NVLink";
    case LinkKind::xgmi:
      return "xGMI";
    case LinkKind::pcie:
      return "PCIe";
    case LinkKind::socket:
      return "the link between sockets";
    case LinkKind::nic:
      return "the NIC";
    case LinkKind::fabric:
      return "the fabric";
  }
  return "?";
}

// GPU 0 to others of the job: of its node, of the next node, of the last.
std::vector<Route> sample_routes(const Cluster& cluster, int ranks) {
  const int per_node = cluster.gpus_per_node();
  std::vector<int> others{1, per_node / 2, per_node - 1, per_node, ranks - 1};
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  std::vector<Route> routes;
  for (const int other : others)
    if (other > 0 && other < ranks && other < cluster.gpus())
      routes.push_back(cluster.route(GpuId{0}, GpuId{static_cast<std::uint32_t>(other)}));
  return routes;
}

struct Bound {
  LinkKind kind = LinkKind::nvlink;
  double payload = std::numeric_limits<double>::infinity();  // bytes/s of the whole message
};

Bound bound_of(const Cluster& cluster, const Route& route) {
  Bound bound;
  for (const Hop& hop : route.hops) {
    const Link& link = cluster.link(hop.link);
    const bool network = link.kind == LinkKind::nic || link.kind == LinkKind::fabric;
    const double wire = cluster.network().network_efficiency / path_quality(cluster, route).sends;
    const double payload =
        link.capacity.in_bytes_per_second() * 65536 / hop.share * (network ? wire : 1);
    if (payload < bound.payload) bound = {link.kind, payload};
  }
  return bound;
}

bool takes(const Cluster& cluster, const Route& route, LinkKind kind) {
  return std::any_of(route.hops.begin(), route.hops.end(),
                     [&](const Hop& hop) { return cluster.link(hop.link).kind == kind; });
}

// Keys of counts and sizes, which no rate of a route bounds. A key that ends in a dot stands for
// its section.
constexpr std::array counts{
    Timeless{"nodes", "the scenario's cluster.nodes says how many"},
    Timeless{"node.sockets.count", "no route within a node gets longer or narrower by it"},
    Timeless{"node.pcie.switches", "no route within a node gets longer or narrower by it"},
    Timeless{"network.tuner.",
             "no collective between nodes has a size for which it changes NCCL's "
             "choice"},
    Timeless{"fabric.nodes_per_leaf", "no message of this job climbs more or fewer switches by it"},
    Timeless{"fabric.radix", "no message of this job climbs more or fewer switches by it"},
    Timeless{"fabric.leaves_per_pod", "no message of this job climbs more or fewer switches by it"},
    Timeless{"fabric.groups", "no message of this job crosses more or fewer groups by it"},
    Timeless{"fabric.global_links_per_router", "the links between groups bound no message"},
    Timeless{"transport.retries",
             "it decides when a connection fails, which `stepcast budget` counts"},
};

// Whether a message of the job leaves its pod, and so climbs to the core of the fabric.
bool leaves_pod(const Cluster& cluster, const std::vector<Route>& routes) {
  return std::any_of(routes.begin(), routes.end(), [&](const Route& route) {
    return std::any_of(route.hops.begin(), route.hops.end(), [&](const Hop& hop) {
      return cluster.link(hop.link).kind == LinkKind::fabric &&
             cluster.link_name(hop.link).find("core") != std::string::npos;
    });
  });
}

std::string why_of_host(const Layout& layout, std::string_view key) {
  if (layout.outer_on_host)
    return "the outer state is copied over the path to the host, which is slower than its memory";
  if (!layout.uses_host()) return "nothing is offloaded: layout.offload.optimizer is none";
  if (key == "host.memory" || key == "host.nvme.capacity")
    return "it decides what fits, not how long a step takes";
  if (key.starts_with("host.nvme.") && !layout.uses_disk())
    return layout.offloads()
               ? "states are offloaded to the host's memory: layout.offload.optimizer is cpu"
               : "activations are offloaded to the host's memory";
  if (!layout.offloads()) return "the host updates nothing: layout.offload.optimizer is none";
  return "a process updates at framework.host_update, and that is less than its share of it";
}

std::string why_of_cluster(const Scenario& scenario, const Plan& plan, std::string_view key) {
  for (const Timeless& item : counts)
    if (matches(key, item.key)) return std::string{item.why};
  if (key.starts_with("host.")) return why_of_host(scenario.layout, key);
  const auto known = std::find_if(links.begin(), links.end(),
                                  [&](const OfLinks& item) { return key.starts_with(item.key); });
  if (known == links.end()) return "nothing of this step depends on it";
  const Cluster& cluster = scenario.cluster;
  const int ranks = plan.world_size();
  const bool between = known->kind == LinkKind::nic || known->kind == LinkKind::fabric;
  if (between && ranks <= cluster.gpus_per_node()) return "the job stays on one node";
  if (const Transport& transport = transport_of(cluster);
      key.starts_with("transport.") && transport.nic_loss == 0 && transport.fabric_loss == 0)
    return key == "transport.window" || transport.window > Bytes{}
               ? "no packet is lost, and the window bounds no message"
               : "no packet is lost: transport.loss is 0";
  const std::vector<Route> routes = sample_routes(cluster, ranks);
  if (key == "fabric.pod_oversubscription" && !leaves_pod(cluster, routes))
    return "no message of this job leaves its pod";
  std::optional<Bound> bound;
  bool used = false, itself = false;
  for (const Route& route : routes) {
    if (!takes(cluster, route, known->kind)) continue;
    used = true;
    const Bound here = bound_of(cluster, route);
    itself = itself || here.kind == known->kind;
    if (!bound || here.payload < bound->payload) bound = here;
  }
  if (!used) return fmt::format("no message of this job takes {}", title(known->kind));
  if (key.ends_with("latency") || key.ends_with("overhead"))
    return between ? "NCCL's own constants hold 4.75 us of a path through the network, and this "
                     "one is no longer"
                   : "NCCL's own latency of a hop is longer";
  if (!itself && bound)
    return fmt::format("{}'s {} bounds it", title(bound->kind),
                       to_text(Bandwidth::bytes_per_second(bound->payload)));
  return "nothing waits for it: what runs beside it takes longer";
}

// Whether a value is changed with one that says the same (coupled_changes()).
bool has_follower(const std::vector<Change>& all, std::string_view key) {
  const std::string_view follower = key == "node.nvlink.rate" ? "node.nvlink.usable"
                                    : key == "node.xgmi.rate" ? "node.xgmi.usable"
                                    : key == "node.pcie.generation" || key == "node.pcie.lanes"
                                        ? "node.pcie.bandwidth"
                                        : "";
  return std::any_of(all.begin(), all.end(),
                     [&](const Change& change) { return change.key == follower; });
}

// The step without one of the changes; nothing where the file without it is none.
std::optional<Duration> step_without(const Scenario& scenario, const Plan& plan,
                                     const ClusterChanges& changes, const Control& control) {
  try {
    const std::vector<int>& places = scenario.cluster.places();
    std::optional<int> nodes;  // of the file
    if (places.empty()) nodes = scenario.cluster.nodes();
    Cluster cluster = load_cluster(scenario.cluster_path, nodes, changes);
    if (!places.empty()) {
      if (*std::ranges::max_element(places) >= cluster.machine_nodes()) return std::nullopt;
      cluster.use_nodes(places);
    }
    if (cluster.gpus() < plan.world_size()) return std::nullopt;
    for (const LinkFault& fault : scenario.faults)
      cluster.apply(fault);
    SimulationOptions options = scenario.options;
    options.record_all = false;
    options.record_spans = false;
    options.fold = true;  // exact, and only the time is asked for
    return simulate(plan, cluster, options, control).timeline.end.time_since_epoch();
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace

std::string why_unmoved(const Scenario& scenario, const Plan& plan, std::string_view key) {
  if (key.starts_with(of_device))
    return why_of_device(scenario, plan, key.substr(of_device.size()));
  if (key.starts_with(of_cluster))
    return why_of_cluster(scenario, plan, key.substr(of_cluster.size()));
  return "nothing of this step depends on it";
}

void note_unmoved(Report& report, const Scenario& scenario, const Plan& plan,
                  const Control& control) {
  const auto look_at = [&](std::string_view prefix, std::vector<Change> ClusterChanges::*list) {
    const std::vector<Change>& all = scenario.changes.*list;
    for (std::size_t i = 0; i < all.size(); ++i) {
      ClusterChanges others = scenario.changes;
      (others.*list).erase((others.*list).begin() + static_cast<std::ptrdiff_t>(i));
      if (has_follower(all, all[i].key)) continue;  // which speaks for both
      if (step_without(scenario, plan, others, control) != report.step_time) continue;
      const std::string key = fmt::format("{}{}", prefix, all[i].key);
      report.unmoved.push_back({key, all[i].value, why_unmoved(scenario, plan, key)});
    }
  };
  look_at(of_cluster, &ClusterChanges::cluster);
  look_at(of_device, &ClusterChanges::device);
}

}  // namespace sim
