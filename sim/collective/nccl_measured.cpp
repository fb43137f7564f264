// Measured rates of NCCL's kernels. NCCL's own tables hold the rates by which it chooses, and err
// where a choice does not depend on them. One value per generation of GPU and NVLink, read off the
// curves of validation/curves (its index has the sources).
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "sim/collective/nccl_tuning.hpp"

namespace sim {
namespace {

using PerGeneration = std::array<double, 4>;  // Volta, Ampere, Hopper, Blackwell

double of(const PerGeneration& table, double cdna, Generation generation) {
  if (generation == Generation::cpu) return 1;
  return is_cdna(generation) ? cdna : table[nccl_row(generation)];
}

}  // namespace

// LL stores a flag with every 4 bytes and polls it, LL128 8 bytes in 128: NCCL's own factors, but
// without its caps per channel and host, which 8 and 16 channels exceed on H100.
double tree_share(const NcclGroup& group, Protocol protocol) {
  if (!group.nccl || protocol == Protocol::simple) return 1;
  if (group.rccl) return rccl_tree_share(protocol);
  if (protocol == Protocol::ll) return 0.92 / 3.8;
  return group.nodes == 1 ? 7.0 / 9 : 120.0 / 128;
}

// All-reduce of 8 and 16 GiB on eight GPUs by ring: 234.9 of 240 GB/s (A100), 365.6 of 370.8
// (H200), 682 of 721.8 (B200). Volta: as Ampere. MI300X, 315.7 of 7 x 48 GB/s at 8 GiB
// (hisohara/ai-scripts at 0780bb3c, training/01_rccl-smoketest); MI325X 319.1, Azure's MI300X
// 316.8.
double ring_share(Generation generation) {
  return of({0.98, 0.98, 0.985, 0.945}, 0.94, generation);
}

// Send and receive of 1 GiB on A100: 195 of 240 GB/s; of 8 GiB on H100 367, all-to-all of 16 GiB
// 348 of 370.8; all-to-all in place on GB200 and GB300 667 to 680 of 721.8. AMD: taken as its ring.
double message_share(Generation generation) {
  return of({0.81, 0.81, 0.965, 0.955}, 0.94, generation);
}

// One block copies what its loads and stores in flight allow. Hopper: 4 channels of a send of 64
// MiB carry 82 GB/s; rings of 16 channels over ten nodes of eight 324 GB/s, over 8 x 400 Gb/s where
// 24 blocks reach 392. Ampere: 8 channels of a send of 128 MiB carry 111 GB/s. Volta: as Ampere.
// Blackwell: rings of 16 channels over two nodes 329 GB/s, of 32 on one node 682. AMD: RCCL starts
// as many channels as fill the links (56 to 112), so they bound nothing.
double block_rate(Generation generation) {
  constexpr double unbounded = std::numeric_limits<double>::infinity();
  return generation == Generation::cpu ? unbounded
                                       : of({13.9, 13.9, 20.3, 21}, unbounded, generation);
}

// All-reduce over two nodes of eight H100 or H200: 469, 486 and 487 GB/s at 16 GiB, where NCCL's
// perChMaxNVLSTreeBws would leave 462; over four and ten nodes 366 and 365 for its 364. Blackwell,
// two nodes: below the table's, by its NICs.
double nvls_tree_rate(const NcclGroup& group) {
  if (group.generation != Generation::hopper) return nvls_tree_channel_cap(group);
  return group.nodes == 2 ? 60.5 : 46.5;
}

namespace {

int divided_up(int count, int by) {
  return (count + by - 1) / by;
}

// Channels that a group's messages share (p2pnChannels).
int shared_channels(const NcclGroup& group) {
  if (group.rccl) return limited(32, group.most_blocks);
  return std::clamp(static_cast<int>(std::bit_ceil(static_cast<unsigned>(group.blocks))), 1, 64);
}

int network_channels(const NcclGroup& group) {
  const int shared = shared_channels(group);
  if (group.version < 220 && !group.rccl) return std::min(2, shared);
  if (group.version < 229 || group.rccl)
    return 2 * group.ranks <= 4 * shared ? std::min(2, shared) : 1;
  constexpr double channel_rate = 14;  // GB/s, NCCL_P2P_PER_CHANNEL_NET_BW
  const int wanted = static_cast<int>(std::ceil(std::floor(group.nic_bw) / channel_rate));
  int channels = static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(1, wanted))));
  channels = std::min(channels, shared);
  while (channels > 1 && channels * divided_up(group.ranks, peers_per_batch) > shared)
    channels /= 2;
  return channels;
}

}  // namespace

int message_rounds(const NcclGroup& group, int peers, double bytes) {
  if (!group.nccl) return divided_up(peers, peers_per_batch);
  return divided_up(peers * message_channels(group, bytes),
                    peers_per_batch * shared_channels(group));
}

int message_channels(const NcclGroup& group, double bytes) {
  const int most = limited(32, group.most_blocks);
  if (group.nodes > 1) return network_channels(group);
  int channels = most;
  while (channels * group.ranks > most && channels > 1)
    channels /= 2;
  constexpr double largest_part = 16.0 * 1024 * 1024;
  while (bytes / channels > largest_part && channels < most)
    channels *= 2;
  return channels;
}

}  // namespace sim
