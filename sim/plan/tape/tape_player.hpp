// Plays tapes: issues their steps for a micro-batch.
#pragma once

#include <array>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/plan/block/block_part.hpp"
#include "sim/plan/tape/tape.hpp"

namespace sim::lowering {

// TapeValues are those that come from outside of a tape, or go there.
using TapeValues = std::array<Value, tape_value::outside>;

class TapePlayer : BlockPart {
 public:
  explicit TapePlayer(BlockTools& tools) : BlockPart{tools} {}

  // Puts the work of an operator's tapes into the tables of the program.
  void intern_tapes(const ShardedOp& op);
  // Issues the steps of `tape` for operator `i` of the block; returns the result of the tape.
  Value play(Frame& frame, std::size_t i, const Tape& tape, TapeValues& outside);

 private:
  // PlayedStep is a step with its work and its name as numbers in the tables of the program.
  struct PlayedStep {
    std::uint32_t work = none, name = 0;
    Action action = Action::forward;
    TapeLaunch launch{};
    bool has_work = false, is_kernel = false;
    std::uint32_t first_use = 0, uses = 0;
  };
  struct PlayedTape {
    std::vector<PlayedStep> steps;
    std::vector<TapeUse> uses;
    std::span<const TapeUse> uses_of(const PlayedStep& step) const {
      return std::span{uses}.subspan(step.first_use, step.uses);
    }
  };
  struct Playing {
    Frame& frame;
    std::size_t op;
    TapeValues& outside;
    std::vector<Value>& made;
    Value& value(TapeValue at);
  };
  void intern(const Tape& tape, const std::string& op);
  void wait(Playing& playing, const PlayedStep& step, std::span<const TapeUse> uses);
  OpId issue(Playing& playing, const PlayedStep& step);
  void use(Playing& playing, const TapeUse& use, OpId op);
  void keep(Playing& playing, const TapeUse& use);
  void use_kept(Playing& playing, const TapeUse& use);
  void use_gradient(const Playing& playing, TapeAccess access);

  std::unordered_map<const Tape*, PlayedTape> tapes_of_stage_;
  std::vector<Value> made_;  // by the steps of the tape under way
  BufferId gradient_{none};  // of the operator's parameters, before it is added to that of the step
};

}  // namespace sim::lowering
