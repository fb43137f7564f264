#include "sim/schedule/rank_messages.hpp"

#include <algorithm>
#include <map>

namespace sim {
namespace {

std::size_t index_of(Peer peer) {
  return static_cast<std::size_t>(peer);
}
Peer peer_at(int step) {
  return step > 0 ? Peer::next_stage : Peer::previous_stage;
}
bool has_messages(const Slot& slot) {
  return slot.kind != SlotKind::weight_backward;
}

}  // namespace

RankMessages::RankMessages(const Layout& layout, const PipelineOrder& order, int rank)
    : placement_{layout},
      rank_{rank},
      ranks_{layout.pipeline_parallel},
      wait_long_{rules_of(layout.schedule).sends_beside},
      slots_{order.ranks[static_cast<std::size_t>(rank)]} {
  if (ranks_ == 1) return;
  for (std::uint32_t i = 0; i < slots_.size(); ++i)
    if (const auto message = into(slots_[i])) received_[index_of(message->peer)].push_back(i);
  if (!wait_long_) return;  // there both orders are the same
  begins_ = order.begins[static_cast<std::size_t>(rank)];
  for (const Peer peer : {Peer::next_stage, Peer::previous_stage}) {
    order_as_sent(order, peer);
    find_asked(order, peer);
  }
}

// Over the boundary before (side -1) or behind (+1) a chunk of this rank.
std::optional<SlotMessage> RankMessages::across(int chunk, int side) const {
  const int boundary = side < 0 ? chunk : chunk + 1;
  if (boundary == 0 || boundary == placement_.chunks()) return std::nullopt;
  const int step = side * placement_.step_behind(boundary - 1);
  if (step == 0) return std::nullopt;
  return SlotMessage{peer_at(step), boundary};
}

std::optional<SlotMessage> RankMessages::into(const Slot& slot) const {
  if (!has_messages(slot)) return std::nullopt;
  return across(placement_.chunk_of(rank_, slot.chunk), is_forward(slot) ? -1 : +1);
}

std::optional<SlotMessage> RankMessages::out_of(const Slot& slot) const {
  if (!has_messages(slot)) return std::nullopt;
  return across(placement_.chunk_of(rank_, slot.chunk), is_forward(slot) ? +1 : -1);
}

std::span<const std::uint32_t> RankMessages::received_from(Peer peer) const {
  return received_[index_of(peer)];
}

int RankMessages::asked_for(Peer to, std::size_t message) const {
  return asked_[index_of(to)][message];
}

RankMessages::Key RankMessages::sent_by(const Slot& slot, int rank) const {
  return {is_forward(slot) ? 1 : -1, placement_.chunk_of(rank, slot.chunk), slot.microbatch};
}

RankMessages::Key RankMessages::used_by(const Slot& slot, int rank) const {
  Key key = sent_by(slot, rank);
  key[1] -= key[0];
  return key;
}

int RankMessages::neighbour(Peer peer) const {
  return (rank_ + (peer == Peer::next_stage ? 1 : ranks_ - 1)) % ranks_;
}

void RankMessages::order_as_sent(const PipelineOrder& order, Peer from) {
  const int sender = neighbour(from);
  const std::vector<Slot>& sends = order.ranks[static_cast<std::size_t>(sender)];
  std::map<Key, std::size_t> sent;
  for (std::size_t i = 0; i < sends.size(); ++i)
    if (has_messages(sends[i])) sent[sent_by(sends[i], sender)] = i;
  const auto when = [&](std::uint32_t slot) { return sent.at(used_by(slots_[slot], rank_)); };
  std::vector<std::uint32_t>& received = received_[index_of(from)];
  std::sort(received.begin(), received.end(),
            [&](std::uint32_t a, std::uint32_t b) { return when(a) < when(b); });
}

// The neighbour asks for a message when it needs that or a later one.
void RankMessages::find_asked(const PipelineOrder& order, Peer to) {
  const int receiver = neighbour(to);
  const std::vector<Slot>& uses = order.ranks[static_cast<std::size_t>(receiver)];
  const std::vector<int>& begins = order.begins[static_cast<std::size_t>(receiver)];
  std::map<Key, int> needed;
  for (std::size_t i = 0; i < uses.size(); ++i)
    if (has_messages(uses[i])) needed[used_by(uses[i], receiver)] = begins[i];
  std::vector<int>& asked = asked_[index_of(to)];
  for (const Slot& slot : slots_) {
    const auto message = out_of(slot);
    if (message && message->peer == to) asked.push_back(needed.at(sent_by(slot, rank_)));
  }
  for (std::size_t i = asked.size(); i-- > 1;)
    asked[i - 1] = std::min(asked[i - 1], asked[i]);
}

}  // namespace sim
