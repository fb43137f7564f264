// Recursive vector halving with distance doubling, then the way back (Rabenseifner 2004; Thakur,
// Rabenseifner & Gropp 2005, section 4.5): with p = 2^k ranks, k exchanges of n/2, n/4, ... with
// the partner at distance 1, 2, ...: nearest first, so the large exchanges stay inside the node.
//   all-reduce  2 log2(p) alpha + 2 (p-1)/p n / B
// Where p is no power of two, the first 2r ranks (r = p - 2^k) fold pairwise before and unfold
// after: two more steps of n bytes.
#include <algorithm>
#include <bit>

#include "sim/collective/algorithms.hpp"

namespace sim {
namespace {

struct Folding {
  explicit Folding(int ranks)
      : power{static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))},
        extra{ranks - power},
        levels{std::countr_zero(static_cast<unsigned>(power))} {}
  // Number of a rank among the 2^k that take part; -1 for one that is folded into its neighbour.
  int slot(int rank) const {
    if (rank >= 2 * extra) return rank - extra;
    return rank % 2 == 1 ? rank / 2 : -1;
  }
  int rank(int slot) const { return slot < extra ? 2 * slot + 1 : slot + extra; }

  int power;
  int extra;
  int levels;
};

// Two ranks on different nodes, members being listed node by node.
bool apart(int a, int b, int per_node) {
  return a / per_node != b / per_node;
}

struct HopCost {
  double inside = 0;
  double outside = 0;
};

// The longest chain of exchanges, each costing cost(level) inside a node or across: `halve` and
// `double` say which halves of the algorithm run. The partners of an exchange leave it together.
template <class Cost>
double longest_chain(const Folding& fold, int per_node, bool halves, bool doubles, Cost cost) {
  std::vector<double> done(static_cast<std::size_t>(fold.power), 0);
  const auto exchange = [&](int level) {
    const HopCost hop = cost(level);
    for (int slot = 0; slot < fold.power; ++slot) {
      const int partner = slot ^ (1 << level);
      if (partner < slot) continue;
      double& a = done[static_cast<std::size_t>(slot)];
      double& b = done[static_cast<std::size_t>(partner)];
      a = b = std::max(a, b) +
              (apart(fold.rank(slot), fold.rank(partner), per_node) ? hop.outside : hop.inside);
    }
  };
  const auto fold_cost = [&](int slot) {
    const HopCost hop = cost(-1);
    if (slot >= fold.extra) return 0.0;
    return apart(2 * slot, 2 * slot + 1, per_node) ? hop.outside : hop.inside;
  };
  for (int slot = 0; slot < fold.power; ++slot)
    done[static_cast<std::size_t>(slot)] = fold_cost(slot);
  for (int level = 0; halves && level < fold.levels; ++level)
    exchange(level);
  for (int level = fold.levels; doubles && level-- > 0;)
    exchange(level);
  double longest = 0;
  for (int slot = 0; slot < fold.power; ++slot)
    longest = std::max(longest, done[static_cast<std::size_t>(slot)] + fold_cost(slot));
  return longest;
}

// The same where all ranks of a level go the same way: p and g powers of two.
template <class Cost>
double regular_chain(const Folding& fold, int per_node, int turns, Cost cost) {
  double sum = 0;
  for (int level = 0; level < fold.levels; ++level)
    sum += turns * ((1 << level) < per_node ? cost(level).inside : cost(level).outside);
  return sum;
}

void require_supported(CollectiveKind kind, int ranks) {
  if (is_rooted(kind) || kind == CollectiveKind::all_to_all)
    refuse(Algorithm::halving_doubling, kind, "it is an exchange without a root among all ranks");
  if (is_scatter_or_gather(kind) && !std::has_single_bit(static_cast<unsigned>(ranks)))
    refuse(Algorithm::halving_doubling, kind,
           "folding ranks needs a number that is a power of two");
}

class HalvingDoublingSteps : public StepSequence {
 public:
  HalvingDoublingSteps(int ranks, CollectiveKind kind, Bytes bytes)
      : fold_{ranks},
        bytes_{bytes.count()},
        halve_{kind != CollectiveKind::all_gather},
        double_{kind != CollectiveKind::reduce_scatter} {}

  int rounds() const override {
    return (halve_ ? fold_.levels : 0) + (double_ ? fold_.levels : 0) + (fold_.extra > 0 ? 2 : 0);
  }
  void sends(int rank, int round, std::vector<StepSend>& out) const override {
    out.clear();
    const Step step = at(round);
    const int slot = fold_.slot(rank);
    if (step.fold || step.unfold) {
      const bool paired = rank < 2 * fold_.extra;
      if (paired && step.fold == (slot < 0))
        out.push_back({static_cast<std::uint32_t>(rank ^ 1), Bytes{bytes_}});
      return;
    }
    if (slot < 0) return;
    const int partner = slot ^ (1 << step.level);
    // Halving keeps the half of the own bit and sends the other; doubling sends all that is held.
    const Range range = step.halving ? held(partner, step.level + 1) : held(slot, step.level + 1);
    out.push_back({static_cast<std::uint32_t>(fold_.rank(partner)), Bytes{range.size()}});
  }
  int receives(int rank, int round) const override {
    const Step step = at(round);
    const bool paired = rank < 2 * fold_.extra;
    if (step.fold) return paired && fold_.slot(rank) >= 0 ? 1 : 0;
    if (step.unfold) return paired && fold_.slot(rank) < 0 ? 1 : 0;
    return fold_.slot(rank) >= 0 ? 1 : 0;
  }

