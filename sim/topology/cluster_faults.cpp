// Degraded and dead links. Places are named as link_name() and describe() print them:
//   node 3 nic 1              both directions of that NIC's port
//   node 3 gpu 2 nvlink       every NVLink of that GPU, both directions (xgmi: every xGMI link)
//   node 3 gpu 2 pcie         its PCIe link
//   node 3 gpu 2 -> nvswitch  one direction of one link
//   node 3                    all NIC ports of the node
//   fabric leaf 7 -> spine    one direction of one link, with or without its "(x8)"
//   fabric leaf 7             every fabric link of that switch
#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "sim/base/check.hpp"
#include "sim/topology/cluster_data.hpp"

namespace sim {
namespace {

std::optional<std::string_view> after(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  return text.substr(prefix.size());
}

// A number at the start of `text`, which then begins behind it and one blank.
std::optional<int> take_number(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (!text.empty() && text.front() != ' ') return std::nullopt;
  if (!text.empty()) text.remove_prefix(1);
  return value;
}

std::string_view without_bundle(std::string_view name) {
  return name.substr(0, std::min(name.find(" (x"), name.size()));
}

std::vector<LinkId> fabric_links(const Cluster& cluster, std::string_view place) {
  const Fabric& fabric = cluster.data().fabric;
  std::vector<LinkId> found;
  for (std::uint32_t i = 0; i < fabric.links.size(); ++i) {
    const FabricLink& link = fabric.links[i];
    const bool named = without_bundle(fabric.link_name(i)) == without_bundle(place) ||
                       fabric.switch_name(link.from) == place ||
                       fabric.switch_name(link.to) == place;
    if (named) found.push_back(LinkId{cluster.data().fabric_base() + i});
  }
  if (found.empty())
    throw std::invalid_argument(
        fabric.links.empty()
            ? fmt::format("no fabric link \"{}\": this fabric has no links between switches", place)
            : fmt::format("no fabric link or switch \"{}\"; the fabric has \"{}\" to \"{}\", for "
                          "example \"fabric {}\"",
                          place, fabric.switch_name(0), fabric.switch_name(fabric.switches - 1),
                          without_bundle(fabric.link_name(0))));
  return found;
}

// Whether a place within a node ("nic 1", "gpu 2 nvlink", "gpu 2 -> nvswitch", "") means this link.
bool means(const Cluster& cluster, LinkId id, const PartLink& link, std::string_view place) {
  const Cluster::Data& data = cluster.data();
  const NodeTemplate& node = data.pool_of(static_cast<int>(id.value / data.links_per_node())).node;
  if (place.empty()) return link.link.kind == LinkKind::nic;
  if (place.find("->") != std::string_view::npos) {
    const std::string name = cluster.link_name(id);
    const std::size_t start = name.find(' ', 5) + 1;  // behind "node 3 "
    return name.compare(start, std::string::npos, place) == 0;
  }
  const std::string& from = node.parts[link.from].name;
  const std::string& to = node.parts[link.to].name;
  if (place.starts_with("nic "))
    return link.link.kind == LinkKind::nic && (from == place || to == place);
  for (const LinkKind kind : {LinkKind::nvlink, LinkKind::xgmi, LinkKind::pcie})
    if (link.link.kind == kind)
      for (const std::string& part : {from, to})
        if (part.starts_with("gpu ") && part + ' ' + std::string(word(kind)) == place) return true;
  return false;
}

std::vector<LinkId> node_links(const Cluster& cluster, std::string_view where,
                               std::string_view place) {
  const Cluster::Data& data = cluster.data();
  const std::optional<int> node = take_number(place);
  if (!node || *node >= data.nodes)
    throw std::invalid_argument(fmt::format("\"{}\": nodes are 0 to {}", where, data.nodes - 1));
  std::vector<LinkId> found;
  const std::uint32_t base = static_cast<std::uint32_t>(*node) * data.links_per_node();
  const NodeTemplate& parts = data.pool_of(*node).node;
  const auto links = static_cast<std::uint32_t>(parts.links.size());
  for (std::uint32_t k = 0; k < links; ++k)
    if (means(cluster, LinkId{base + k}, parts.links[k], place)) found.push_back(LinkId{base + k});
  if (found.empty()) {
    std::string names;
    for (std::uint32_t k = 0; k < links; ++k)
      names += (k > 0 ? ", " : "") + cluster.link_name(LinkId{base + k}).substr(5);
    if (names.size() > 400) names = names.substr(0, names.rfind(',', 400)) + ", ...";
    throw std::invalid_argument(
        fmt::format("\"{}\" names no link; use \"node {} nic N\" (0 to {}), \"node {} gpu N "
                    "nvlink\" or \"... pcie\" (0 to {}), or one of: {}",
                    where, *node, static_cast<int>(parts.nics.size()) - 1, *node,
                    parts.gpus.size() - 1, names));
  }
  return found;
}

}  // namespace

void Cluster::apply(const LinkFault& fault) {
  SIM_CHECK(owned_ != nullptr);
  if (!(fault.factor >= 0 && fault.factor <= 1))
    throw std::invalid_argument(fmt::format("\"{}\": the factor is {:g}; allowed: 0 (dead) to 1",
                                            fault.where, fault.factor));
  std::vector<LinkId> places;
  if (const auto place = after(fault.where, "fabric "))
    places = fabric_links(*this, *place);
  else if (const auto in_node = after(fault.where, "node "))
    places = node_links(*this, fault.where, *in_node);
  else
    throw std::invalid_argument(fmt::format(
        "\"{}\" names no link; places are \"node N nic N\", \"node N gpu N nvlink\" and \"fabric "
        "NAME\"",
        fault.where));
  for (const LinkId id : places)
    degrade(id, fault.factor);
}

void Cluster::degrade(LinkId id, double factor) {
  Link changed = link(id);
  changed.capacity = changed.capacity * factor;
  data_->changed_links.insert_or_assign(id.value, changed);
  if (factor > 0) return;
  if (id.value >= data_->fabric_base()) {
    data_->fabric.kill(id.value - data_->fabric_base());
    return;
  }
  const auto node = static_cast<int>(id.value / data_->links_per_node());
  std::vector<bool>& dead = data_->dead_in_node[node];
  dead.resize(data_->pool_of(node).node.links.size());
  dead[id.value % data_->links_per_node()] = true;
  data_->routes_of_node.insert_or_assign(node, node_routes(data_->pool_of(node).node, dead));
}

}  // namespace sim
