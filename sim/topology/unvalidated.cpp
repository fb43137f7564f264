#include "sim/topology/unvalidated.hpp"

#include <set>

namespace sim {

std::vector<Unvalidated> unvalidated(const Cluster& cluster) {
  std::vector<Unvalidated> parts;
  std::set<std::string> named;
  for (std::size_t pool = 0; pool < cluster.pools(); ++pool) {
    const Cluster view = cluster.of_pool(pool);
    const Device& device = view.device();
    if (!device.not_validated.empty() && named.insert(device.name).second)
      parts.push_back({"device", device.name, device.not_validated});
  }
  if (!cluster.not_validated().empty())
    parts.push_back({"cluster", cluster.name(), cluster.not_validated()});
  return parts;
}

std::string unvalidated_line(std::span<const Unvalidated> parts) {
  std::string names;
  for (const Unvalidated& part : parts)
    names += (names.empty() ? "" : ", ") + part.what + ' ' + part.name;
  return names.empty() ? names : "not validated: no measurement of training stands behind " + names;
}

}  // namespace sim
