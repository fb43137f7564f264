// Paths from GPUs to the memory of their host.
#include <algorithm>
#include <deque>
#include <span>

#include "sim/topology/node_template.hpp"

namespace sim {
namespace {

constexpr std::uint32_t none = UINT32_MAX;

// Links of a shortest path from the GPU to a socket, over PCIe switches and C2C alone.
std::vector<std::uint32_t> path_to_socket(const NodeTemplate& node, std::uint32_t gpu) {
  std::vector<std::uint32_t> came_by(node.parts.size(), none);
  std::vector<bool> seen(node.parts.size());
  std::deque<std::uint32_t> next{gpu};
  seen[gpu] = true;
  while (!next.empty()) {
    const std::uint32_t at = next.front();
    next.pop_front();
    if (node.parts[at].kind == PartKind::cpu) {
      std::vector<std::uint32_t> path;
      for (std::uint32_t part = at; part != gpu; part = node.links[path.back()].from)
        path.push_back(came_by[part]);
      return path;
    }
    for (std::uint32_t i = 0; i < node.links.size(); ++i) {
      const PartLink& link = node.links[i];
      const PartKind kind = node.parts[link.to].kind;
      const bool leads = kind == PartKind::pcie_switch || kind == PartKind::cpu;
      if (link.from != at || seen[link.to] || !leads) continue;
      seen[link.to] = true;
      came_by[link.to] = i;
      next.push_back(link.to);
    }
  }
  return {};
}

}  // namespace

Bandwidth host_copy_rate(const NodeTemplate& node, int gpus) {
  std::vector<std::vector<std::uint32_t>> paths;
  std::vector<int> users(node.links.size());
  for (const std::uint32_t gpu : std::span{node.gpus}.first(static_cast<std::size_t>(gpus))) {
    paths.push_back(path_to_socket(node, gpu));
    if (paths.back().empty()) return {};
    for (const std::uint32_t link : paths.back())
      ++users[link];
  }
  Bandwidth slowest{};
  for (const std::vector<std::uint32_t>& path : paths) {
    for (const std::uint32_t link : path) {
      const Bandwidth share = node.links[link].link.capacity * (1.0 / users[link]);
      if (slowest == Bandwidth{} || share < slowest) slowest = share;
    }
  }
  return slowest;
}

}  // namespace sim
