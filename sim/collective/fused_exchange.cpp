// The exchange of tokens between experts in one kernel: DeepEP (its normal kernels; csrc/kernels,
// intranode.cu, internode.cu) and HybridEP (csrc/hybrid_ep). A token goes once to each node that it
// has chosen, over the NIC of its own GPU, and from the GPU that it comes to there over NVLink once
// to each chosen rank; the way back is the same, and sums are made on it.
//   N nodes of g ranks, n the bytes of the tokens that a rank holds;
//   q_r, q_n  share of them that choose a rank, a node (share_that_chooses)
//   network   (N - 1) q_n n  per NIC
//   NVLink    N g q_r n (g - 1) / g  per GPU: of g ranks on a node one is the forwarder itself
//   blocks    N g q_r n  through all SMs of the kernel
// For the fullest rank, and for the fullest node, q is imbalance_of() times that, up to 1.
//   t = (t_NVLink^p + t_network^p)^(1/p), t_NVLink the longer of NVLink and blocks
// p tells how far the two ways run at a time: 1 one behind the other, infinity all at once.
//
// Shares and p are fitted to the calibration rows of tests/unit/collective/fused_exchange_rows.hpp,
// which has the sources: for DeepEP four rows of H800, for HybridEP eight of H100 and twelve of
// B200 and GB200. Of an NVLink of Ampere and older nobody has published rows: Hopper's shares.
#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"
#include "sim/collective/algorithms.hpp"
#include "sim/program/expert_routing.hpp"

namespace sim {
namespace {

struct FusedKernels {
  double link_share = 0;     // of an NVLink's payload
  double network_share = 0;  // of a NIC's
  double power = 1;          // p
  double block_rate = 0;     // bytes/s that pass an SM
};

FusedKernels kernels_of(Carrier carrier, Generation generation) {
  const bool blackwell = generation == Generation::blackwell;
  if (carrier == Carrier::hybridep)
    return {.link_share = blackwell ? 0.84 : 0.92,
            .network_share = 0.92,
            .power = 2,
            .block_rate = blackwell ? 44e9 : 42e9};
  // An SM copies as NCCL's blocks do: 16, 24 and 32 of a B200 move 348, 494 and 619 GB/s
  // (docs/README_Hybrid-EP.md of DeepEP, bf16 dispatch), 21.8 to 19.3 each.
  return {.link_share = 0.82,
          .network_share = 1,
          .power = 3,
          .block_rate = block_rate(generation) * 1e9};
}

}  // namespace

Form fused_exchange_form(const FormInput& in, const Collective& request, double small_kernel) {
  SIM_CHECK(request.routing.experts >= in.ranks() && request.blocks > 0, request.routing.experts);
  const Generation generation = in.group.generation;
  if (is_cdna(generation) || generation == Generation::cpu || (in.group.pcie && in.per_node() > 1))
    refuse(
        Algorithm::direct, request.kind,
        "DeepEP and HybridEP need NVIDIA GPUs with NVLink between those of a node; allowed here: "
        "moe.dispatcher alltoall, allgather");
  const FusedKernels kernels = kernels_of(request.carrier, in.group.generation);
  const double ranks = in.ranks(), nodes = in.nodes(), each = in.per_node();
  const std::int64_t experts = request.routing.experts;
  const std::int64_t of_rank = std::max<std::int64_t>(1, experts / in.ranks());
  const std::int64_t of_node = std::min(experts, of_rank * in.per_node());
  const double bytes = in.bytes;
  const auto fullest = [&](std::int64_t held, int of_ranks) {
    return std::min(
        1.0, share_that_chooses(request.routing, held) * imbalance_of(request.routing, of_ranks));
  };
  const double arriving = ranks * fullest(of_rank, 1) * bytes;
  const double linked = each > 1 ? arriving * (each - 1) / each : 0;
  const double sent = nodes > 1 ? (nodes - 1) * fullest(of_node, in.per_node()) * bytes : 0;

  const HopSeconds hop = hop_seconds(in, Algorithm::direct);
  const double link_seconds = each > 1 ? linked / in.intra_bw() : 0;
  const double network_seconds = nodes > 1 ? sent * each / in.inter_bw() : 0;
  const double near =
      std::max(link_seconds / kernels.link_share, arriving / (request.blocks * kernels.block_rate));
  const double far = network_seconds / kernels.network_share;
  Form form;
  // A kernel before it exchanges the counts of tokens between all members.
  form.latency = 2 * small_kernel + 2 * (hop.base + (nodes > 1 ? hop.inter : hop.intra));
  form.link_time = std::max(link_seconds, network_seconds);
  form.transfer = nodes > 1 ? std::pow(std::pow(near, kernels.power) + std::pow(far, kernels.power),
                                       1 / kernels.power)
                            : near;
  // The links' pattern is that of an all-to-all, of which (p - g) / (p - 1) goes by the NICs.
  form.traffic = nodes > 1 ? sent * (ranks - 1) / (ranks - each) : linked;
  form.rounds = 1;
  form.channels = request.blocks;
  form.flows = std::max(1, in.ranks() - 1);
  // Tokens are read and written where they begin, where a node forwards them, and where they
  // arrive.
  form.memory_bytes = 2 * (bytes + sent + arriving);
  return form;
}

}  // namespace sim
