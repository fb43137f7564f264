// Issues the operators of a block.
#pragma once

#include "sim/plan/block/frame.hpp"
#include "sim/plan/parameters/parameter_store.hpp"

namespace sim::lowering {

class OpEmitter : StagePart {
 public:
  OpEmitter(LoweringContext& context, const ParameterStore& store)
      : StagePart{context}, store_{store} {}

  OpId compute(const Frame& frame, std::size_t i, std::uint32_t kernel, std::uint32_t name,
               Action action);
  OpId tensor_collective(const Frame& frame, std::size_t i, std::uint32_t work, std::uint32_t name,
                         Action action);
  OpId collective_on(Stream stream, const Frame& frame, std::size_t i, std::uint32_t work,
                     std::uint32_t name, Action action);
  // The operator added last reads the weight of operator i.
  void read_weight(const Frame& frame, std::size_t i);
  void reorder(const Frame& frame, std::size_t i, std::uint32_t kernel, Value& tokens,
               Action action = Action::reorder_tokens);
  void encode_operands(Frame& frame, std::size_t i, const Value& x);
  void encode_gradient(const Frame& frame, std::size_t i, const Value& gradient);

 private:
  const ParameterStore& store_;
};

}  // namespace sim::lowering
