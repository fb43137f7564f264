#include "sim/chakra/et_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/base/input_error.hpp"

namespace sim {
namespace {

// For groups of some ranks. That of all ranks is `world`.
constexpr std::array roles_of_groups{
    GroupRole::data,          GroupRole::tensor,          GroupRole::context, GroupRole::expert,
    GroupRole::expert_tensor, GroupRole::expert_data,     GroupRole::shard,   GroupRole::replicate,
    GroupRole::expert_shard,  GroupRole::expert_replicate};
constexpr std::array streams_of_groups{Stream::data_comm, Stream::tensor_comm,
                                       Stream::context_comm};

}  // namespace

Stream stream_of_group(GroupRole role) {
  const auto* const at = std::find(roles_of_groups.begin(), roles_of_groups.end(), role);
  return streams_of_groups[static_cast<std::size_t>(at - roles_of_groups.begin()) %
                           streams_of_groups.size()];
}

EtGroups::EtGroups(const EtRun& run, Plan& plan) : run_{run}, plan_{plan} {
  std::array<std::uint32_t, group_role_count> none;
  none.fill(Plan::no_group);
  plan_.group_of.assign(run.ranks.size(), none);
  for (std::uint32_t rank = 0; rank < run.ranks.size(); ++rank)
    all_.push_back({rank});
}

std::optional<GroupRole> EtGroups::role_of(std::uint32_t rank, const EtNode& node) {
  const std::vector<RankId>& ranks = members_of(rank, node);
  if (ranks.size() < 2) return std::nullopt;
  if (const auto known = role_.find(ranks); known != role_.end()) return known->second;
  const std::optional<GroupRole> role = free_role(ranks);
  if (!role)
    fail(rank, node,
         fmt::format("a rank is in more than {} groups that overlap", roles_of_groups.size()));
  for (const RankId member : ranks)
    plan_.group_of[member.value][static_cast<std::size_t>(*role)] =
        static_cast<std::uint32_t>(plan_.groups.size());
  plan_.groups.push_back({*role, ranks});
  role_.emplace(ranks, *role);
  return role;
}

std::size_t EtGroups::size_of(std::uint32_t rank, GroupRole role) const {
  return plan_.groups[plan_.group_of[rank][static_cast<std::size_t>(role)]].ranks.size();
}

void EtGroups::fail(std::uint32_t rank, const EtNode& node, const std::string& what) const {
  throw InputError{SourcePosition{run_.ranks[rank].path, 0, 0},
                   fmt::format("node {} ('{}'): {}", node.id, node.name, what)};
}

const std::vector<RankId>& EtGroups::members_of(std::uint32_t rank, const EtNode& node) const {
  const auto known = run_.groups.find(node.group);
  if (known != run_.groups.end()) {
    if (!std::binary_search(known->second.begin(), known->second.end(), RankId{rank}))
      fail(rank, node, fmt::format("rank {} is not in its group '{}'", rank, node.group));
    return known->second;
  }
  if (!node.group.empty() && node.group != "0")
    fail(rank, node, fmt::format("there is no group '{}'; known are {}", node.group, names()));
  if (std::find(node.dimensions.begin(), node.dimensions.end(), false) != node.dimensions.end())
    fail(rank, node,
         "involved_dim leaves dimensions of the network out; name the ranks as a "
         "process group (pg_name)");
  return all_;
}

bool EtGroups::is_free(const std::vector<RankId>& ranks, GroupRole role) const {
  return std::all_of(ranks.begin(), ranks.end(), [&](RankId rank) {
    return plan_.group_of[rank.value][static_cast<std::size_t>(role)] == Plan::no_group;
  });
}

std::optional<GroupRole> EtGroups::free_role(const std::vector<RankId>& ranks) const {
  if (ranks.size() == run_.ranks.size()) return GroupRole::world;
  const auto* const found = std::find_if(roles_of_groups.begin(), roles_of_groups.end(),
                                         [&](GroupRole role) { return is_free(ranks, role); });
  return found == roles_of_groups.end() ? std::nullopt : std::optional{*found};
}

std::string EtGroups::names() const {
  constexpr std::size_t most = 8;
  std::string list;
  std::size_t shown = 0;
  for (const auto& [name, ranks] : run_.groups) {
    if (shown == most) return list + ", ...";
    list += fmt::format("{}{}", shown++ == 0 ? "" : ", ", name);
  }
  return list.empty() ? "none: a metadata node or comm_groups.json tells them" : list;
}

}  // namespace sim
