// The machine: nodes of devices, NICs, and the fabric between them, as links with routes.
//
// A cluster is a node template (a small Boost graph: GPUs, NVSwitches or NVLink peers, PCIe
// switches, NICs) repeated `nodes` times, and a fabric graph of switches to which the NIC ports
// attach. A route is found by shortest path within the template and within the fabric and is the
// concatenation: GPU -> ... -> NIC -> leaf -> ... -> leaf -> NIC -> ... -> GPU. Where the fabric
// offers several equally short paths, traffic spreads evenly over all of them (adaptive routing,
// the default) or takes one by a hash of the endpoints (static ECMP).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/ids.hpp"
#include "sim/base/units.hpp"
#include "sim/topology/device.hpp"

namespace sim {

inline constexpr int most_nodes = 131'072;  // of a cluster, in its file or in a scenario

// xgmi: AMD's Infinity Fabric between GPUs.
enum class LinkKind : std::uint8_t { nvlink, xgmi, pcie, socket, nic, fabric };
constexpr auto words_of(LinkKind) {
  return std::array{Word{LinkKind::nvlink, "nvlink"}, Word{LinkKind::xgmi, "xgmi"},
                    Word{LinkKind::pcie, "pcie"},     Word{LinkKind::socket, "socket"},
                    Word{LinkKind::nic, "nic"},       Word{LinkKind::fabric, "fabric"}};
}
// Links that join GPUs directly, beside PCIe.
constexpr bool joins_gpus(LinkKind kind) {
  return kind == LinkKind::nvlink || kind == LinkKind::xgmi;
}

// One direction of a link, or of a bundle of equal parallel links that share traffic evenly.
// Capacity: what NVLink and PCIe carry as payload (NCCL's usable rates), but the line rate of NICs
// and fabric links, of which NetworkTraits::network_efficiency is payload.
struct Link {
  LinkKind kind = LinkKind::nvlink;
  Bandwidth capacity{};
  Duration latency{};
};

// One use of a link by a route. `share` is the part of the traffic that takes it, in 1/65536: 65536
// on a single path, less where paths split.
struct Hop {
  LinkId link;
  std::uint32_t share = 65536;
};

// In the order of NCCL's path classes: up to nvlink, GPUs reach each other without PCIe.
enum class PathKind : std::uint8_t { same_device, xgmi, nvlink, pcie, socket, network };
constexpr auto words_of(PathKind) {
  return std::array{Word{PathKind::same_device, "same_device"}, Word{PathKind::xgmi, "xgmi"},
                    Word{PathKind::nvlink, "nvlink"},           Word{PathKind::pcie, "pcie"},
                    Word{PathKind::socket, "socket"},           Word{PathKind::network, "network"}};
}

struct Route {
  std::vector<Hop> hops;
  Duration latency{};     // sum of the links' latencies on one path
  Bandwidth bandwidth{};  // smallest capacity / share over the hops
  PathKind kind = PathKind::same_device;
  std::size_t pool = 0;  // of both ends, as Cluster::of_group() says
};

// A measured curve of one collective on a group shape: it beats any formula within its range.
struct MeasuredPoint {
  Bytes size{};
  Duration time{};
};
struct MeasuredCurve {
  std::string collective;  // word of CollectiveKind, or "send_receive"
  int ranks = 0;
  int nodes = 0;
  std::string algorithm;  // word of Algorithm; empty: what the library chooses by itself
  std::string source;
  std::vector<MeasuredPoint> points;  // ascending size
};

inline constexpr int latest_nccl = 230;  // 100 times the major version, and the minor: 2.30

struct NetworkTraits {
  std::string cpu_vendor;       // "intel" or "amd": NCCL's tuning depends on it
  bool nvls = false;            // NVSwitch reduces in the switch (NVLink SHARP)
  bool sharp = false;           // the fabric reduces in its switches
  Duration network_overhead{};  // of a network message at each end: proxy, transport
  Duration simple_overhead{};   // more of a hop between nodes under NCCL's Simple protocol
  // Settings of the network's tuner for collectives between nodes: LL up to one size, LL128 up to
  // the other (0: never), Simple above. Empty: NCCL chooses.
  std::optional<Bytes> most_ll{}, most_ll128{};
  bool nvls_tree = true;          // NVLS within nodes may go on as a tree between them
  bool merged_nics = false;       // the network's plugin shows the NICs of a GPU as one
  int nccl = latest_nccl;         // version of NCCL that the jobs run
  double network_efficiency = 1;  // payload share of the line rate (headers, protocol)
  int nics_per_node = 0;
  Bandwidth nic_rate{};  // line rate of the slowest NIC
};

// The host of a node: what offloaded states cost. Zero: not said.
struct HostTraits {
  Bytes memory{};                       // of a node
  Bandwidth bandwidth{};                // of a node's memory, all sockets
  Bandwidth disk_read{}, disk_write{};  // of a node's NVMe
  Bytes disk{};
  std::string source;
};

struct LinkFault {
  // The links: "node 3 nic 1", "node 3 gpu 2 nvlink", or "fabric NAME" as `topo` prints them.
  std::string where;
  double factor = 0;  // of the capacity that is left; 0: dead
  bool operator==(const LinkFault&) const = default;
};

// What-ifs: values of the cluster file and of its device file replaced.
struct ClusterChanges {
  std::vector<Change> cluster, device;
  bool empty() const { return cluster.empty() && device.empty(); }
  bool operator==(const ClusterChanges&) const = default;
};

class Cluster {
 public:
  // Reads a cluster file (topologies/*.yaml). `nodes` overrides the number of nodes of the file.
  // With changes it has no measured curves, which are of the machine as the file has it:
  // load_cluster() of sim/collective carries them over. Throws InputError.
  static Cluster load(const std::string& path, std::optional<int> nodes = std::nullopt,
                      const ClusterChanges& changes = {});

  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;
  ~Cluster();

