// Channels and speeds of a group as NCCL's topology search and connection find them (NVIDIA/nccl
// src/graph/search.cc, connect.cc, src/transport/nvls.cc v2.30).
#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "sim/collective/nccl_tuning.hpp"

namespace sim {
namespace {

bool from_hopper(const NcclGroup& group) {
  return group.generation == Generation::hopper || group.generation == Generation::blackwell;
}

// Per-channel speeds that the topology search tries, fastest first (speedArrayIntra/Inter and their
// sm90 and sm100 forms, src/graph/search.cc).
std::span<const double> speeds_within(Generation generation) {
  static constexpr std::array sm80{40., 30., 20., 18., 15., 12., 10., 9., 7., 6., 5., 4., 3.};
  static constexpr std::array sm90{60., 50., 40., 30., 24., 20., 15., 12., 11., 6., 3.};
  static constexpr std::array sm100{90., 80., 70., 60., 50., 45., 40., 30., 24., 20., 19., 18.};
  if (generation == Generation::blackwell) return sm100;
  if (generation == Generation::hopper) return sm90;
  return sm80;
}
std::span<const double> speeds_across(Generation generation) {
  static constexpr std::array sm80{48., 30., 28., 24., 20., 18., 15., 12.,  10., 9.,
                                   7.,  6.,  5.,  4.,  3.,  2.4, 1.2, 0.24, 0.12};
  static constexpr std::array sm90{48., 45., 42., 40., 30., 24., 20.,  17.5,
                                   15., 12., 6.,  3.,  2.4, 1.2, 0.24, 0.12};
  static constexpr std::array sm100{96., 86., 80., 48., 45.1, 42., 40., 30.,  24.,
                                    20., 15., 12., 6.,  3.,   2.4, 1.2, 0.24, 0.12};
  if (generation == Generation::blackwell) return sm100;
  if (generation == Generation::hopper) return sm90;
  return sm80;
}

struct SearchResult {
  int channels = 1;
  double speed = 0;
};
// The solution with the largest channels * speed, the faster channel winning a tie: what the search
// keeps. `bundles` parallel resources of `each` GB/s carry the channels.
SearchResult search_speed(std::span<const double> speeds, double each, int bundles) {
  SearchResult best;
  for (const double speed : speeds) {
    const int fit = static_cast<int>(each / speed * (1 + 1e-9)) * bundles;
    const int channels = std::min(fit, 16);  // MAXCHANNELS / 2 before the doublings below
    if (channels * speed > best.channels * best.speed) best = {channels, speed};
  }
  if (best.speed == 0) best.speed = each;  // slower than every listed speed: one channel of it
  return best;
}

// Trees then raise their speed within nodes alone, while it is below twice the speed between nodes:
// over two nodes NCCL reckons with it (search.cc, pass 2: "increase bwIntra for trees").
double tree_speed(const NcclGroup& group, double within) {
  if (group.nodes != 2 || group.ranks_per_node == 1) return group.channel_bw;
  const auto speeds = speeds_across(group.generation);
  double speed = group.channel_bw;
  for (auto next = speeds.rbegin(); next != speeds.rend() && speed < 2 * group.channel_bw; ++next) {
    if (*next <= speed) continue;
    if (*next * group.channels > within * 1.001) break;  // shares of links are rounded
    speed = *next;
  }
  return speed;
}

void search_graph(NcclGroup& group, const GroupShape& shape, double line_rate, int nics) {
  SearchResult found = group.nodes == 1
                           ? search_speed(speeds_within(group.generation),
                                          shape.intra_bandwidth.in_bytes_per_second() * 1e-9, 1)
                           : search_speed(speeds_across(group.generation), line_rate, nics);
  group.nic_bw = found.speed;
  // The search then halves fast channels to have twice as many, hence more SMs (search.cc).
  const bool few = !(from_hopper(group) && found.speed < 50 && found.channels > 4);
  if (found.speed >= 25 && few && found.channels <= 16) {
    found.channels *= 2;
    found.speed /= 2;
  }
  group.channels = found.channels;
  group.channel_bw = found.speed;
  group.tree_bw = tree_speed(group, shape.intra_bandwidth.in_bytes_per_second() * 1e-9);
  // connect.cc: channels are duplicated once, and once more for few fast ones from Hopper on.
  group.blocks = std::min(32, found.channels * 2);
  if (from_hopper(group) && group.nodes > 1 && found.speed > 45 && group.blocks < 16)
    group.blocks = std::min(16, group.blocks * 2);
}

void search_nvls(NcclGroup& group, const GroupShape& shape, const NetworkTraits& network) {
  const double usable = shape.intra_bandwidth.in_bytes_per_second() * 1e-9;
  const bool blackwell = group.generation == Generation::blackwell;
  // NVLS channels: 16 on Hopper, 24 on Blackwell; across nodes one head per rank of the node
  // (src/transport/nvls.cc; connect.cc).
  group.nvls_channels = group.nodes > 1 ? group.ranks_per_node : blackwell ? 24 : 16;
  group.nvls_bw = usable / group.nvls_channels;
  const auto speeds = speeds_within(group.generation);
  const auto fits = std::find_if(speeds.begin(), speeds.end(),
                                 [&](double speed) { return speed <= group.nvls_bw; });
  if (fits != speeds.end()) group.nvls_bw = *fits;
  // On one node from 5 ranks on, as NCCL_DEBUG shows (github.com/stas00/ml-engineering, network).
  const bool enough = group.nodes > 1 ? network.nvls_tree : group.ranks > 4;
  group.nvls = network.nvls && enough && nvls_efficiency(group.generation) > 0 && !group.pcie &&
               group.ranks_per_node > 1 && shape.uniform;
}

// maxCTAs (connect.cc, nvls.cc).
void limit_blocks(NcclGroup& group, int most) {
  group.most_blocks = most;
  group.blocks = limited(group.blocks, most);
  group.channels = limited(group.channels, most);
  group.nvls_channels = limited(group.nvls_channels, most);
}

}  // namespace

NcclGroup nccl_group(const Cluster& machine, const GroupShape& shape, CollectiveChoice choice) {
  const Cluster cluster = machine.of_pool(shape.pool);
  const NetworkTraits& network = cluster.network();
  NcclGroup group{.generation = cluster.device().generation,
                  .amd = network.cpu_vendor == "amd",
                  .pcie = shape.ranks_per_node > 1 && shape.intra > PathKind::nvlink,
                  .ranks = shape.ranks,
                  .nodes = shape.nodes,
                  .ranks_per_node = shape.ranks_per_node,
                  .generations_differ = cluster.generations_differ()};
  group.version = choice.nccl > 0 ? choice.nccl : network.nccl;
  group.nccl = group.generation != Generation::cpu;
  if (!group.nccl) return group;
  group.rccl = is_cdna(group.generation);
  if (group.rccl) {
    search_rings_of_rccl(group, shape, choice.least_blocks);
    limit_blocks(group, choice.most_blocks);
    return group;
  }
  const double line_rate =
      shape.inter_bandwidth.in_bytes_per_second() * 1e-9 / network.network_efficiency;
  const double nic_rate = network.nic_rate.in_bytes_per_second() * 1e-9;
  int nics = std::max(1, shape.nics_per_node);
  if (!network.merged_nics && nic_rate > 0)
    nics = std::max(nics, static_cast<int>(std::lround(line_rate / nic_rate)));
  search_graph(group, shape, line_rate / nics, nics);
  group.blocks = std::max(group.blocks, std::min(choice.least_blocks, 64));
  search_nvls(group, shape, network);
  limit_blocks(group, choice.most_blocks);
  return group;
}

}  // namespace sim
