#include "sim/plan/tape/tape_player.hpp"

namespace sim::lowering {

Value& TapePlayer::Playing::value(TapeValue at) {
  return at < tape_value::outside ? outside[at] : made[at - tape_value::outside];
}

void TapePlayer::play(const Frame& frame, std::size_t i, const Tape& tape, const TapeWork& work,
                      TapeValues& outside) {
  made_.assign(tape.bytes.size() - tape_value::outside, {});
  Playing playing{frame, i, outside, tape.bytes, made_};
  for (std::size_t at = 0; at < tape.steps.size(); ++at) {
    const TapeStep& step = tape.steps[at];
    OpId op{none};
    if (step.has_work()) {
      prepare(playing, step);
      op = issue(playing, step, work.steps[at]);
    }
    for (const TapeUse& each : step.uses)
      use(playing, each, op);
    if (std::holds_alternative<Collective>(step.work)) builder_.wait(Stream::compute, op);
  }
}

void TapePlayer::prepare(Playing& playing, const TapeStep& step) {
  const bool kernel = std::holds_alternative<Kernel>(step.work);
  for (const TapeUse& use : step.uses) {
    if (use.access == TapeAccess::make || use.access == TapeAccess::scratch)
      playing.value(use.value) = tensors_.allocate(playing.sizes[use.value]);
    else if (kernel && use.access <= TapeAccess::write)
      tensors_.wait_for(playing.value(use.value));
  }
}

OpId TapePlayer::issue(const Playing& playing, const TapeStep& step, const TapeWork::Step& work) {
  if (std::holds_alternative<Kernel>(step.work))
    return emit_.compute(playing.frame, playing.op, work.work, work.name, step.action);
  return emit_.tensor_collective(playing.frame, playing.op, work.work, work.name, step.action);
}

void TapePlayer::use(Playing& playing, const TapeUse& use, OpId op) {
  Saved& saved = playing.frame.saved[playing.op];
  switch (use.access) {
    case TapeAccess::read:
      return tensors_.read(playing.value(use.value), use.role);
    case TapeAccess::drop:
      return tensors_.drop(playing.value(use.value), use.role);
    case TapeAccess::write:
    case TapeAccess::make:
      playing.value(use.value).ready = op;
      return builder_.writes(playing.value(use.value).buffer, use.role);
    case TapeAccess::scratch:
      builder_.writes(playing.value(use.value).buffer, use.role);
      return builder_.frees(playing.value(use.value).buffer, use.role);
    case TapeAccess::read_weight:
      return emit_.read_weight(playing.frame, playing.op);
    case TapeAccess::read_kept:
      if (saved.extra.value != none) builder_.reads(saved.extra, Role::saved);
      return;
    case TapeAccess::free_kept:
      return kept_.free_saved(saved);
    case TapeAccess::write_gradient:
    case TapeAccess::reduce_gradient:
    case TapeAccess::finish_gradient:
      return use_gradient(playing, use.access);
  }
}

void TapePlayer::use_gradient(const Playing& playing, TapeAccess access) {
  const Place& place = store_.parameters[site(playing.frame, playing.op)].own;
  if (access == TapeAccess::write_gradient)
    gradient_ = sums_.write_gradient(playing.frame, place);
  else if (access == TapeAccess::reduce_gradient)
    builder_.writes(store_.buckets[place.bucket].gradient, Role::output);
  else
    sums_.add_gradient(playing.frame, playing.op, place, gradient_);
}

}  // namespace sim::lowering
