#include "sim/collective/load_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sim/base/input_error.hpp"
#include "sim/base/rounding.hpp"
#include "sim/collective/collective_cost.hpp"

namespace sim {
namespace {

// Least and largest of the ratios by which points were scaled.
struct Span {
  double least = 1, most = 1;
  void add(double ratio) {
    least = std::min(least, ratio);
    most = std::max(most, ratio);
  }
  std::string text() const {
    return least == most ? "as they are"
                         : fmt::format(
                               "scaled by the formulas' ratio of the changed machine to "
                               "the file's, x{:.3g} to x{:.3g}",
                               least, most);
  }
};

// As nccl-tests lays the ranks of a curve out: node by node, as many on each as fit its number.
// Empty: the cluster has no such group.
std::vector<GpuId> members_of(const Cluster& cluster, const MeasuredCurve& curve) {
  const int per_node = divide_up(curve.ranks, curve.nodes);
  if (per_node > cluster.gpus_per_node() || curve.nodes > cluster.nodes()) return {};
  if (per_node * (curve.nodes - 1) >= curve.ranks) return {};
  std::vector<GpuId> members;
  members.reserve(static_cast<std::size_t>(curve.ranks));
  for (int rank = 0; rank < curve.ranks; ++rank)
    members.push_back(
        {static_cast<std::uint32_t>(rank / per_node * cluster.gpus_per_node() + rank % per_node)});
  return members;
}

// Formula is the forecast for a curve's group on one machine without the machine's own curves.
class Formula {
 public:
  Formula(const Cluster& cluster, const MeasuredCurve& curve)
      : cluster_{cluster},
        kind_{from_word<CollectiveKind>(curve.collective)},
        algorithm_{from_word<Algorithm>(curve.algorithm.empty()
                                            ? word(Algorithm::automatic)
                                            : std::string_view{curve.algorithm})},
        members_{members_of(cluster, curve)} {
    if (possible() && kind_) shape_ = group_shape(cluster, members_);
  }

  bool possible() const { return !members_.empty() && algorithm_; }

  // s. Throws std::invalid_argument where the algorithm cannot do it.
  double seconds(Bytes size) const {
    const CollectiveCost cost =
        kind_ ? collective_cost(cluster_, shape_, {.kind = *kind_, .bytes = size},
                                {.algorithm = *algorithm_})
              : transfer_cost(cluster_, cluster_.route(members_.front(), members_.back()), size);
    return to_seconds(cost.latency + cost.transfer);
  }

 private:
  const Cluster& cluster_;
  std::optional<CollectiveKind> kind_;  // none: a message, "send_receive"
  std::optional<Algorithm> algorithm_;
  std::vector<GpuId> members_;
  GroupShape shape_;
};

// False: the curve says nothing of the changed machine.
bool carry_over(MeasuredCurve& curve, const Cluster& as_built, const Cluster& changed, Span& span) {
  try {
    const Formula before{as_built, curve};
    const Formula after{changed, curve};
    if (!before.possible() || !after.possible()) return false;
    for (MeasuredPoint& point : curve.points) {
      const double ratio = after.seconds(point.size) / before.seconds(point.size);
      if (!std::isfinite(ratio) || ratio <= 0) return false;
      span.add(ratio);
      if (ratio != 1) point.time = duration_from_seconds(to_seconds(point.time) * ratio);
    }
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  } catch (const InputError&) {
    return false;  // no path is left
  }
}

// The machine of the file alone; none where only the changes make it one.
std::optional<Cluster> machine_of_file(const std::string& path, std::optional<int> nodes) {
  try {
    return Cluster::load(path, nodes);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace

Cluster load_cluster(const std::string& path, std::optional<int> nodes,
                     const ClusterChanges& changes) {
  Cluster changed = Cluster::load(path, nodes, changes);
  // Curves of a pool are of its own nodes, whatever joins them.
  if (changes.empty() || changed.pools() > 1) return changed;
  std::optional<Cluster> as_built = machine_of_file(path, nodes);
  if (!as_built) {
    changed.set_measured({}, "measured curves left out: the machine of the file is none");
    return changed;
  }
  std::vector<MeasuredCurve> curves = as_built->take_measured();
  if (curves.empty()) return changed;
  const std::size_t all = curves.size();
  Span span;
  std::erase_if(curves,
                [&](MeasuredCurve& curve) { return !carry_over(curve, *as_built, changed, span); });
  std::string note = fmt::format("{} measured curve{} carried over, {}", curves.size(),
                                 curves.size() == 1 ? "" : "s", span.text());
  if (curves.size() < all)
    note += fmt::format("; {} left out, of groups that one of the machines has not",
                        all - curves.size());
  changed.set_measured(std::move(curves), std::move(note));
  return changed;
}

}  // namespace sim
