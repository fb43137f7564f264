#include "sim/engine/link_traffic.hpp"

#include <algorithm>

#include "sim/engine/fold.hpp"

namespace sim {
namespace {

bool is_folded(const Timeline& timeline) {
  return std::any_of(timeline.links.begin(), timeline.links.end(),
                     [](const LinkLoad& load) { return load.represents > 1; });
}

bool uses(const System& system, const Channel& channel, LinkId link) {
  for (const Pattern& pattern : system.patterns_of(channel))
    for (const ResourceUse& use : system.uses_of(pattern))
      if (system.resources[use.resource].link == link) return true;
  return false;
}

// Role of a communicator, or stream of a message: they never mix.
std::string_view purpose_of(const Channel& channel) {
  const auto roles = static_cast<std::uint32_t>(group_role_count);
  return channel.purpose < roles ? word(static_cast<GroupRole>(channel.purpose))
                                 : word(static_cast<Stream>(channel.purpose - roles));
}

LinkUser user_of(const System& system, const Channel& channel) {
  LinkUser user{.purpose = purpose_of(channel), .point_to_point = channel.point_to_point};
  for (const std::uint32_t member : system.members_of(channel))
    user.ranks.push_back(system.slots[member].rank);
  return user;
}

}  // namespace

LinkTraffic::LinkTraffic(const Plan& plan, const Cluster& cluster, const SimulationOptions& options,
                         const Timeline& timeline, const Control& control)
    : whole_{wire(plan, cluster, options, control)},
      loads_{timeline.links},
      load_of_link_(cluster.link_count(), no_load) {
  for (std::uint32_t i = 0; i < loads_.size(); ++i)
    load_of_link_[loads_[i].link.value] = i;
  if (!is_folded(timeline)) return;
  const std::vector<std::uint32_t> first = representatives(whole_, control);
  for (std::size_t r = 0; r < whole_.resources.size(); ++r)
    load_of_link_[whole_.resources[r].link.value] =
        load_of_link_[whole_.resources[first[r]].link.value];
}

const LinkLoad* LinkTraffic::load(LinkId link) const {
  const std::uint32_t load = load_of_link_[link.value];
  return load == no_load ? nullptr : &loads_[load];
}

std::vector<LinkUser> LinkTraffic::users(LinkId link) const {
  std::vector<LinkUser> users;
  for (const Channel& channel : whole_.channels) {
    if (!uses(whole_, channel, link)) continue;
    const std::string_view purpose = purpose_of(channel);
    auto known = std::find_if(users.begin(), users.end(),
                              [&](const LinkUser& user) { return user.purpose == purpose; });
    if (known == users.end()) known = users.insert(known, user_of(whole_, channel));
    ++known->channels;
  }
  return users;
}

}  // namespace sim
