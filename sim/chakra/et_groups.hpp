// The communicators of execution traces as those of a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/chakra/run.hpp"
#include "sim/plan/plan.hpp"

namespace sim {

// The stream of a communicator, the same on all its ranks: one for each, as far as there are.
Stream stream_of_group(GroupRole role);

// EtGroups fills Plan::groups and group_of as collectives ask for them. A plan names the
// communicators of a rank by role; those of traces have none, and take the roles in turn.
class EtGroups {
 public:
  // Both must outlive it.
  EtGroups(const EtRun& run, Plan& plan);

  // The role of a collective's group. Empty: the group is this rank alone. Throws InputError.
  std::optional<GroupRole> role_of(std::uint32_t rank, const EtNode& node);
  // REQUIRES: a role that role_of() has given the rank.
  std::size_t size_of(std::uint32_t rank, GroupRole role) const;

  [[noreturn]] void fail(std::uint32_t rank, const EtNode& node, const std::string& what) const;

 private:
  const std::vector<RankId>& members_of(std::uint32_t rank, const EtNode& node) const;
  bool is_free(const std::vector<RankId>& ranks, GroupRole role) const;
  std::optional<GroupRole> free_role(const std::vector<RankId>& ranks) const;
  std::string names() const;

  const EtRun& run_;
  Plan& plan_;
  std::map<std::vector<RankId>, GroupRole> role_;  // of the groups of the plan
  std::vector<RankId> all_;
};

}  // namespace sim
