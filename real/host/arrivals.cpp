#include "real/host/arrivals.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <span>

namespace real {
namespace {

using sim::Action;
using sim::OpId;
using Times = std::vector<std::int64_t>;

// Messages with other ranks that are all waited for at once.
class Round {
 public:
  explicit Round(const ArrivalParts& parts) : parts_{parts} {}

  void send(int to, std::uint32_t channel, const Times& times) {
    if (!times.empty())
      add(parts_.transport.start_send(to, channel, std::as_bytes(std::span{times})));
  }
  void receive(int from, std::uint32_t channel, Times& times) {
    if (!times.empty())
      add(parts_.transport.start_receive(from, channel, std::as_writable_bytes(std::span{times})));
  }
  void wait() {
    for (Pending& message : messages_) {
      while (!message.done()) {
        if (parts_.heartbeat != nullptr) parts_.heartbeat->waiting();
        parts_.transport.idle();
      }
    }
    messages_.clear();
  }

 private:
  void add(Ticket ticket) { messages_.emplace_back(parts_.transport, ticket); }

  const ArrivalParts& parts_;
  std::deque<Pending> messages_;
};

Times begins_of(const std::vector<OpId>& ops, const std::vector<Moments>& moments) {
  Times times;
  times.reserve(ops.size());
  for (const OpId op : ops)
    times.push_back(moments[op.value].begin);
  return times;
}

void arrived(const std::vector<OpId>& ops, const Times& times, std::vector<Moments>& moments) {
  for (std::size_t i = 0; i < ops.size(); ++i) {
    Moments& own = moments[ops[i].value];
    own.active = std::clamp(times[i], own.active, own.end);
  }
}

// Members of a communicator issue the same collectives in the same order (sim/plan, check_plan).
void share_group(const ArrivalParts& parts, sim::GroupRole role, std::vector<Moments>& moments) {
  std::vector<OpId> ops;
  for (std::uint32_t i = 0; i < parts.program.ops.size(); ++i) {
    const sim::Collective* collective = parts.program.ops[i].collective;
    if (collective != nullptr && collective->group == role) ops.push_back(OpId{i});
  }
  const auto members = parts.communication.members(role);
  if (ops.empty() || members.size() < 2) return;
  const std::uint32_t channel =
      first_arrival_channel + parts.program.groups[static_cast<std::size_t>(role)].index;
  const Times own = begins_of(ops, moments);
  std::vector<Times> others(members.size(), Times(own.size()));
  Round round{parts};
  for (std::size_t m = 0; m < members.size(); ++m) {
    if (members[m] == parts.transport.rank()) continue;
    round.send(members[m], channel, own);
    round.receive(members[m], channel, others[m]);
  }
  round.wait();
  for (const Times& times : others)
    arrived(ops, times, moments);
}

// The sends of one direction meet the receives of the stage behind it, one to one.
void share_direction(const ArrivalParts& parts, bool forward, std::vector<Moments>& moments) {
  const std::uint32_t channel = first_arrival_channel + 0x01000000 + (forward ? 0 : 1);
  std::array<std::vector<OpId>, 2> ops;  // sends, receives
  std::array<int, 2> partner{};
  for (std::uint32_t i = 0; i < parts.program.ops.size(); ++i) {
    const BoundOp& op = parts.program.ops[i];
    const bool is_forward =
        op.stream == sim::Stream::forward_send || op.stream == sim::Stream::forward_recv;
    if (op.transfer == nullptr || is_forward != forward) continue;
    const std::size_t receives = op.action == Action::receive ? 1 : 0;
    const auto peer = static_cast<std::size_t>(op.transfer->peer);
    partner[receives] =
        static_cast<int>(parts.program.plan->peer_of[parts.program.rank.value][peer].value);
    ops[receives].push_back(OpId{i});
  }
  const std::array own{begins_of(ops[0], moments), begins_of(ops[1], moments)};
  std::array others{Times(own[0].size()), Times(own[1].size())};
  Round round{parts};
  for (std::size_t side = 0; side < 2; ++side) {
    // Two channels: one for a sender's times of its sends, one for a receiver's times of its
    // receives.
    const auto told = static_cast<std::uint32_t>(2 * side);
    round.send(partner[side], channel + told, own[side]);
    round.receive(partner[side], channel + 2 - told, others[side]);
  }
  round.wait();
  for (std::size_t side = 0; side < 2; ++side)
    arrived(ops[side], others[side], moments);
}

std::int64_t first_start(const ArrivalParts& parts, std::int64_t start) {
  const int size = parts.transport.size();
  const std::uint32_t channel = first_arrival_channel + 0x02000000;
  const Times own{start};
  std::vector<Times> others(static_cast<std::size_t>(size), own);
  Round round{parts};
  for (int rank = 0; rank < size; ++rank) {
    if (rank == parts.transport.rank()) continue;
    round.send(rank, channel, own);
    round.receive(rank, channel, others[static_cast<std::size_t>(rank)]);
  }
  round.wait();
  std::int64_t first = start;
  for (const Times& times : others)
    first = std::min(first, times[0]);
  return first;
}

}  // namespace

std::vector<sim::Span> share_arrivals(const ArrivalParts& parts, std::int64_t start,
                                      std::vector<Moments> moments) {
  for (const auto& entry : words_of(sim::GroupRole{}))
    share_group(parts, entry.value, moments);
  share_direction(parts, true, moments);
  share_direction(parts, false, moments);
  const std::int64_t origin = first_start(parts, start);
  const auto at = [&](std::int64_t moment) {
    return sim::TimePoint{std::chrono::nanoseconds{moment - origin}};
  };
  std::vector<sim::Span> spans;
  spans.reserve(moments.size());
  for (std::uint32_t i = 0; i < moments.size(); ++i) {
    const Moments& of = moments[i];
    spans.push_back(
        {.op = OpId{i}, .begin = at(of.begin), .active = at(of.active), .end = at(of.end)});
  }
  return spans;
}

}  // namespace real
