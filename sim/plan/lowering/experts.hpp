// Routers, and the way of tokens to experts and back.
#pragma once

#include "sim/plan/lowering/block_part.hpp"

namespace sim::lowering {

class ExpertPass : BlockPart {
 public:
  explicit ExpertPass(BlockTools& tools) : BlockPart{tools} {}

  void allocate_expert_workspaces();
  void intern_experts(const ShardedOp& op, ExpertWork& work);
  Value forward_router(Frame& frame, std::size_t i, Value x);
  Value backward_router(Frame& frame, std::size_t i, Value gradient);
  Value send_to_experts(Frame& frame, std::size_t i, const Value& x);
  Value bring_from_experts(Frame& frame, std::size_t i, const Value& x);
  void weigh_choices(Frame& frame, std::size_t i);
  void weigh_choices_backward(const Frame& frame, std::size_t i);

 private:
  Value move_tokens(const Frame& frame, std::size_t i, const Value& x, std::uint32_t kernel,
                    Bytes bytes, Action action = Action::move_tokens);
  Value exchange_tokens(const Frame& frame, std::size_t i, const Value& x, std::uint32_t work,
                        std::uint32_t name, Bytes bytes);
  void send_weights(const Frame& frame, std::size_t i);
  void scatter_weights(const Frame& frame, std::size_t i);
  void return_weights(const Frame& frame, std::size_t i);

  Value choice_weights_, choice_gradient_;  // on their way between router and experts
};

}  // namespace sim::lowering