  const std::string& name() const;
  // The device, network, host, measured curves and not_validated() are those of the pool that this
  // view is of, see of_pool(); of several pools together, the weaker figure of each pair.
  const Device& device() const;
  int nodes() const;  // of the job: all of the machine, or those of use_nodes()
  int machine_nodes() const;
  // Where node n of the job stands: the number of the machine's node, in the order of the fabric.
  int place_of(int node) const {
    return places_ ? (*places_)[static_cast<std::size_t>(node)] : node;
  }
  // The machine's nodes that the job has, in the order of its ranks. Empty: all.
  const std::vector<int>& places() const;
  // "node40", or the name that the file's `node_names` has for the machine's node.
  std::string node_name(int place) const;
  // GPUs of a node that are used; GPU g of the cluster is GPU g % gpus_per_node() of its node, the
  // rest is idle. All of them until use_gpus_per_node() says otherwise.
  int gpus_per_node() const { return used_gpus_; }
  int node_gpus() const;  // that every node has
  int trays() const;      // that share the NVSwitch of a node: 18 of an NVL72 rack, else 1
  int gpus() const { return nodes() * gpus_per_node(); }
  int node_of(GpuId gpu) const { return static_cast<int>(gpu.value) / gpus_per_node(); }
  const NetworkTraits& network() const;
  const HostTraits& host() const;
  // The rate at which a GPU can copy to its host's memory, or from it, while all GPUs of the node
  // do. Zero: no path.
  Bandwidth host_copy() const;
  std::span<const MeasuredCurve> measured() const;
  // `source`: how the curves were obtained, for sources().
  void set_measured(std::vector<MeasuredCurve> curves, std::string source);
  std::vector<MeasuredCurve> take_measured();       // none are left
  const std::vector<std::string>& sources() const;  // provenance lines for reports
  // The basis of the file's figures where no measurement of this machine stands behind them. Empty:
  // validated. The device has a text of its own.
  const std::string& not_validated() const;

  std::uint32_t link_count() const;
  const Link& link(LinkId id) const;
  std::string link_name(LinkId id) const;  // "node 3 gpu 2 -> nvswitch", "leaf 7 -> spine (x8)"

  // Links are numbered by nodes of the machine: link k of node n is n * links_per_node() + k; those
  // of the fabric follow. Nodes are copies of one template, so what holds within one holds within
  // another, as long as no fault has changed a link of it.
  std::uint32_t links_per_node() const;
  bool node_as_built(int node) const;  // of the job

  // The route of a message. Cheap (no search: tables); throws InputError when faults cut it.
  Route route(GpuId from, GpuId to) const;

  // Applies link faults; later routes avoid dead links where another path is left.
  // Throws std::invalid_argument for a place that does not exist, naming what does.
  void apply(const LinkFault& fault);

  // REQUIRES: 1 to node_gpus().
  void use_gpus_per_node(int gpus);
  // Gives the job these nodes of the machine, in the order of its ranks.
  // REQUIRES: at least one, each less than machine_nodes(), none twice.
  void use_nodes(std::vector<int> places);
  // This machine with another number of GPUs used per node, or other nodes. It refers to this
  // cluster, which must outlive it, and takes no faults of its own.
  Cluster with_gpus_per_node(int gpus) const;
  Cluster with_nodes(std::vector<int> places) const;

  // Pools are nodes of one kind each, one after another: one, unless the file has `pools`.
  std::size_t pools() const;
  std::size_t pool_of(GpuId gpu) const;
  // The name of the file that describes the pool's nodes.
  const std::string& pool_name(std::size_t pool) const;
  // The pool that this view is of; pools(): all of them together.
  std::size_t pool() const { return pool_; }
  // This machine with the device, network, host and measured curves of one pool, or of all pools
  // together. It refers to this cluster as with_gpus_per_node() does.
  Cluster of_pool(std::size_t pool) const;
  // Whether this view is of several pools whose GPUs are not of one generation.
  bool generations_differ() const;
  // As of_pool(), of the pool that holds all of the GPUs.
  Cluster of_group(std::span<const GpuId> gpus) const;

  struct Data;  // defined in cluster_data.hpp, for the builders and tests
  const Data& data() const;

 private:
  explicit Cluster(std::unique_ptr<Data> data);
  explicit Cluster(Data* shared);
  void finish_route(Route& route) const;
  void degrade(LinkId id, double factor);
  std::unique_ptr<Data> owned_;  // empty: another cluster's
  Data* data_ = nullptr;
  std::size_t pool_ = 0;
  int used_gpus_ = 0;
  std::shared_ptr<const std::vector<int>> places_;  // null: all nodes
};

}  // namespace sim
