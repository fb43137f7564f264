// Loads on the links of a forecast's cluster, tier by tier. Pure: no Qt.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/link_traffic.hpp"
#include "sim/topology/graph.hpp"
#include "ui/core/result.hpp"

namespace ui {

// One tier of links, all of one direction.
struct TierLoad {
  std::string title;       // "nic → leaf"
  std::vector<float> use;  // of each link: carried bytes over capacity × step
  double most = 0, mean = 0;
  std::size_t loaded = 0;  // links that carry anything
  sim::Bytes carried{};    // over all links
  std::size_t busiest() const;
};

// A link, by its tier and its place in it.
struct LinkAt {
  std::size_t tier = 0, link = 0;
  bool operator==(const LinkAt&) const = default;
};

class ClusterLoads {
 public:
  // Keeps the result: the loads refer to its cluster. Throws sim::Stopped.
  explicit ClusterLoads(ResultPtr result, const sim::Control& control = {});

  const sim::TopologyGraph& graph() const { return graph_; }
  const std::vector<TierLoad>& tiers() const { return tiers_; }
  int nodes() const { return result_->scenario.cluster.nodes(); }
  sim::LinkId id(const LinkAt& at) const { return graph_.links[at.tier].links[at.link]; }
  // Name and value, each with its unit; who uses the link comes last.
  std::vector<std::pair<std::string, std::string>> facts(const LinkAt& at) const;
  // The next link of the tier that carries something else; nothing: there is none.
  std::optional<LinkAt> next_other(const LinkAt& at, bool forward) const;

 private:
  TierLoad load_of(const sim::LinkTier& tier) const;

  ResultPtr result_;
  sim::TopologyGraph graph_;
  sim::LinkTraffic traffic_;
  std::vector<TierLoad> tiers_;
};
// A line per tier: its links, capacity, largest and mean use, bytes.
std::string loads_csv(const ClusterLoads& loads);

using LoadsPtr = std::shared_ptr<const ClusterLoads>;

// The largest use among the links of each of `columns` columns; a link may fill several. -1: there
// are no links.
std::vector<float> most_per_column(std::span<const float> use, int columns);

}  // namespace ui
