#include "sim/topology/unvalidated.hpp"

namespace sim {

std::vector<Unvalidated> unvalidated(const Cluster& cluster) {
  std::vector<Unvalidated> parts;
  const Device& device = cluster.device();
  if (!device.not_validated.empty()) parts.push_back({"device", device.name, device.not_validated});
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
