// The kernels of low-rank adapters beside their linears (sharding/low_rank.hpp).
#pragma once

#include "sim/plan/lowering/block_part.hpp"

namespace sim::lowering {

class LowRankAdapters : BlockPart {
 public:
  explicit LowRankAdapters(BlockTools& tools) : BlockPart{tools} {}

  void intern_adapter(const ShardedOp& op, AdapterWork& work);
  // Adds what the adapter makes of the input of a linear, all tokens of it, to its output; lets go
  // of the input.
  void add_output(Frame& frame, std::size_t i, const Value& input, Value& output);
  // The gradients of both factors, and of the input, which it returns.
  Value backward(Frame& frame, std::size_t i, const Value& gradient);
  // Adds that to the gradient that the linear has of it.
  void add_gradient(Frame& frame, std::size_t i, const Value& part, Value& sum);

 private:
  void take_norms(const Frame& frame, std::size_t i);
  Value dropped(const Frame& frame, std::size_t i, const Value& input);
  Value scaled_gradient(const Frame& frame, std::size_t i, const Value& gradient);
  OpId run(const Frame& frame, std::size_t i, std::uint32_t kernel);
  void exchange(const Frame& frame, std::size_t i, std::uint32_t collective, Value& tensor);
  enum class Factor : std::uint8_t { up, down };
  void weight_gradient(Frame& frame, std::size_t i, Factor factor, const Value& gradient);
  void sum_over_experts(const Frame& frame, std::size_t i, std::uint32_t collective,
                        const Place& place);
};

}  // namespace sim::lowering
