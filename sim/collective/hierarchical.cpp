// Hierarchical all-reduce (Jia et al. 2018; Horovod's and MSCCL's two-level form): reduce-scatter
// inside the node, then for each of the g parts a ring all-reduce across the nodes over its rail,
// then all-gather inside the node. Three phases, one after the other:
//   2(g-1) alpha_in + 2(N-1) alpha_out + 2(g-1)/g n / B_in + 2(N-1)/N (n/g) / (B_out/g)
// Reduce-scatter is the first half of it, all-gather the second.
#include "sim/collective/algorithms.hpp"

namespace sim {
namespace {

void require_supported(CollectiveKind kind, const GroupShape& shape) {
  if (is_rooted(kind) || kind == CollectiveKind::all_to_all)
    refuse(Algorithm::hierarchical, kind, "only reductions and gathers split over rails");
  if (!shape.uniform)
    refuse(Algorithm::hierarchical, kind, "it needs the same number of members on every node");
}

class HierarchicalSteps : public StepSequence {
 public:
  HierarchicalSteps(const GroupShape& shape, CollectiveKind kind, Bytes bytes)
      : size_{shape.ranks_per_node},
        nodes_{shape.nodes},
        bytes_{bytes.count()},
        all_reduce_{is_all_reduce(kind)},
        gathers_only_{kind == CollectiveKind::all_gather} {}

  int rounds() const override { return (all_reduce_ ? 2 : 1) * (size_ - 1 + nodes_ - 1); }
  int lanes() const override { return size_; }

  void sends(int rank, int round, std::vector<StepSend>& out) const override {
    out.clear();
    const int node = rank / size_;
    const int local = rank % size_;
    const Phase phase = at(round);
    if (phase.inside) {
      const int part = ((local - phase.step) % size_ + size_) % size_;
      const int next = node * size_ + (local + 1) % size_;
      const auto to = static_cast<std::uint32_t>(next);
      out.push_back({to, Bytes{part_of(bytes_, size_, part)}, size_});
      return;
    }
    const int part = ((node - phase.step) % nodes_ + nodes_) % nodes_;
    const int next = (node + 1) % nodes_ * size_ + local;
    const std::int64_t share = part_of(bytes_, size_, local);
    out.push_back({static_cast<std::uint32_t>(next), Bytes{part_of(share, nodes_, part)}});
  }
  int receives(int, int) const override { return 1; }

 private:
  struct Phase {
    bool inside = false;
    int step = 0;
  };
  Phase at(int round) const {
    const int outside = (all_reduce_ ? 2 : 1) * (nodes_ - 1);
    const int before = gathers_only_ ? 0 : size_ - 1;
    if (round < before) return {true, round};
    if (round < before + outside) return {false, round - before};
    return {true, round - outside};
  }

  int size_;
  int nodes_;
  std::int64_t bytes_;
  bool all_reduce_;
  bool gathers_only_;
};

}  // namespace

Form hierarchical_form(const FormInput& in) {
  require_supported(in.kind, in.shape);
  const double g = in.per_node();
  const double nodes = in.nodes();
  const double turns = is_all_reduce(in.kind) ? 2 : 1;
  const HopSeconds hop = hop_seconds(in, Algorithm::hierarchical);
  Form form;
  // Three kernels, each with its own start-up.
  const double phases = (g > 1 ? turns : 0) + (nodes > 1 ? 1 : 0);
  form.latency = phases * hop.base + turns * ((g - 1) * hop.intra + (nodes - 1) * hop.inter);
  const double inside = turns * (g - 1) / g * in.bytes;
  const double outside = turns * (nodes - 1) / nodes * in.bytes / g;
  form.link_time =
      (g > 1 ? inside / in.intra_bw() : 0) + (nodes > 1 ? outside / (in.inter_bw() / g) : 0);
  form.traffic = inside + outside;  // = turns (p-1)/p n, as in one ring
  form.rounds = static_cast<int>(turns) * (in.per_node() - 1 + in.nodes() - 1);
  form.channels = blocks_used(in.group, Algorithm::ring, in.protocol, in.bytes);
  form.flows = std::max(form.channels, in.per_node());  // the rails share the channels
  form.transfer =
      form.traffic /
      (1e9 * ring_protocol_bandwidth(in.group, in.protocol, form.traffic / form.link_time * 1e-9));
  form.memory_bytes = 2.5 * form.traffic;  // as a ring's
  return form;
}

std::vector<Hop> hierarchical_pattern(const Cluster& cluster, const GroupLayout& layout) {
  const double g = layout.ranks_per_node();
  const double nodes = layout.nodes();
  const double p = layout.ranks();
  LinkLoads loads{cluster};
  const double inside = (g - 1) / g * p / (p - 1);
  const double outside = (nodes - 1) / nodes / g * p / (p - 1);
  if (g > 1) add_ring_within_nodes(cluster, layout, inside, RingDirection::up, loads);
  for (int node = 0; nodes > 1 && node < layout.nodes(); ++node)
    for (int rail = 0; rail < layout.rails(); ++rail)
      loads.add(
          cluster.route(layout.gpu(node, rail), layout.gpu((node + 1) % layout.nodes(), rail)),
          outside);
  return loads.hops();
}

std::unique_ptr<StepSequence> hierarchical_steps(const Collective& request,
                                                 const GroupShape& shape) {
  require_supported(request.kind, shape);
  return std::make_unique<HierarchicalSteps>(shape, request.kind, payload(request));
}

}  // namespace sim