 private:
  struct Step {
    bool fold = false;
    bool unfold = false;
    bool halving = false;
    int level = 0;
  };
  struct Range {
    std::int64_t begin, end;
    std::int64_t size() const { return end - begin; }
  };
  Step at(int round) const {
    if (fold_.extra > 0) {
      if (round == 0) return {.fold = true};
      if (round == rounds() - 1) return {.unfold = true};
      --round;
    }
    if (halve_ && round < fold_.levels) return {.halving = true, .level = round};
    return {.level = fold_.levels - 1 - (round - (halve_ ? fold_.levels : 0))};
  }
  // The range that a slot is responsible for once `levels` bits have halved the buffer.
  Range held(int slot, int levels) const {
    Range range{0, bytes_};
    for (int level = 0; level < levels; ++level) {
      const std::int64_t middle = range.begin + range.size() / 2;
      ((slot >> level) & 1 ? range.begin : range.end) = middle;
    }
    return range;
  }

  Folding fold_;
  std::int64_t bytes_;
  bool halve_;
  bool double_;
};

}  // namespace

Form halving_doubling_form(const FormInput& in) {
  require_supported(in.kind, in.ranks());
  const Folding fold{in.ranks()};
  const HopSeconds hop = hop_seconds(in, Algorithm::halving_doubling);
  const int turns = is_all_reduce(in.kind) ? 2 : 1;
  // One member's share of what its node's NICs carry.
  const double nic = in.nodes() == 1 ? 1 : in.inter_bw() / in.per_node();
  const double port = in.per_node() == 1 ? 1 : in.intra_bw();
  const auto chain = [&](auto cost) {
    if (fold.extra == 0) return regular_chain(fold, in.per_node(), turns, cost);
    return longest_chain(fold, in.per_node(), in.kind != CollectiveKind::all_gather,
                         in.kind != CollectiveKind::reduce_scatter, cost);
  };
  Form form;
  form.latency = hop.base + chain([&](int) { return HopCost{hop.intra, hop.inter}; });
  form.link_time = chain([&](int level) {
    const double bytes = level < 0 ? in.bytes : in.bytes / (2 << level);
    return HopCost{bytes / port, bytes / nic};
  });
  form.traffic = turns * in.bytes * ((fold.power - 1.0) / fold.power + (fold.extra > 0 ? 1 : 0));
  form.rounds = turns * fold.levels + (fold.extra > 0 ? 2 : 0);
  form.channels = blocks_used(in.group, Algorithm::ring, in.protocol, in.bytes);
  form.flows = form.channels;  // of the one message that a member sends at a time
  form.transfer =
      form.traffic /
      (1e9 * ring_protocol_bandwidth(in.group, in.protocol, form.traffic / form.link_time * 1e-9));
  // As in a ring: reducing takes 3 accesses per byte that comes in, gathering 2.
  form.memory_bytes = 2.5 * form.traffic;
  return form;
}

std::vector<Hop> halving_doubling_pattern(const Cluster& cluster, const GroupLayout& layout) {
  const Folding fold{layout.ranks()};
  std::vector<GpuId> members;
  for (int node = 0; node < layout.nodes(); ++node)
    for (int local = 0; local < layout.members_of(node); ++local)
      members.push_back(layout.gpu(node, local));
  const auto gpu = [&](int rank) { return members[static_cast<std::size_t>(rank)]; };
  // The form's traffic: halves in one direction of time, and the folds, over all that a rank sends.
  const double all = (fold.power - 1.0) / fold.power + (fold.extra > 0 ? 1 : 0);
  LinkLoads loads{cluster};
  double bytes = 1;
  for (int level = 0; level < fold.levels; ++level) {
    bytes /= 2;
    for (int slot = 0; slot < fold.power; ++slot)
      loads.add(cluster.route(gpu(fold.rank(slot)), gpu(fold.rank(slot ^ (1 << level)))),
                bytes / all);
  }
  for (int pair = 0; pair < fold.extra; ++pair) {
    loads.add(cluster.route(gpu(2 * pair), gpu(2 * pair + 1)), 0.5 / all);
    loads.add(cluster.route(gpu(2 * pair + 1), gpu(2 * pair)), 0.5 / all);
  }
  return loads.hops();
}

std::unique_ptr<StepSequence> halving_doubling_steps(const Collective& request,
                                                     const GroupShape& shape) {
  require_supported(request.kind, shape.ranks);
  return std::make_unique<HalvingDoublingSteps>(shape.ranks, request.kind, payload(request));
}

}  // namespace sim
