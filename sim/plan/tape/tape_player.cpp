#include "sim/plan/tape/tape_player.hpp"

#include <utility>

namespace sim::lowering {

Value& TapePlayer::Playing::value(TapeValue at) {
  return at < tape_value::outside ? outside[at] : made[at - tape_value::outside];
}

// From the last step on, so that messages of tokens stand before those of their weights.
void TapePlayer::intern(const Tape& tape, const std::string& op) {
  PlayedTape& played = tapes_of_stage_[&tape];
  played.steps.resize(tape.steps.size());
  for (std::size_t at = tape.steps.size(); at-- > 0;) {
    const TapeStep& step = tape.steps[at];
    PlayedStep& to = played.steps[at];
    const auto* kernel = std::get_if<Kernel>(&step.work);
    to = {.action = step.action,
          .launch = step.launch,
          .has_work = step.has_work(),
          .is_kernel = kernel != nullptr,
          .first_use = static_cast<std::uint32_t>(played.uses.size()),
          .uses = static_cast<std::uint32_t>(step.used)};
    played.uses.insert(played.uses.end(), step.uses().begin(), step.uses().end());
    if (!step.has_work()) continue;
    to.work = kernel != nullptr ? builder_.kernel(*kernel)
                                : builder_.collective(std::get<Collective>(step.work));
    to.name = builder_.name(op + std::string{step.suffix});
  }
}

void TapePlayer::intern_tapes(const ShardedOp& op) {
  const std::string& name = op.op->name;
  if (op.whole)
    for (const Tape* tape : {&op.whole->forward, &op.whole->backward})
      intern(*tape, name);
  if (op.adapter)
    for (const Tape* tape : {&op.adapter->forward, &op.adapter->forward_to_end,
                             &op.adapter->backward, &op.adapter->add_gradient})
      intern(*tape, name);
  for (const std::optional<TokenWays>* ways : {&op.ways, &op.ways_again})
    if (*ways)
      for (const TokenWay* way : {&(*ways)->to, &(*ways)->from})
        for (const Tape* tape : {&way->leave, &way->exchange, &way->arrive})
          intern(*tape, name);
}

Value TapePlayer::play(Frame& frame, std::size_t i, const Tape& tape, TapeValues& outside) {
  made_.assign(static_cast<std::size_t>(tape.values - tape_value::outside), {});
  Playing playing{frame, i, outside, made_};
  const PlayedTape& played = tapes_of_stage_.at(&tape);
  for (const PlayedStep& step : played.steps) {
    const std::span<const TapeUse> uses = played.uses_of(step);
    OpId op{none};
    if (step.has_work) {
      wait(playing, step, uses);
      op = issue(playing, step);
    }
    for (const TapeUse& each : uses)
      use(playing, each, op);
    if (step.has_work && !step.is_kernel && step.launch.awaited) builder_.wait(Stream::compute, op);
  }
  return playing.value(tape.result);
}

void TapePlayer::wait(Playing& playing, const PlayedStep& step, std::span<const TapeUse> uses) {
  const bool beside = !step.is_kernel && step.launch.beside;
  const Stream stream = step.is_kernel ? Stream::compute
                        : beside       ? Stream::context_comm
                                       : Stream::tensor_comm;
  if (beside && step.launch.behind_kernels) builder_.wait_for_stream(stream, Stream::compute);
  for (const TapeUse& use : uses) {
    const bool waits = use.access <= TapeAccess::drop || use.access == TapeAccess::after ||
                       (step.is_kernel && use.access == TapeAccess::write);
    if (!waits) continue;
    const OpId ready = playing.value(use.value).ready;
    if (ready.value != none)
      builder_.wait(stream, ready);
    else if (beside)
      builder_.wait_for_stream(stream, Stream::compute);
  }
}

OpId TapePlayer::issue(Playing& playing, const PlayedStep& step) {
  const Frame& frame = playing.frame;
  if (step.is_kernel) return emit_.compute(frame, playing.op, step.work, step.name, step.action);
  if (!step.launch.beside)
    return emit_.tensor_collective(frame, playing.op, step.work, step.name, step.action);
  return emit_.collective_on(Stream::context_comm, frame, playing.op, step.work, step.name,
                             step.action);
}

void TapePlayer::use(Playing& playing, const TapeUse& use, OpId op) {
  Value& value = playing.value(use.value);
  switch (use.access) {
    case TapeAccess::read:
      return tensors_.read(value, use.role);
    case TapeAccess::drop:
      return tensors_.drop(std::exchange(value, {}), use.role);
    case TapeAccess::make:
      value = tensors_.allocate(use.bytes);
      [[fallthrough]];
    case TapeAccess::write:
      value.ready = op;
      return builder_.writes(value.buffer, use.role);
    case TapeAccess::scratch: {
      const BufferId scratch = tensors_.allocate_buffer(use.bytes);
      builder_.writes(scratch, use.role);
      return builder_.frees(scratch, use.role);
    }
    case TapeAccess::mark:
      value.ready = op;
      return;
    case TapeAccess::after:
      return;
    case TapeAccess::host_wait:
      return builder_.host_waits_for(value.ready);
    case TapeAccess::read_weight:
      return emit_.read_weight(playing.frame, playing.op);
    case TapeAccess::write_gradient:
    case TapeAccess::reduce_gradient:
    case TapeAccess::finish_gradient:
      return use_gradient(playing, use.access);
    default:
      return use.access < TapeAccess::take_keys ? keep(playing, use) : use_kept(playing, use);
  }
}

void TapePlayer::keep(Playing& playing, const TapeUse& use) {
  Frame& frame = playing.frame;
  Saved& saved = frame.saved[playing.op];
  Value& value = playing.value(use.value);
  const auto hold = [&](BufferId& kept) {
    if (!frame.keep) return;
    tensors_.retain(value.buffer);
    kept = value.buffer;
  };
  switch (use.access) {
    case TapeAccess::keep_or_drop:
      return kept_.keep_or_free(frame, playing.op, std::exchange(value, {}));
    case TapeAccess::keep_beside:
      return kept_.keep_beside(frame, playing.op, frame.shape->ops[playing.op].saved);
    case TapeAccess::keep_input:
      return hold(saved.input);
    case TapeAccess::keep_extra:
      return hold(saved.extra);
    case TapeAccess::keep_keys:
      return hold(saved.keys);
    case TapeAccess::keep_output:
      return kept_.keep_output(frame, playing.op, value);
    default:
      break;
  }
  hold(saved.weights);
  tensors_.drop(std::exchange(value, {}), Role::choice_weights);
}

void TapePlayer::use_kept(Playing& playing, const TapeUse& use) {
  Saved& saved = playing.frame.saved[playing.op];
  const auto read = [&](BufferId kept, Role role) {
    if (kept.value != none) builder_.reads(kept, role);
  };
  switch (use.access) {
    case TapeAccess::take_keys:
      playing.value(use.value).buffer = std::exchange(saved.keys, BufferId{none});
      return;
    case TapeAccess::read_kept_input:
      return read(saved.input, Role::input);
    case TapeAccess::read_kept_output:
      return read(saved.output, Role::saved_output);
    case TapeAccess::read_kept_extra:
      return read(saved.extra, Role::saved);
    case TapeAccess::release_kept_extra:
      return tensors_.release(saved.extra, Role::saved);
    case TapeAccess::release_choices:
      return tensors_.release(saved.weights, Role::choice_weights);
    default:
      return kept_.free_saved(saved);
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
