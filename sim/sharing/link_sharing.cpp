#include "sim/sharing/link_sharing.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace sim {
namespace {

// value * part / whole, rounded down. Most transfers run at their full rate, and a division of 128
// bits takes as long as all else that happens to one.
std::int64_t scaled(std::int64_t value, std::int64_t part, std::int64_t whole) {
  if (part == whole) return value;
  return static_cast<std::int64_t>(static_cast<WideInt>(value) * part / whole);
}

}  // namespace

LinkSharing::LinkSharing(std::span<const std::int64_t> capacities) : links_(capacities.size()) {
  capacities_.reserve(capacities.size());
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    capacities_.push_back(static_cast<WideInt>(capacities[i]) << 16);
    links_[i].free = capacities_.back();
  }
}

void LinkSharing::add_user(LinkState& link, TransferId id) {
  if (link.users < near_users) {
    link.near[link.users++] = id;
    return;
  }
  if (link.further == no_list) {
    link.further = static_cast<std::uint32_t>(further_users_.size());
    further_users_.emplace_back();
  }
  further_users_[link.further].push_back(id);
  ++link.users;
}

void LinkSharing::remove_user(LinkState& link, TransferId id) {
  std::uint32_t at = 0;
  while (at < link.users && user(link, at) != id)
    ++at;
  SIM_CHECK(at < link.users, id);
  user(link, at) = user(link, link.users - 1);
  if (--link.users >= near_users) further_users_[link.further].pop_back();
}

void LinkSharing::set_dirty(std::uint32_t link) {
  if (links_[link].dirty) return;
  links_[link].dirty = 1;
  dirty_.push_back(link);
}

void LinkSharing::start(TransferId id, const Transfer& transfer, TimePoint now) {
  const std::int64_t full_rate = transfer.full_rate;
  SIM_CHECK(full_rate > 0 && transfer.flows > 0, full_rate, transfer.flows);
  if (id >= transfers_.size()) transfers_.resize(id + 1);
  transfers_[id] = {.uses = transfer.uses,
                    .full_rate = full_rate,
                    .flows = transfer.flows,
                    .level = full_rate,
                    .remaining = transfer.full_time.count(),
                    .updated = now,
                    .mark = epoch_,
                    .fresh = true};
  fresh_.push_back(id);
  for (const ResourceUse& use : transfer.uses) {
    LinkState& link = links_[use.resource];
    if (link.users == 0) link.busy_since = now;
    add_user(link, id);
    link.free -= static_cast<WideInt>(use.weight) * full_rate;
    if (over_asked(link)) set_dirty(use.resource);
  }
}

void LinkSharing::finish(TransferId id, TimePoint now) {
  TransferState& transfer = transfers_[id];
  for (const ResourceUse& use : transfer.uses) {
    LinkState& link = links_[use.resource];
    if (over_asked(link)) set_dirty(use.resource);
    link.free += static_cast<WideInt>(use.weight) * transfer.full_rate;
    remove_user(link, id);
    if (link.users == 0) link.busy += now - link.busy_since;
  }
  transfer.uses = {};
}

void LinkSharing::visit_transfer(TransferId id) {
  TransferState& transfer = transfers_[id];
  if (transfer.mark == epoch_) return;
  transfer.mark = epoch_;
  component_.push_back(id);
  for (const ResourceUse& use : transfer.uses) {
    LinkState& link = links_[use.resource];
    if (link.mark == epoch_ || !over_asked(link)) continue;
    link.mark = epoch_;
    component_links_.push_back(use.resource);
  }
}

void LinkSharing::collect_component(std::uint32_t link) {
  if (links_[link].mark == epoch_) return;
  component_.clear();
  component_links_.clear();
  links_[link].mark = epoch_;
  component_links_.push_back(link);
  for (std::size_t next = 0; next < component_links_.size(); ++next) {
    LinkState& reached = links_[component_links_[next]];
    for (std::uint32_t i = 0; i < reached.users; ++i)
      visit_transfer(user(reached, i));
  }
}

void LinkSharing::build_problem() {
  problem_.clear();
  for (const std::uint32_t link : component_links_) {
    links_[link].local = static_cast<std::uint32_t>(problem_.capacities.size()) & 0x7fffffffU;
    problem_.capacities.push_back(capacities_[link]);
  }
  for (const TransferId id : component_) {
    problem_.caps.push_back(transfers_[id].full_rate);
    problem_.flows.push_back(transfers_[id].flows);
    for (const ResourceUse& use : transfers_[id].uses)
      if (links_[use.resource].mark == epoch_)
        problem_.uses.push_back({links_[use.resource].local, use.weight});
    problem_.first_use.push_back(static_cast<std::uint32_t>(problem_.uses.size()));
  }
}

void LinkSharing::set_level(TransferId id, std::int64_t level, TimePoint now) {
  TransferState& transfer = transfers_[id];
  if (!transfer.fresh && transfer.level == level) return;
  const std::int64_t done =
      scaled((now - transfer.updated).count(), transfer.level, transfer.full_rate);
  transfer.remaining = std::max<std::int64_t>(0, transfer.remaining - done);
  transfer.updated = now;
  transfer.level = level;
  transfer.fresh = false;
  if (level == 0) {
    changes_.push_back({id, TimePoint::max()});
    return;
  }
  std::int64_t left = transfer.remaining;
  if (level != transfer.full_rate)
    left = static_cast<std::int64_t>((static_cast<WideInt>(left) * transfer.full_rate + level - 1) /
                                     level);
  changes_.push_back({id, now + Duration{left}});
}

void LinkSharing::move(Duration by, std::uint64_t periods, std::span<const Duration> before,
                       std::span<const Duration> after) {
  for (TransferState& transfer : transfers_)
    transfer.updated += by;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    links_[i].busy += static_cast<std::int64_t>(periods) * (after[i] - before[i]);
    links_[i].busy_since += by;
  }
}

std::span<const LinkSharing::Change> LinkSharing::settle(TimePoint now) {
  changes_.clear();
  if (!dirty_.empty()) {
    ++epoch_;
    for (const std::uint32_t link : dirty_) {
      links_[link].dirty = 0;
      collect_component(link);
      build_problem();
      const std::span<const std::int64_t> levels = solver_.solve(problem_);
      for (std::size_t i = 0; i < component_.size(); ++i)
        set_level(component_[i], levels[i], now);
      component_.clear();
      component_links_.clear();
    }
    dirty_.clear();
  }
  for (const TransferId id : fresh_)
    if (transfers_[id].fresh) set_level(id, transfers_[id].full_rate, now);
  fresh_.clear();
  return changes_;
}

}  // namespace sim
