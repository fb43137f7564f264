// Which cluster file a row runs on.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "sim/validation/run_scenario.hpp"
#include "sim/validation/run_words.hpp"

namespace sim {
namespace {

struct Part {
  std::string_view gpu;           // lower case, as it stands in the column
  double memory_gb;               // as sold
  std::string_view other_memory;  // a remark in the column that makes it another part
};

// Longer names first: "gb200" holds "b200".
constexpr std::array parts{
    Part{"gb200", 192, ""},    Part{"gb200", 186, ""}, Part{"gb200", 184, ""},
    Part{"b200", 192, ""},     Part{"b200", 180, ""},  Part{"h200", 141, ""},
    Part{"h100", 80, "hbm2e"}, Part{"h100", 96, ""},   Part{"a100", 80, ""},
    Part{"a100", 40, ""},      Part{"v100", 32, ""},
};

struct Machine {
  std::string_view gpu;
  double memory_gb;
  double gbps_per_gpu;      // of the NICs of a node, over its GPUs
  std::string_view fabric;  // a word of inter_node_net that asks for this one; empty: any other
  std::string_view file;
};

constexpr std::array machines{
    Machine{"a100", 80, 200, "", "topologies/dgx-a100-80.yaml"},
    Machine{"a100", 80, 100, "", "validation/machines/a100-80-4x200g.yaml"},
    Machine{"a100", 40, 200, "", "topologies/dgx-a100-40.yaml"},
    Machine{"a100", 40, 50, "efa", "topologies/aws-p4d.yaml"},
    Machine{"h100", 80, 400, "efa", "topologies/aws-p5.yaml"},
    Machine{"h100", 80, 400, "", "topologies/dgx-h100.yaml"},
    Machine{"h100", 80, 200, "tcpx", "topologies/gcp-a3-mega.yaml"},
    Machine{"h100", 96, 400, "", "validation/machines/h100-hbm2e-400g.yaml"},
    Machine{"h200", 141, 400, "", "topologies/dgx-h200.yaml"},
    Machine{"b200", 192, 400, "", "topologies/dgx-b200.yaml"},
    Machine{"gb200", 192, 400, "", "topologies/gb200-nvl72.yaml"},
    Machine{"v100", 32, 50, "", "topologies/dgx1-v100.yaml"},
    Machine{"v100", 32, 12.5, "", "topologies/cloud-v100-100g.yaml"},
};

// "80GB" or "80 GB" in the name of a GPU.
std::optional<double> memory_in(const std::string& gpu) {
  for (const Part& part : parts) {
    const std::string number = fmt::format("{:.0f}", part.memory_gb);
    if (contains(gpu, number + "gb") || contains(gpu, number + " gb")) return part.memory_gb;
  }
  return std::nullopt;
}

const Part& part_of(const RunCells& cells) {
  const std::string gpu = lower_case(cells["gpu"]);
  if (gpu.empty()) throw NotSimulated("gpu is empty");
  std::optional<double> memory = cells.real("gpu_mem_gb");
  if (!memory) memory = memory_in(gpu);
  for (const Part& part : parts) {
    if (!contains(gpu, part.gpu)) continue;
    if (contains(gpu, "pcie") || contains(gpu, "nvl-") || contains(gpu, " nvl")) break;
    if (!part.other_memory.empty() && contains(gpu, part.other_memory)) continue;
    if (!memory || *memory == part.memory_gb) return part;
  }
  throw NotSimulated(fmt::format("no device file for the GPU '{}'{}", cells["gpu"],
                                 memory ? fmt::format(" with {:g} GB", *memory) : ""));
}

}  // namespace

std::string run_cluster_file(const RunCells& cells) {
  const Part& part = part_of(cells);
  const std::string fabric = lower_case(cells["inter_node_net"]);
  const std::optional<double> gbps = cells.real("inter_node_gbps_per_gpu");
  // What was computed and not run sends no messages either.
  const bool one_node = needed(cells, "num_gpus") <= needed(cells, "gpus_per_node") ||
                        cells["status"].starts_with("analytic");
  const Machine* found = nullptr;
  for (const Machine& machine : machines) {
    if (machine.gpu != part.gpu) continue;
    if (part.memory_gb != machine.memory_gb && part.gpu != "b200" && part.gpu != "gb200") continue;
    if (!machine.fabric.empty() && !contains(fabric, machine.fabric)) continue;
    if (gbps && std::abs(*gbps - machine.gbps_per_gpu) < 0.02 * machine.gbps_per_gpu)
      return std::string{machine.file};
    if (!found) found = &machine;
  }
  if (found && one_node) return std::string{found->file};  // no message leaves the node
  if (!gbps) throw NotSimulated("inter_node_gbps_per_gpu is empty, and the run left its node");
  throw NotSimulated(
      fmt::format("no cluster file for {} GPUs with {:g} Gb/s each", cells["gpu"], *gbps));
}

}  // namespace sim
