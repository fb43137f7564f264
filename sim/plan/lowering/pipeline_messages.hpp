// Messages between pipeline stages.
#pragma once

#include <array>
#include <vector>

#include "sim/plan/lowering/lowering_context.hpp"
#include "sim/schedule/rank_messages.hpp"

namespace sim::lowering {

struct Boundary {        // the tensor between two chunks
  Bytes message{};       // sent by a rank
  Bytes tensor{};        // needed by the receiver
  bool gathers = false;  // the receiver's tensor group puts it together
};

class PipelineMessages : StagePart {
 public:
  PipelineMessages(LoweringContext& context, const PipelineOrder& order);

  // Asks for what the slot under way, which begins, needs.
  void begin_slot();
  // Called before the kernels of a slot, for messages that the host waits for.
  void wait_for_messages();
  // The input of the slot under way; none where the model begins, or the loss.
  Value received(const Slot& slot);
  void pass_on(const Slot& slot, const Value& value);
  // Without overlap the interleaved schedule sends the output of a forward pass behind the
  // backward pass that follows: whether the slot under way is such a forward pass.
  bool leads_pair() const { return leads_pair(context_.slot); }
  void send_behind_pair(const Value& output);
  void send_waiting_forward();
  // Kernels that follow wait for the sends that the framework does not run beside compute. The
  // next slot does so when its receives are posted, since the neighbours wait in the same way.
  void wait_for_sends();

 private:
  // Messages of a slot: whether kernels go on beside what it sends; whether its input is asked for
  // one slot ahead.
  struct Messages {
    bool sent_beside = false, received_ahead = false;
  };
  Messages messages_of(std::size_t slot) const;
  Boundary boundary(int chunk, int microbatch) const;
  bool leads_pair(std::size_t index) const;
  bool received_ahead(std::size_t slot) const;
  Value& turning(const Slot& slot);
  void post_receives();
  void post_receive(std::size_t slot);
  void post_in_order(std::size_t slot, const SlotMessage& from);
  Value gather_received(const Slot& slot, const Value& part, Bytes tensor);
  void send(const Slot& slot, const SlotMessage& message, const Value& value);
  void wait_for_old_sends(Stream stream, std::size_t slot);
  void wait_for_taken_sends(Stream stream);

  RankMessages messages_;
  bool has_messages_ = false;  // since the host has waited for some
  Value waiting_output_;       // of a forward pass that leads a pair: sent after the pair
  std::size_t waiting_slot_ = 0;
  std::vector<OpId> awaited_sends_;  // see wait_for_sends
  std::vector<Value> posted_;        // messages that were asked for, by slot
  // By neighbour: how many of its messages were asked for; what was sent to it, and how many of
  // these it has asked for by now, where messages may wait long.
  std::array<std::size_t, 2> asked_for_{}, taken_{};
  std::array<std::vector<OpId>, 2> sent_;
  // By direction and micro-batch: what goes on from a chunk to the next one of this rank.
  std::array<std::vector<Value>, 2> turning_;
  // Before each slot: the sends issued last, by direction; none: there was none.
  std::vector<std::array<OpId, 2>> sent_before_slot_;
};

}  // namespace sim::lowering
