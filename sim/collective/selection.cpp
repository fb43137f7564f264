// NCCL's choice: the smallest of its own estimates over the algorithms and protocols that it
// enables (ncclTopoTuneModel and ncclTopoGetAlgoInfo, NVIDIA/nccl src/graph/tuning.cc and
// src/enqueue.cc v2.30).
#include <array>
#include <limits>

#include "sim/collective/algorithms.hpp"

namespace sim {
namespace {

constexpr std::array nccl_protocols{Protocol::ll, Protocol::ll128, Protocol::simple};
constexpr std::array nccl_algorithms{Algorithm::tree, Algorithm::ring, Algorithm::in_switch};

bool is_nccl(Algorithm algorithm) {
  return algorithm == Algorithm::ring || algorithm == Algorithm::tree ||
         algorithm == Algorithm::in_switch;
}

// LL128 where NCCL trusts its stores to arrive whole; between nodes, what the network's tuner sets.
bool offered(const FormInput& in, Algorithm algorithm, Protocol protocol) {
  const Bytes size{static_cast<std::int64_t>(in.bytes)};
  const bool trusted = protocol != Protocol::ll128 || ll128_enabled(in.group, in.shape.intra);
  if (in.nodes() == 1 || !in.most_ll) return trusted;
  if (size <= *in.most_ll) return protocol == Protocol::ll;
  if (!in.most_ll128) return trusted && protocol != Protocol::ll;
  if (size > *in.most_ll128) return protocol == Protocol::simple;
  // Below the change to Simple the one public tuner, AWS's, reduces over trees.
  return protocol == Protocol::ll128 && (!is_all_reduce(in.kind) || algorithm == Algorithm::tree);
}

}  // namespace

Selected select(const FormInput& in, CollectiveChoice choice) {
  const NcclGroup& group = in.group;
  const CollectiveKind kind = in.kind;
  // A send and a receive: no algorithm to choose.
  if (kind == CollectiveKind::ring_shift) return {Algorithm::direct, Protocol::simple};
  const bool open = choice.algorithm == Algorithm::automatic;
  if (open && kind == CollectiveKind::all_to_all) return {Algorithm::direct, Protocol::simple};
  // Algorithms that NCCL does not have run the protocol that was asked for, or full bandwidth. So
  // does one that was asked for where NCCL would not offer it: its closed form says whether it can.
  Selected best{open ? Algorithm::ring : choice.algorithm,
                choice.protocol == Protocol::automatic ? Protocol::simple : choice.protocol};
  if (choice.algorithm == Algorithm::direct || choice.algorithm == Algorithm::parameter_server)
    best.protocol = Protocol::simple;  // plain messages
  if (!group.nccl) best.protocol = Protocol::simple;
  if (!group.nccl || (!open && !is_nccl(choice.algorithm))) return best;
  double least = std::numeric_limits<double>::infinity();
  for (const Algorithm algorithm : nccl_algorithms) {
    if (!open && algorithm != choice.algorithm) continue;
    for (const Protocol protocol : nccl_protocols) {
      if (choice.protocol != Protocol::automatic && protocol != choice.protocol) continue;
      const bool asked = choice.protocol == protocol;
      if (!asked && !offered(in, open ? algorithm : Algorithm::tree, protocol)) continue;
      const double time = nccl_estimate(group, kind, algorithm, protocol, in.bytes);
      if (time < least) {
        least = time;
        best = {algorithm, protocol};
      }
    }
  }
  return best;
}

}  // namespace sim
