// Plays tapes: issues their steps for a micro-batch.
#pragma once

#include <array>
#include <span>

#include "sim/plan/lowering/block_part.hpp"
#include "sim/plan/tape/tape_work.hpp"

namespace sim::lowering {

// TapeValues are those that come from outside of a tape, or go there.
using TapeValues = std::array<Value, tape_value::outside>;

class TapePlayer : BlockPart {
 public:
  explicit TapePlayer(BlockTools& tools) : BlockPart{tools} {}

  // Issues the steps of `tape`, whose work is `work`, for operator `i` of the block. A kernel waits
  // for the values that it uses, and all kernels behind a collective wait for that.
  void play(const Frame& frame, std::size_t i, const Tape& tape, const TapeWork& work,
            TapeValues& outside);

 private:
  struct Playing {
    const Frame& frame;
    std::size_t op;
    TapeValues& outside;
    std::span<const Bytes> sizes;  // by value
    std::vector<Value>& made;
    Value& value(TapeValue at);
  };
  void prepare(Playing& playing, const TapeStep& step);
  OpId issue(const Playing& playing, const TapeStep& step, const TapeWork::Step& work);
  void use(Playing& playing, const TapeUse& use, OpId op);
  void use_gradient(const Playing& playing, TapeAccess access);

  std::vector<Value> made_;  // by the steps of the tape under way
  BufferId gradient_{none};  // of the operator's parameters, before it is added to that of the step
};

}  // namespace sim::lowering
