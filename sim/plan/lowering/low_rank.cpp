#include "sim/plan/lowering/low_rank.hpp"

#include "sim/plan/lowering/interning.hpp"

namespace sim::lowering {

void LowRankAdapters::intern_adapter(const ShardedOp& op, AdapterWork& work) {
  const LowRankAdapter& adapter = *op.adapter;
  work.name = builder_.name(op.op->name + ".adapter");
  work.down = builder_.kernel(adapter.down);
  work.up = builder_.kernel(adapter.up);
  const auto interned = [&](const std::optional<Kernel>& kernel) {
    return kernel ? builder_.kernel(*kernel) : none;
  };
  work.scale = interned(adapter.scale);
  work.add = interned(adapter.add);
  work.drop = interned(adapter.drop);
  work.drop_gradient = interned(adapter.drop_gradient);
  work.up_gradient = builder_.kernel(adapter.up_gradient);
  work.down_gradient = builder_.kernel(adapter.down_gradient);
  work.add_gradient = interned(adapter.add_gradient);
  work.weight_down = interned(adapter.weight_down);
  work.weight_up = interned(adapter.weight_up);
  work.weight_norm = interned(adapter.weight_norm);
  work.magnitude_gradient = interned(adapter.magnitude_gradient);
  work.up_weight = builder_.kernel(adapter.up_weight);
  work.down_weight = builder_.kernel(adapter.down_weight);
  const auto make = [&](CollectiveKind kind, Bytes bytes) {
    return builder_.collective({kind, GroupRole::tensor, layout_.activation_dtype, bytes});
  };
  const bool sums = adapter.up_sum.count() > 0;
  if (!adapter.gathers_narrow && !adapter.sums_narrow && !sums) return;
  work.exchange_name = builder_.name(op.op->name + ".adapter.exchange");
  if (sums) {
    const auto sum = [&](Bytes bytes) {
      return builder_.collective(
          {CollectiveKind::all_reduce, GroupRole::expert, layout_.activation_dtype, bytes});
    };
    work.sum_up = sum(adapter.up_sum);
    work.sum_down = sum(adapter.down_sum);
    return;
  }
  work.exchange_narrow =
      make(adapter.gathers_narrow ? CollectiveKind::all_gather : CollectiveKind::all_reduce,
           adapter.narrow);
  work.sum_narrow = make(CollectiveKind::all_reduce, adapter.narrow);
  if (adapter.gathered.count() > 0)
    work.gather = make(CollectiveKind::all_gather, adapter.gathered);
}

OpId LowRankAdapters::run(const Frame& frame, std::size_t i, std::uint32_t kernel) {
  return emit_.compute(frame, i, kernel, frame.work->ops[i].adapter.name, Action::adapt);
}

void LowRankAdapters::exchange(const Frame& frame, std::size_t i, std::uint32_t collective,
                               Value& tensor) {
  if (collective == none) return;
  tensor.ready = emit_.tensor_collective(
      frame, i, collective, frame.work->ops[i].adapter.exchange_name, Action::exchange_adapted);
  builder_.writes(tensor.buffer, Role::output);
  tensors_.wait_for(tensor);
}

void LowRankAdapters::add_output(Frame& frame, std::size_t i, const Value& input, Value& output) {
  const AdapterWork& work = frame.work->ops[i].adapter;
  if (!work.exists()) return;
  const LowRankAdapter& adapter = *frame.shape->ops[i].adapter;
  take_norms(frame, i);
  const Value kept = dropped(frame, i, input);
  Value narrow = tensors_.allocate(adapter.narrow);
  narrow.ready = run(frame, i, work.down);
  tensors_.drop(kept, Role::input);
  emit_.read_weight(frame, i);
  builder_.writes(narrow.buffer, Role::output);
  exchange(frame, i, work.exchange_narrow, narrow);
  if (frame.ends_in_adapter_of(i)) return tensors_.drop(narrow, Role::output);
  if (work.add == none) {
    output.ready = run(frame, i, work.up);
    tensors_.drop(narrow, Role::input);
    emit_.read_weight(frame, i);
    return builder_.writes(output.buffer, Role::output);
  }
  Value wide = tensors_.allocate(work.gather != none ? adapter.gathered : output.bytes);
  wide.ready = run(frame, i, work.up);
  tensors_.drop(narrow, Role::input);
  emit_.read_weight(frame, i);
  builder_.writes(wide.buffer, Role::output);
  exchange(frame, i, work.gather, wide);
  run(frame, i, work.scale);
  builder_.writes(wide.buffer, Role::output);
  output.ready = run(frame, i, work.add);
  tensors_.drop(wide, Role::input);
  builder_.writes(output.buffer, Role::output);
}

// Layout::lora_magnitudes: of the weight with B A, which are matrices of their own meanwhile: both,
// the scaled one and the sum.
void LowRankAdapters::take_norms(const Frame& frame, std::size_t i) {
  const AdapterWork& work = frame.work->ops[i].adapter;
  if (work.weight_norm == none) return;
  const LowRankAdapter& adapter = *frame.shape->ops[i].adapter;
  run(frame, i, work.weight_down);
  run(frame, i, work.weight_up);
  emit_.read_weight(frame, i);
  run(frame, i, work.weight_norm);
  emit_.read_weight(frame, i);
  const BufferId matrices = tensors_.allocate_buffer(adapter.matrices);
  builder_.writes(matrices, Role::workspace);
  builder_.frees(matrices, Role::workspace);
}

// Layout::lora_dropout.
Value LowRankAdapters::dropped(const Frame& frame, std::size_t i, const Value& input) {
  const std::uint32_t kernel = frame.work->ops[i].adapter.drop;
  if (kernel == none) return input;
  Value kept = tensors_.allocate(input.bytes);
  kept.ready = run(frame, i, kernel);
  tensors_.drop(input, Role::input);
  builder_.writes(kept.buffer, Role::output);
  return kept;
}

// Scaled, where a kernel of its own does that, and of all tensor ranks.
Value LowRankAdapters::scaled_gradient(const Frame& frame, std::size_t i, const Value& gradient) {
  const AdapterWork& work = frame.work->ops[i].adapter;
  const ShardedOp& op = frame.shape->ops[i];
  Value scaled = tensors_.allocate(work.gather != none ? op.adapter->gathered : op.whole_output);
  scaled.ready = run(frame, i, work.scale);
  tensors_.read(gradient, Role::gradient);
  builder_.writes(scaled.buffer, Role::output);
  exchange(frame, i, work.gather, scaled);
  return scaled;
}

Value LowRankAdapters::backward(Frame& frame, std::size_t i, const Value& gradient) {
  const AdapterWork& work = frame.work->ops[i].adapter;
  if (!work.exists()) return {};
  const ShardedOp& op = frame.shape->ops[i];
  if (work.magnitude_gradient != none) {
    run(frame, i, work.magnitude_gradient);
    tensors_.read(gradient, Role::gradient);
    emit_.read_weight(frame, i);
  }
  if (work.scale == none) tensors_.retain(gradient.buffer);
  const Value scaled = work.scale == none ? gradient : scaled_gradient(frame, i, gradient);
  Value narrow = tensors_.allocate(op.adapter->narrow);
  narrow.ready = run(frame, i, work.up_gradient);
  tensors_.read(scaled, Role::gradient);
  emit_.read_weight(frame, i);
  builder_.writes(narrow.buffer, Role::output);
  exchange(frame, i, work.sum_narrow, narrow);
  weight_gradient(frame, i, Factor::up, scaled);
  Value part = tensors_.allocate(op.whole_input);
  part.ready = run(frame, i, work.down_gradient);
  tensors_.read(narrow, Role::gradient);
  emit_.read_weight(frame, i);
  builder_.writes(part.buffer, Role::output);
  weight_gradient(frame, i, Factor::down, narrow);
  if (work.drop_gradient == none) return part;
  part.ready = run(frame, i, work.drop_gradient);
  builder_.writes(part.buffer, Role::output);
  return part;
}

void LowRankAdapters::add_gradient(Frame& frame, std::size_t i, const Value& part, Value& sum) {
  if (!part.exists()) return;
  const std::uint32_t kernel = frame.work->ops[i].adapter.add_gradient;
  if (kernel == none) return tensors_.drop(part, Role::input);  // by the product before
  sum.ready = run(frame, i, kernel);
  tensors_.drop(part, Role::input);
  builder_.writes(sum.buffer, Role::input_gradient);
}

// Of B from what was kept between the products, of A from the input.
void LowRankAdapters::weight_gradient(Frame& frame, std::size_t i, Factor factor,
                                      const Value& gradient) {
  const AdapterWork& work = frame.work->ops[i].adapter;
  const Place& place = store_.parameters[site(frame, i)].own;
  Saved& saved = frame.saved[i];
  run(frame, i, factor == Factor::up ? work.up_weight : work.down_weight);
  if (factor == Factor::down)
    kept_.free_saved(saved);
  else if (saved.extra.value != none)
    builder_.reads(saved.extra, Role::saved);
  tensors_.drop(gradient, Role::gradient);
  const BufferId own = sums_.write_gradient(frame, place);
  sum_over_experts(frame, i, factor == Factor::up ? work.sum_up : work.sum_down, place);
  sums_.add_gradient(frame, i, place, own);
}

// In a hook of the weight, for which the backward pass waits (Megatron-Bridge at 067f987d,
// peft/utils.py, _allreduce_shared_expert_grad).
void LowRankAdapters::sum_over_experts(const Frame& frame, std::size_t i, std::uint32_t collective,
                                       const Place& place) {
  if (collective == none) return;
  const OpId summed = emit_.tensor_collective(
      frame, i, collective, frame.work->ops[i].adapter.exchange_name, Action::exchange_adapted);
  builder_.writes(store_.buckets[place.bucket].gradient, Role::output);
  builder_.wait(Stream::compute, summed);
}

}  // namespace sim::lowering
