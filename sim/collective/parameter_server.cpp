// Synchronous parameter server (Li et al. 2014): S shards of the buffer live on the first S
// members; every member pushes its gradient of each shard and pulls the sum. All members are
// workers, the hosts of the shards too, whose own part stays local.
//   2 alpha + 2 max( n out of a worker, (p-1) n/S into a server ) / B
// counted per port: a server's NIC takes the p - g members of other nodes, its node port the g - 1
// others of its own.
#include <algorithm>

#include "sim/collective/algorithms.hpp"

namespace sim {
namespace {

void require_supported(CollectiveKind kind, int ranks, int shards) {
  if (!is_all_reduce(kind))
    refuse(Algorithm::parameter_server, kind, "push and pull make an all-reduce");
  if (shards < 1 || shards > ranks)
    refuse(Algorithm::parameter_server, kind,
           "the number of shards must be 1 to the group's ranks");
}

class ParameterServerSteps : public StepSequence {
 public:
  ParameterServerSteps(int ranks, Bytes bytes, int shards)
      : ranks_{ranks}, bytes_{bytes.count()}, shards_{shards} {}
  int rounds() const override { return 2; }
  int lanes() const override { return ranks_ - 1; }
  void sends(int rank, int round, std::vector<StepSend>& out) const override {
    out.clear();
    if (round == 0) {
      for (int server = 0; server < shards_; ++server)
        if (server != rank) out.push_back(message(server, server));
    } else if (rank < shards_) {
      for (int worker = 0; worker < ranks_; ++worker)
        if (worker != rank) out.push_back(message(worker, rank));
    }
  }
  int receives(int rank, int round) const override {
    const bool serves = rank < shards_;
    if (round == 0) return serves ? ranks_ - 1 : 0;
    return serves ? shards_ - 1 : shards_;
  }

 private:
  StepSend message(int to, int shard) const {
    return {static_cast<std::uint32_t>(to), Bytes{part_of(bytes_, shards_, shard)}};
  }
  int ranks_;
  std::int64_t bytes_;
  int shards_;
};

}  // namespace

Form parameter_server_form(const FormInput& in) {
  require_supported(in.kind, in.ranks(), in.shards);
  const double p = in.ranks();
  const double g = in.per_node();
  const double shards = in.shards;
  const HopSeconds hop = hop_seconds(in, Algorithm::parameter_server);
  Form form;
  form.latency = hop.base + 2 * (in.nodes() > 1 ? hop.inter : hop.intra);
  // Servers sit g to a node; a worker of another node reaches all S of them over its NIC, one that
  // has s of them in its node the other S - s.
  const double local = std::min(shards, g);
  const double part = in.bytes / shards;
  const double into_server_inside = (g - 1) * part;
  const double into_server_outside = (p - g) * part;
  const bool serverless_node = in.nodes() > 1 && shards <= p - g;
  const double worker_outside = in.nodes() == 1   ? 0
                                : serverless_node ? in.bytes
                                                  : (shards - local) * part;
  const bool some_only_work = shards < g;
  const double worker_inside = (local - (some_only_work ? 0 : 1)) * part;
  const double nic = in.nodes() > 1 ? in.inter_bw() / g : 0;
  const double outside = in.nodes() > 1 ? std::max(into_server_outside, worker_outside) / nic : 0;
  const double inside = g > 1 ? std::max(into_server_inside, worker_inside) / in.intra_bw() : 0;
  form.link_time = 2 * std::max(outside, inside);
  form.transfer = form.link_time;
  form.traffic = 2 * (p - 1) * part;  // in and out of a server
  form.rounds = 2;
  form.channels = blocks_used(in.group, Algorithm::ring, in.protocol, in.bytes);
  form.flows = 2 * (in.ranks() - 1);  // a push of each worker and a pull by it
  // At a server: each push is written and read, its sum kept in registers; each pull is read.
  form.memory_bytes = 3 * (p - 1) * part;
  return form;
}

std::vector<Hop> parameter_server_pattern(const Cluster& cluster, const GroupLayout& layout,
                                          int shards) {
  LinkLoads loads{cluster};
  const double each = 0.5 / (layout.ranks() - 1.0);  // a push or a pull, of the traffic
  int server = 0;
  for (int node = 0; node < layout.nodes() && server < shards; ++node)
    for (int local = 0; local < layout.members_of(node) && server < shards; ++local, ++server) {
      const GpuId host = layout.gpu(node, local);
      for (int other = 0; other < layout.nodes(); ++other)
        for (int worker = 0; worker < layout.members_of(other); ++worker) {
          const GpuId gpu = layout.gpu(other, worker);
          if (gpu == host) continue;
          loads.add(cluster.route(gpu, host), each);
          loads.add(cluster.route(host, gpu), each);
        }
    }
  return loads.hops();
}

std::unique_ptr<StepSequence> parameter_server_steps(const Collective& request,
                                                     const GroupShape& shape, int shards) {
  require_supported(request.kind, shape.ranks, shards);
  return std::make_unique<ParameterServerSteps>(shape.ranks, payload(request), shards);
}

}  // namespace sim
