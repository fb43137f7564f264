#include "sim/plan/block/rematerialisation.hpp"

#include "sim/base/check.hpp"

namespace sim::lowering {

void Rematerialisation::run_before(Frame& backward, std::size_t i) {
  const std::vector<Replay>& replays = backward.kept->replays;
  for (std::size_t at = 0; at < replays.size(); ++at)
    if (replays[at].before == i && replays[at].pieces == 1) run(backward, static_cast<int>(at));
}

void Rematerialisation::run(Frame& backward, int at) {
  const Replay& replay = backward.kept->replays[static_cast<std::size_t>(at)];
  Frame again = backward;
  again.pass = Pass::recompute;
  again.replay = &replay;
  again.keep = !replay.keeps_inside;
  const Value made = replay.keeps_inside ? run_kept(again)
                     : replay.is_block   ? forward_.forward_block(again, {})
                                         : run_parts(again);
  if (replay.hands_out_output) hand_out(again, at, made);
  tensors_.drop(made, Role::output);
}

// One operator, from the input that it has kept.
Value Rematerialisation::run_kept(Frame& again) {
  const std::size_t i = again.replay->ops.front();
  const ShardedOp& op = again.shape->ops[i];
  Saved& saved = again.saved[i];
  forward_.wait_for_copies(op);
  emit_.compute(again, i, again.work->ops[i].forward, again.work->ops[i].name, Action::forward);
  if (saved.input.value != none) builder_.reads(saved.input, Role::input);
  if (saved.weights.value != none) builder_.reads(saved.weights, Role::choice_weights);
  emit_.read_weight(again, i);
  if (again.replay->makes_core) {
    saved.core = tensors_.allocate_buffer(op.attention_saved);
    builder_.writes(saved.core, Role::saved);
    return {};
  }
  SIM_CHECK(saved.input.value != none, op.op->name);
  Value made = tensors_.allocate(op.output);
  builder_.writes(made.buffer, Role::output);
  return made;
}

// Operators that do not follow each other start from an input that was kept.
Value Rematerialisation::run_parts(Frame& again) {
  const std::vector<std::uint32_t>& ops = again.replay->ops;
  Value x;
  for (std::size_t part = 0; part < ops.size();) {
    OpRange range{ops[part], ops[part]};
    while (part < ops.size() && ops[part] == range.end) {
      ++range.end;
      ++part;
    }
    x = forward_.forward_ops(again, x, range);
  }
  return x;
}

// Operators that read the output find it where they would have kept it. In a replay of which they
// are the first, they start from it; the others keep their inputs then.
void Rematerialisation::hand_out(const Frame& frame, int at, const Value& made) {
  const KeptSet& kept = *frame.kept;
  for (std::size_t i = 0; i < kept.input_from.size(); ++i) {
    const bool starts = kept.starts(i);
    if (kept.input_from[i] != at || (kept.keeps_nothing(i) && !starts)) continue;
    tensors_.retain(made.buffer);
    if (starts)
      frame.saved[i].replay_input = {made.buffer, made.bytes};
    else
      frame.saved[i].input = made.buffer;
  }
}

}  // namespace sim::lowering
