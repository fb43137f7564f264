#include "sim/fleet/shared_links.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/engine/link_traffic.hpp"
#include "sim/topology/cluster_data.hpp"

namespace sim {

std::vector<double> busy_shares(const Plan& plan, const Scenario& scenario, const Timeline& step,
                                const Control& control) {
  const Cluster& cluster = scenario.cluster;
  const LinkTraffic traffic{plan, cluster, scenario.options, step, control};
  const double seconds = to_seconds(step.end - TimePoint{});
  std::vector<double> shares;
  for (std::uint32_t link = cluster.data().fabric_base(); link < cluster.link_count(); ++link) {
    const LinkLoad* load = traffic.load(LinkId{link});
    shares.push_back(load != nullptr ? to_seconds(load->busy) / seconds : 0);
  }
  return shares;
}

std::vector<SharedLink> shared_links(const Cluster& cluster, const std::vector<double>& first,
                                     const std::vector<double>& second, std::size_t most) {
  std::map<std::pair<double, double>, SharedLink> kinds;
  for (std::uint32_t f = 0; f < first.size(); ++f) {
    if (first[f] == 0 || second[f] == 0) continue;
    const auto [place, is_new] = kinds.try_emplace({first[f], second[f]});
    if (is_new)
      place->second = {.name = cluster.link_name(LinkId{cluster.data().fabric_base() + f}),
                       .alike = 1,
                       .first_busy = first[f],
                       .second_busy = second[f]};
    else
      ++place->second.alike;
  }
  std::vector<SharedLink> links;
  for (auto& [shares, link] : kinds)
    links.push_back(std::move(link));
  std::stable_sort(links.begin(), links.end(), [](const SharedLink& a, const SharedLink& b) {
    return a.first_busy * a.second_busy > b.first_busy * b.second_busy;
  });
  if (links.size() > most) links.resize(most);
  return links;
}

}  // namespace sim
