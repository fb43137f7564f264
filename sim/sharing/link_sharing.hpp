// Transfers that share links, polled for what changes.
//
// A transfer has work (its time at full rate), a full rate in bytes/s, and a weight on each link it
// uses (65536: all its bytes pass). At level x <= full rate it progresses at x / full rate of full
// speed. It consists of equal flows (queue pairs between adapters, a thread block's stores on
// NVLink), and what is max-min fair over the links is the rate of a flow (max_min.hpp): of a link
// that both fill, n flows get n times what one gets.
//
// Invariants:
//  1. A link whose transfers together stay within its capacity at full rate constrains nobody; only
//     over-asked links are given to the solver, and only the connected part that an arrival or a
//     departure touches.
//  2. A transfer ends at its computed end time, never because what remains is small. What remains
//     is recomputed only when its level changes.
//  3. settle() is called once per instant, after all arrivals and departures of that instant.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/sharing/max_min.hpp"

namespace sim {

class LinkSharing {
 public:
  using TransferId = std::uint32_t;  // chosen by the caller, small and dense

  // Capacities in bytes/s; 0 is a dead link: transfers over it never end.
  explicit LinkSharing(std::span<const std::int64_t> capacities);

  struct Transfer {
    std::span<const ResourceUse> uses;  // must outlive the transfer; each resource at most once
    std::int64_t full_rate = 0;
    std::int64_t flows = 1;
    Duration full_time{};
  };
  // REQUIRES: full_rate > 0, flows > 0.
  void start(TransferId id, const Transfer& transfer, TimePoint now);
  void finish(TransferId id, TimePoint now);

  // Transfers whose end time is new or has moved since the last settle().
  struct Change {
    TransferId id;
    TimePoint end;  // TimePoint::max(): stands still
  };
  std::span<const Change> settle(TimePoint now);

  std::int64_t level(TransferId id) const { return transfers_[id].level; }
  // Time during which a link had any transfer, up to the last departure.
  Duration busy(std::uint32_t link) const { return links_[link].busy; }

  // For a jump over periods that pass alike (sim/engine/JUMP.md). Time during which a link had any
  // transfer until now:
  Duration busy_until(std::uint32_t link, TimePoint now) const {
    const LinkState& state = links_[link];
    return state.users == 0 ? state.busy : state.busy + (now - state.busy_since);
  }
  struct Progress {
    std::int64_t level = 0, remaining = 0;
    TimePoint updated{};
  };
  Progress progress(TransferId id) const {
    const TransferState& transfer = transfers_[id];
    return {transfer.level, transfer.remaining, transfer.updated};
  }
  // Moves all transfers on by a duration of so many periods; a link was busy in each for as long as
  // between the two instants of which busy_until() is given. REQUIRES: settled.
  void move(Duration by, std::uint64_t periods, std::span<const Duration> before,
            std::span<const Duration> after);

 private:
  static constexpr std::uint32_t near_users = 4;
  static constexpr std::uint32_t no_list = UINT32_MAX;
  // A cache line: a large machine has a hundred thousand links, and what a start or an end costs is
  // fetching those it touches. Most links never have more users than fit here.
  struct alignas(64) LinkState {
    WideInt free = 0;  // capacity - sum of weight * full rate; below 0 it is over-asked
    TimePoint busy_since{};
    Duration busy{};
    std::array<TransferId, near_users> near{};
    std::uint32_t users = 0;
    std::uint32_t further = no_list;  // index into further_users_ of the users beyond `near`
    std::uint32_t mark = 0;           // epoch of the last visit by settle()
    std::uint32_t local : 31 = 0;     // index in the problem being built
    std::uint32_t dirty : 1 = 0;
  };
  static_assert(sizeof(LinkState) == 64);
  struct TransferState {
    std::span<const ResourceUse> uses;
    std::int64_t full_rate = 0;
    std::int64_t flows = 1;
    std::int64_t level = 0;
    std::int64_t remaining = 0;  // ps at full rate
    TimePoint updated{};
    std::uint32_t mark = 0;
    bool fresh = false;
  };

  static bool over_asked(const LinkState& link) { return link.free < 0; }
  void add_user(LinkState& link, TransferId id);
  void remove_user(LinkState& link, TransferId id);
  TransferId& user(LinkState& link, std::uint32_t i) {
    return i < near_users ? link.near[i] : further_users_[link.further][i - near_users];
  }
  void set_dirty(std::uint32_t link);
  void collect_component(std::uint32_t link);
  void visit_transfer(TransferId id);
  void build_problem();
  void set_level(TransferId id, std::int64_t level, TimePoint now);

  std::vector<LinkState> links_;
  std::vector<WideInt> capacities_;
  std::vector<std::vector<TransferId>> further_users_;
  std::vector<TransferState> transfers_;
  std::vector<TransferId> fresh_;
  std::vector<std::uint32_t> dirty_;
  std::vector<std::uint32_t> component_links_;
  std::vector<TransferId> component_;
  std::vector<Change> changes_;
  MaxMinProblem problem_;
  MaxMinSolver solver_;
  std::uint32_t epoch_ = 0;
};

}  // namespace sim
