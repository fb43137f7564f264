// The machine that a row runs on: a cluster file, and what is changed of it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "sim/base/rounding.hpp"
#include "sim/collective/load_cluster.hpp"
#include "sim/rows/run_scenario.hpp"
#include "sim/rows/run_words.hpp"
#include "sim/scenario/node_use.hpp"

namespace sim {
namespace {

enum class Form : std::uint8_t { module, pcie };

struct Part {
  std::string_view gpu;           // lower case, as it stands in the column
  double memory_gb;               // as sold
  std::string_view other_memory;  // a remark in the column that makes it another part
  Form form = Form::module;
};

// Longer names first: "gb200" holds "b200". A remark keeps "h20" from "h200".
constexpr std::array gpu_parts{
    Part{"gb300", 288, ""},
    Part{"gb300", 279, ""},
    Part{"b300", 288, ""},
    Part{"b300", 270, ""},
    Part{"gh200", 96, ""},
    Part{"h100 nvl", 94, ""},
    Part{"h20", 96, "h200"},
    Part{"a800", 80, ""},
    Part{"l40s", 48, ""},
    Part{"l40s", 48, "", Form::pcie},
    Part{"4090", 24, ""},
    Part{"5090", 32, ""},
    Part{"mi300x", 192, ""},
    Part{"mi325x", 256, ""},
    Part{"mi350x", 288, ""},
    Part{"mi355x", 288, ""},
    Part{"gb200", 192, ""},
    Part{"gb200", 186, ""},
    Part{"gb200", 184, ""},
    Part{"b200", 192, ""},
    Part{"b200", 180, ""},
    Part{"h200", 141, ""},
    Part{"h800", 80, ""},
    Part{"h100", 80, "hbm2e"},
    Part{"h100", 96, ""},
    Part{"h100", 80, "", Form::pcie},
    Part{"a100", 80, ""},
    Part{"a100", 40, ""},
    Part{"a100", 80, "", Form::pcie},
    Part{"v100", 32, ""},
};

struct Machine {
  std::string_view gpu;
  double memory_gb;
  double gbps_per_gpu;      // of the NICs of a node, over its GPUs
  std::string_view fabric;  // a word of inter_node_net that asks for this one; empty: any other
  std::string_view file;
  Form form = Form::module;
};

// Fabrics with a word before those without.
constexpr std::array machines{
    Machine{"a100", 80, 200, "", "topologies/dgx-a100-80.yaml"},
    Machine{"a100", 80, 100, "", "validation/machines/a100-80-4x200g.yaml"},
    Machine{"a100", 40, 200, "roce", "topologies/oci-a100.yaml"},
    Machine{"a100", 40, 200, "", "topologies/dgx-a100-40.yaml"},
    Machine{"a100", 40, 50, "efa", "topologies/aws-p4d.yaml"},
    Machine{"a100", 80, 25, "", "topologies/a100-pcie.yaml", Form::pcie},
    Machine{"h100", 80, 400, "efa", "topologies/aws-p5.yaml"},
    Machine{"h100", 80, 400, "roce", "topologies/h100-roce.yaml"},
    Machine{"h100", 80, 200, "tcpx", "topologies/gcp-a3-mega.yaml"},
    Machine{"h100", 80, 100, "tcpx", "topologies/gcp-a3-high.yaml"},
    Machine{"h100", 80, 400, "", "topologies/dgx-h100.yaml"},
    Machine{"h100", 96, 400, "", "validation/machines/h100-hbm2e-400g.yaml"},
    Machine{"h100", 80, 100, "", "topologies/h100-pcie.yaml", Form::pcie},
    Machine{"h200", 141, 400, "efa", "topologies/aws-p5en.yaml"},
    Machine{"h200", 141, 400, "roce", "topologies/h200-roce.yaml"},
    Machine{"h200", 141, 400, "", "topologies/dgx-h200.yaml"},
    Machine{"b200", 192, 400, "efa", "topologies/aws-p6-b200.yaml"},
    Machine{"b200", 192, 400, "roce", "topologies/b200-roce.yaml"},
    Machine{"b200", 192, 400, "", "topologies/dgx-b200.yaml"},
    Machine{"gb200", 192, 400, "", "topologies/gb200-nvl72.yaml"},
    Machine{"gb300", 288, 800, "", "topologies/gb300-nvl72.yaml"},
    Machine{"b300", 288, 800, "", "topologies/dgx-b300.yaml"},
    Machine{"gh200", 96, 200, "", "topologies/gh200-4.yaml"},
    Machine{"h100 nvl", 94, 100, "", "topologies/h100-nvl.yaml"},
    Machine{"h20", 96, 400, "", "topologies/h20-8.yaml"},
    Machine{"h800", 80, 400, "", "topologies/h800-8.yaml"},
    Machine{"a800", 80, 200, "", "topologies/a800-8.yaml"},
    Machine{"l40s", 48, 50, "", "topologies/l40s-8.yaml"},
    Machine{"l40s", 48, 50, "", "topologies/l40s-8.yaml", Form::pcie},
    Machine{"4090", 24, 12.5, "", "topologies/rtx4090-8.yaml"},
    Machine{"5090", 32, 25, "", "topologies/rtx5090-8.yaml"},
    Machine{"mi300x", 192, 400, "", "topologies/mi300x-8.yaml"},
    Machine{"mi325x", 256, 400, "", "topologies/mi325x-8.yaml"},
    Machine{"mi350x", 288, 400, "", "topologies/mi350x-8.yaml"},
    Machine{"mi355x", 288, 400, "", "topologies/mi355x-8.yaml"},
    Machine{"v100", 32, 50, "", "topologies/dgx1-v100.yaml"},
    Machine{"v100", 32, 12.5, "", "topologies/cloud-v100-100g.yaml"},
};

// The number before "GB" or "GiB" in the name of a GPU, in lower case: "80gb", "79.6 GB",
// "b200-sxm-180gb".
std::optional<double> memory_in(const std::string& gpu) {
  for (std::size_t at = gpu.find('g'); at != std::string::npos; at = gpu.find('g', at + 1)) {
    const std::string_view unit = std::string_view{gpu}.substr(at);
    if (!unit.starts_with("gb") && !unit.starts_with("gib")) continue;
    std::size_t end = at;
    while (end > 0 && gpu[end - 1] == ' ')
      --end;
    std::size_t begin = end;
    while (begin > 0 && ((gpu[begin - 1] >= '0' && gpu[begin - 1] <= '9') || gpu[begin - 1] == '.'))
      --begin;
    double value = 0;
    const auto [stop, error] = std::from_chars(gpu.data() + begin, gpu.data() + end, value);
    if (error == std::errc{} && stop == gpu.data() + end && value > 0) return value;
  }
  return std::nullopt;
}

// How far what a table says is from what a part has, as a share of it. Tools print what is left
// beside the driver, in GB or GiB; parts of one name differ by more than a twentieth.
constexpr double same_memory = 0.05;
double apart(double memory, const Part& part) {
  return std::abs(memory - part.memory_gb) / part.memory_gb;
}

const Part& part_of(const RunCells& cells) {
  const std::string gpu = lower_case(cells["gpu"]);
  if (gpu.empty()) throw NotSimulated("gpu is empty");
  std::optional<double> memory = cells.real("gpu_mem_gb");
  if (!memory) memory = memory_in(gpu);
  const Form form = contains(gpu, "pcie") ? Form::pcie : Form::module;
  const Part* best = nullptr;
  for (const Part& part : gpu_parts) {
    if (!contains(gpu, part.gpu) || part.form != form) continue;
    const bool pair = contains(gpu, "nvl-") || contains(gpu, " nvl");
    if (pair && !contains(part.gpu, " nvl")) break;
    if (!part.other_memory.empty() && contains(gpu, part.other_memory)) continue;
    if (best != nullptr && best->gpu != part.gpu) break;  // of a shorter name
    if (!memory) return part;
    if (apart(*memory, part) > same_memory) continue;
    if (best == nullptr || apart(*memory, part) < apart(*memory, *best)) best = &part;
  }
  if (best != nullptr) return *best;
  throw NotSimulated(fmt::format("no device file for the GPU '{}'{}", cells["gpu"],
                                 memory ? fmt::format(" with {:g} GB", *memory) : ""));
}

// One that has the GPU, and the fabric where the row names one that has files of its own.
std::vector<Machine> machines_with(const Part& part, const std::string& fabric) {
  std::vector<Machine> found;
  bool named = false;
  for (const Machine& machine : machines) {
    if (machine.gpu != part.gpu || machine.form != part.form) continue;
    const bool several = contains(part.gpu, "b200") || contains(part.gpu, "b300");
    if (part.memory_gb != machine.memory_gb && !several) continue;
    const bool asks = !machine.fabric.empty();
    if (asks ? !contains(fabric, machine.fabric) : named) continue;
    named = named || asks;
    found.push_back(machine);
  }
  return found;
}

// How far apart two rates are, in either direction.
double distance(double gbps, const Machine& machine) {
  return std::abs(std::log(gbps / machine.gbps_per_gpu));
}

// How many GPUs of a rack a job uses whose table counts trays as nodes: the same share of as few
// racks as hold it, unless that tears groups or trays.
int share_of_rack(const Layout& layout, const NodeRoom& room) {
  const int gpus = layout.world_size(), tray = room.gpus / room.trays;
  if (gpus % tray != 0) throw NotSimulated(fmt::format("{} GPUs are no whole trays", gpus));
  const int racks = divide_up(gpus, room.gpus);
  const bool even = gpus % (racks * tray) == 0;
  if (even && (racks == 1 || keeps_groups_whole(layout, room, gpus / racks))) return gpus / racks;
  return whole_gpus_per_node(layout, room, gpus);
}

int share_of_rack(const RunMachine& machine, const Layout& layout, const NodeRoom& room) {
  if (machine.trays) return share_of_rack(layout, room);
  if (machine.gpus_per_node == room.gpus)
    return whole_gpus_per_node(layout, room, layout.world_size());
  if (machine.gpus_per_node < 2 * room.gpus / room.trays || machine.gpus_per_node > room.gpus)
    throw NotSimulated(fmt::format("gpus_per_node is {}, the racks of {} have {} in trays of {}",
                                   machine.gpus_per_node, machine.file, room.gpus,
                                   room.gpus / room.trays));
  return static_cast<int>(machine.gpus_per_node);
}

}  // namespace

Cluster run_cluster(const RunMachine& machine, const std::string& path, const Layout& layout) {
  Cluster cluster = load_cluster(path, static_cast<int>(machine.nodes), machine.changes);
  if (cluster.trays() == 1) {
    if (cluster.gpus_per_node() == machine.gpus_per_node) return cluster;
    throw NotSimulated(fmt::format("gpus_per_node is {}, the nodes of {} have {}",
                                   machine.gpus_per_node, machine.file, cluster.gpus_per_node()));
  }
  NodeRoom room = room_of(cluster);
  room.nodes = most_nodes;
  const int used = share_of_rack(machine, layout, room);
  const int racks = divide_up(layout.world_size(), used);
  if (racks != cluster.nodes()) cluster = load_cluster(path, racks, machine.changes);
  cluster.use_gpus_per_node(used);
  return cluster;
}

RunMachine run_machine(const RunCells& cells) {
  const Part& part = part_of(cells);
  const std::int64_t gpus = needed(cells, "num_gpus");
  const std::int64_t per_node = needed(cells, "gpus_per_node");
  const std::optional<double> gbps = cells.real("inter_node_gbps_per_gpu");
  // Rows that were computed and not run send no messages either.
  const bool one_node = gpus <= per_node || cells["status"].starts_with("analytic");
  const std::vector<Machine> found = machines_with(part, lower_case(cells["inter_node_net"]));
  if (found.empty()) throw NotSimulated(fmt::format("no cluster file for {} GPUs", cells["gpu"]));
  if (!one_node && !gbps)
    throw NotSimulated("inter_node_gbps_per_gpu is empty, and the run left its node");
  if (gbps && !(*gbps > 0 && *gbps <= 1e5))
    throw NotSimulated(
        fmt::format("inter_node_gbps_per_gpu is {:g}; allowed: up to 100000", *gbps));
  const double rate = gbps.value_or(found.front().gbps_per_gpu);
  const Machine& nearest = *std::ranges::min_element(
      found, {}, [&](const Machine& machine) { return distance(rate, machine); });
  RunMachine machine{.file = std::string{nearest.file},
                     .nodes = divide_up(gpus, per_node),
                     .gpus_per_node = per_node,
                     .trays = false,
                     .changes = {}};
  if (!one_node && distance(rate, nearest) > 0.02)
    machine.changes.cluster.push_back(
        {"node.nics.bandwidth", fmt::format("x{:g}", rate / nearest.gbps_per_gpu)});
  machine.trays = part.gpu.starts_with("gb") && per_node == 4;
  return machine;
}

}  // namespace sim
