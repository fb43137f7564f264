// Routers, and the way of tokens to experts and back.
#pragma once

#include "sim/plan/block/block_part.hpp"
#include "sim/plan/tape/tape_player.hpp"

namespace sim::lowering {

class ExpertPass : BlockPart {
 public:
  ExpertPass(BlockTools& tools, TapePlayer& tapes) : BlockPart{tools}, tapes_{tapes} {}

  void allocate_expert_workspaces();
  Value forward_router(Frame& frame, std::size_t i, Value x);
  Value backward_router(Frame& frame, std::size_t i, Value gradient);
  Value send_to_experts(Frame& frame, std::size_t i, const Value& x);
  Value bring_from_experts(Frame& frame, std::size_t i, const Value& x);
  void weigh_choices(Frame& frame, std::size_t i);
  void weigh_choices_backward(const Frame& frame, std::size_t i);

  // The steps of send_to_experts() and of bring_from_experts().
  Value leave_for_experts(Frame& frame, std::size_t i, const Value& x);
  Value exchange_to_experts(Frame& frame, std::size_t i, const Value& x);
  Value arrive_at_experts(Frame& frame, std::size_t i, const Value& x);
  Value leave_experts(Frame& frame, std::size_t i, const Value& x);
  Value exchange_from_experts(Frame& frame, std::size_t i, const Value& x);
  Value arrive_from_experts(Frame& frame, std::size_t i, const Value& x);

 private:
  static const TokenWays& ways(const Frame& frame, std::size_t i);
  Value play(Frame& frame, std::size_t i, const Tape& tape, const Value& x);

  TapePlayer& tapes_;
  Value choice_weights_, choice_gradient_;  // on their way between router and experts
  OpId chosen_{none};                       // the kernel that made the choice of a forward pass
};

}  // namespace sim::lowering
