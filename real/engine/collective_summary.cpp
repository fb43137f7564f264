#include "real/engine/collective_summary.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace real {
namespace {

using Key = std::tuple<sim::CollectiveKind, sim::GroupRole, int, std::int64_t>;

struct Sum {
  std::uint64_t count = 0;       // over all ranks
  std::uint64_t of_busiest = 0;  // of the rank that issues it most
  double seconds = 0;
};

const char* name_of(AlgorithmChoice choice) {
  switch (choice) {
    case AlgorithmChoice::automatic:
      return "auto";
    case AlgorithmChoice::ring:
      return "ring";
    case AlgorithmChoice::tree:
      return "tree";
    case AlgorithmChoice::halving_doubling:
      return "halving_doubling";
    case AlgorithmChoice::hierarchical:
      return "hierarchical";
  }
  return "auto";
}

}  // namespace

std::vector<sim::CollectiveSummary> summarise_collectives(const sim::Plan& plan,
                                                          const sim::Timeline& timeline,
                                                          const Algorithms& algorithms) {
  std::map<Key, Sum> sums;
  for (const sim::RankTrack& track : timeline.tracks) {
    const sim::Program& program = plan.program(track.rank);
    std::map<Key, std::uint64_t> own;
    for (std::size_t i = 0; i < program.size(); ++i) {
      if (program.kind[i] != sim::OpKind::collective) continue;
      const sim::Collective& collective = program.collectives[program.work[i]];
      const std::uint32_t group =
          plan.group_of[track.rank.value][static_cast<std::size_t>(collective.group)];
      const Key key{collective.kind, collective.group,
                    static_cast<int>(plan.groups[group].ranks.size()), collective.bytes.count()};
      Sum& sum = sums[key];
      ++sum.count;
      sum.of_busiest = std::max(sum.of_busiest, ++own[key]);
      sum.seconds += sim::to_seconds(track.spans[i].end - track.spans[i].active);
    }
  }
  std::vector<sim::CollectiveSummary> rows;
  for (const auto& [key, sum] : sums) {
    const auto& [kind, group, ranks, bytes] = key;
    rows.push_back({.kind = kind,
                    .group = group,
                    .algorithm = name_of(algorithms.of(group)),
                    .ranks = ranks,
                    .count = sum.of_busiest,
                    .bytes = sim::Bytes{bytes},
                    .mean_time = sim::duration_from_seconds(
                        std::max(0.0, sum.seconds / static_cast<double>(sum.count)))});
  }
  return rows;
}

}  // namespace real
