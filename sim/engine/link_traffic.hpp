// Traffic of each link of the machine in a step, and for whom. A timeline of a folded machine has
// one link of each class of equal ones (fold.hpp); here every link finds its class.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/engine/system.hpp"

namespace sim {

// Communicators of one role, or messages between pipeline neighbours, that use a link.
struct LinkUser {
  std::string_view purpose;     // word of GroupRole, or of the send's Stream
  bool point_to_point = false;  // then `ranks` are sender and receiver
  std::uint64_t channels = 0;   // communicators, or pairs
  std::vector<RankId> ranks{};  // of the first of them
};

class LinkTraffic {
 public:
  // REQUIRES: `timeline` was simulated of this plan on this cluster with these options.
  // Throws Stopped.
  LinkTraffic(const Plan& plan, const Cluster& cluster, const SimulationOptions& options,
              const Timeline& timeline, const Control& control = {});

  // The load of a link; null: it carries nothing. All links of a class have that of its
  // representative.
  const LinkLoad* load(LinkId link) const;
  std::vector<LinkUser> users(LinkId link) const;

 private:
  static constexpr std::uint32_t no_load = UINT32_MAX;
  System whole_;
  std::vector<LinkLoad> loads_;
  std::vector<std::uint32_t> load_of_link_;  // by link id: index into `loads_`
};

}  // namespace sim
