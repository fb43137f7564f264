// The messages of one pipeline rank, as they follow from placement and order: what each slot
// receives and sends, and in which order messages arrive.
//
// Messages to a neighbour, activations or gradients, share one queue: they arrive in the order in
// which they were sent. Where a rank uses messages in another order, it asks for them in the order
// of the sender, and for earlier ones with the first that it needs (PyTorch,
// distributed/pipelining/schedules.py, _add_send_recv, places them likewise).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/program/op_work.hpp"
#include "sim/schedule/pipeline_order.hpp"
#include "sim/schedule/placement.hpp"

namespace sim {

// Between chunk `boundary` - 1 and chunk `boundary`.
struct SlotMessage {
  Peer peer = Peer::next_stage;
  int boundary = 0;
};

class RankMessages {
 public:
  RankMessages(const Layout& layout, const PipelineOrder& order, int rank);

  // The message that a slot starts from, and the one that carries its result, if these cross ranks.
  std::optional<SlotMessage> into(const Slot& slot) const;
  std::optional<SlotMessage> out_of(const Slot& slot) const;
  // The slots of this rank that use messages of a neighbour, in the order in which it sends them.
  std::span<const std::uint32_t> received_from(Peer peer) const;

  // Whether a message may wait long until it is used. Where not, few slots lie between.
  bool wait_long() const { return wait_long_; }
  // REQUIRES: wait_long(). When slot i begins if all take equally long, and when the n-th message
  // to a neighbour is asked for at the latest.
  int begin_of(std::size_t slot) const { return begins_[slot]; }
  int asked_for(Peer to, std::size_t message) const;

 private:
  using Key = std::array<int, 3>;  // direction, chunk that sends, micro-batch
  std::optional<SlotMessage> across(int chunk, int side) const;
  Key sent_by(const Slot& slot, int rank) const;
  Key used_by(const Slot& slot, int rank) const;
  int neighbour(Peer peer) const;
  void order_as_sent(const PipelineOrder& order, Peer from);
  void find_asked(const PipelineOrder& order, Peer to);

  Placement placement_;
  int rank_, ranks_;
  bool wait_long_;
  std::vector<Slot> slots_;
  std::vector<int> begins_;
  std::array<std::vector<std::uint32_t>, 2> received_;  // by Peer
  std::array<std::vector<int>, 2> asked_;
};

}  // namespace sim
