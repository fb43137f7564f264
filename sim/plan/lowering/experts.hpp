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

  // The steps of send_to_experts() and of bring_from_experts().
  Value leave_for_experts(Frame& frame, std::size_t i, const Value& x);
  Value exchange_to_experts(const Frame& frame, std::size_t i, const Value& x);
  Value arrive_at_experts(Frame& frame, std::size_t i, const Value& x);
  Value leave_experts(Frame& frame, std::size_t i, const Value& x);
  Value exchange_from_experts(const Frame& frame, std::size_t i, const Value& x);
  Value arrive_from_experts(Frame& frame, std::size_t i, const Value& x);

 private:
  void intern_gather(const ShardedOp& op, ExpertWork& work);
  void intern_fused(const ShardedOp& op, ExpertWork& work);
  void intern_titan(const ShardedOp& op, ExpertWork& work);
  void gradient_of_weights(const Frame& frame, std::size_t i);
  void weigh_what_came(Frame& frame, std::size_t i);
  // Recomputation by operators keeps what exchanges have brought.
  bool has_kept_exchanges(const Frame& frame) const;
  Value exchange_counts(const Frame& frame, std::size_t i);
  Value move_tokens(const Frame& frame, std::size_t i, const Value& x, std::uint32_t kernel,
                    Bytes bytes, Action action = Action::move_tokens);
  bool runs_beside() const;
  OpId issue(const Frame& frame, std::size_t i, std::uint32_t work, std::uint32_t name,
             const Value& x);
  Value exchange_tokens(const Frame& frame, std::size_t i, const Value& x, std::uint32_t work,
                        std::uint32_t name, Bytes bytes);
  // `weights`, which may be null, go with the tokens.
  Value exchange_fused(const Frame& frame, std::size_t i, std::uint32_t exchange, const Value& x,
                       Bytes bytes, Value* weights, Role role, Bytes weight_bytes);
  Value gather_map(const Frame& frame, std::size_t i);
  void move_weights(Value& weights, Role role, Bytes bytes);
  void wait_for_counts(const Frame& frame, std::size_t i, OpId known);
  void send_weights(const Frame& frame, std::size_t i);
  void scatter_weights(const Frame& frame, std::size_t i);
  void return_weights(const Frame& frame, std::size_t i);

  Value choice_weights_, choice_gradient_;  // on their way between router and experts
  OpId chosen_{none};                       // the kernel that made the choice of a forward pass
};

}  // namespace sim::lowering
