// In which order a job's nodes take the ranks: orders to try, and files of launchers with one.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

struct NamedOrder {
  std::string name;
  std::vector<int> places;  // of the nodes, in the order of the ranks
};

// Orders of the cluster's nodes that may differ in time, each once: as given; by leaf; fullest
// leaves first; reversed; and dealt out so that nodes `stride` apart are at one leaf, for each of
// `strides` that divides the nodes.
std::vector<NamedOrder> orders_to_try(const Cluster& cluster, std::span<const int> strides);

// The launchers: srun reads it through SLURM_HOSTFILE with --distribution=arbitrary, a line per
// rank (slurm.schedmd.com/srun.html); mpirun as --hostfile with --map-by slot, a line per node.
enum class Launcher : std::uint8_t { srun, mpirun };
constexpr auto words_of(Launcher) {
  return std::array{Word{Launcher::srun, "srun"}, Word{Launcher::mpirun, "mpirun"}};
}
// `nodes`: names in the order of the ranks; each takes `per_node` of them, the last what is left.
std::string rank_file(std::span<const std::string> nodes, int per_node, int ranks,
                      Launcher launcher);

}  // namespace sim
