// micro_pipeline.hpp of sim/plan/sharding says which linear does what, and where that stands.
#include "sim/plan/block/micro_pipeline.hpp"

#include <algorithm>
#include <array>

namespace sim::lowering {

// Side is the difference between the forward pass and that of the input gradient.
struct SlicedLinears::Side {
  Role operand, result;
  Action action;
  std::uint32_t name;
  Bytes whole_operand, whole_result;
};

SlicedWork SlicedLinears::intern_sliced(const SlicedPass& pass, const ShardedOp& op) {
  SlicedWork work;
  work.products = interned(builder_, pass.products);
  work.place = interned(builder_, pass.place);
  work.order = interned(builder_, pass.order);
  work.sum = interned(builder_, pass.sum);
  work.pull = shift_by_copy_engines(builder_, pass.gathers()
                                                  ? as_gathered(layout_, op, op.slice())
                                                  : Gathered{layout_.activation_dtype, op.slice()});
  return work;
}

void SlicedLinears::intern_slices(const ShardedOp& op, OpWork& work) {
  if (symmetric_memory_.value == none) symmetric_memory_ = tensors_.persistent(symmetric_bytes());
  if (op.sliced_forward->order) work.reorder_name = builder_.name(op.op->name + ".reorder");
  work.sliced_forward = intern_sliced(*op.sliced_forward, op);
  if (op.sliced_again) work.sliced_again = intern_sliced(*op.sliced_again, op);
  if (op.sliced_gradient) work.sliced_gradient = intern_sliced(*op.sliced_gradient, op);
}

// A workspace of the group, as large as the largest need: a slice, or two of products
// (torch/distributed/_symmetric_memory, get_symm_mem_workspace).
Bytes SlicedLinears::symmetric_bytes() const {
  Bytes most{};
  for (const ShardedBlock& block : model_.blocks) {
    for (const ShardedOp& op : block.ops) {
      if (!op.sliced_forward) continue;
      const bool scatters = op.sums_output || op.sliced_gradient.has_value();
      most = std::max(most, scatters ? op.slice() * 2 : op.slice());
    }
  }
  return most;
}

SlicedLinears::Side SlicedLinears::forward_side(const Frame& frame, std::size_t i) {
  const ShardedOp& op = frame.shape->ops[i];
  return {.operand = Role::input,
          .result = Role::output,
          .action = Action::multiply_part,
          .name = frame.work->ops[i].name,
          .whole_operand = op.whole_input,
          .whole_result = op.whole_output};
}

SlicedLinears::Side SlicedLinears::gradient_side(const Frame& frame, std::size_t i) {
  const ShardedOp& op = frame.shape->ops[i];
  return {.operand = Role::gradient,
          .result = Role::input_gradient,
          .action = Action::gradient_part,
          .name = frame.work->ops[i].gradient_name,
          .whole_operand = op.whole_output,
          .whole_result = op.whole_input};
}

Value SlicedLinears::forward_sliced(Frame& frame, std::size_t i, const SlicedWork& work, Value x) {
  const Side side = forward_side(frame, i);
  emit_.reorder(frame, i, work.order, x);
  tensors_.wait_for(x);
  emit_.encode_operands(frame, i, x);
  if (work.place == none) return multiply_scattered(frame, i, work, side, x);
  const Value out = multiply_gathered(frame, i, work, side, x);
  kept_.keep_or_free(frame, i, x);
  return out;
}

// Takes the gradient of the rank's own tokens, and leaves that of all.
Value SlicedLinears::gathered_gradient(Frame& frame, std::size_t i, Value& gradient) {
  const OpWork& work = frame.work->ops[i];
  tensors_.wait_for(gradient);
  emit_.encode_gradient(frame, i, gradient);
  return multiply_gathered(frame, i, work.sliced_gradient, gradient_side(frame, i), gradient);
}

Value SlicedLinears::scattered_gradient(Frame& frame, std::size_t i, const Value& gradient) {
  return multiply_scattered(frame, i, frame.work->ops[i].sliced_gradient, gradient_side(frame, i),
                            gradient);
}

// Takes the rank's own tokens, and leaves all: slice s is that of the partner s ranks ahead.
Value SlicedLinears::multiply_gathered(const Frame& frame, std::size_t i, const SlicedWork& work,
                                       const Side& side, Value& tokens) {
  const std::uint32_t gather_name = frame.work->ops[i].gather_name;
  const Value whole = tensors_.allocate(side.whole_operand);
  Value out = tensors_.allocate(side.whole_result);
  emit_.compute(frame, i, work.place, gather_name, Action::place_slice);
  tensors_.drop(tokens, side.operand);
  builder_.writes(symmetric_memory_, Role::workspace);
  builder_.writes(whole.buffer, Role::output, 0);
  builder_.wait_for_stream(Stream::tensor_comm, Stream::compute);
  std::array<OpId, micro_pipeline_streams> behind{OpId{none}, OpId{none}};
  for (int slice = 0; slice < layout_.tensor_parallel; ++slice) {
    const auto part = static_cast<std::int16_t>(slice);
    OpId& last = behind[static_cast<std::size_t>(slice % micro_pipeline_streams)];
    if (slice > 0) {
      if (last.value != none) builder_.wait(Stream::tensor_comm, last);
      const OpId came = emit_.collective_on(Stream::tensor_comm, frame, i, work.pull, gather_name,
                                            Action::pull_slice);
      builder_.reads(symmetric_memory_, Role::input);
      builder_.writes(whole.buffer, Role::output, part);
      builder_.wait(Stream::compute, came);
    }
    for (const std::uint32_t product : work.products) {
      last = out.ready = emit_.compute(frame, i, product, side.name, side.action);
      builder_.reads(whole.buffer, side.operand, part);
      emit_.read_weight(frame, i);
      builder_.writes(out.buffer, side.result);
    }
  }
  tokens = whole;
  return out;
}

// Slice s is made for the partner s ranks ahead, who takes it as that of a partner s ranks behind;
// the own one comes last.
Value SlicedLinears::multiply_scattered(Frame& frame, std::size_t i, const SlicedWork& work,
                                        const Side& side, const Value& operand) {
  const std::uint32_t sum_name = frame.work->ops[i].sum_name;
  const bool forward = side.action == Action::multiply_part;
  const Value slices = tensors_.allocate(side.whole_result);
  std::array<OpId, micro_pipeline_streams> taken{OpId{none}, OpId{none}};
  const auto half_of = [](int slice) {
    return static_cast<std::int16_t>(slice % micro_pipeline_streams);
  };
  const auto take = [&](int slice, OpId behind) {
    builder_.wait(Stream::tensor_comm, behind);
    const OpId came =
        emit_.collective_on(Stream::tensor_comm, frame, i, work.pull, sum_name, Action::pull_slice);
    builder_.reads(symmetric_memory_, Role::input, half_of(slice));
    builder_.writes(slices.buffer, Role::output, static_cast<std::int16_t>(slice));
    taken[static_cast<std::size_t>(half_of(slice))] = came;
  };
  const int ranks = layout_.tensor_parallel;
  for (int slice = 1; slice <= ranks; ++slice) {
    const OpId before = taken[static_cast<std::size_t>(half_of(slice))];
    if (before.value != none) builder_.wait(Stream::compute, before);
    const bool own = slice == ranks;
    const OpId made = emit_.compute(frame, i, work.products.front(), side.name, side.action);
    if (own && forward) {
      kept_.keep_or_free(frame, i, operand);
    } else {
      tensors_.read(operand, side.operand);
    }
    emit_.read_weight(frame, i);
    const BufferId to = own ? slices.buffer : symmetric_memory_;
    builder_.writes(to, side.result, own ? std::int16_t{0} : half_of(slice));
    if (slice == 2) take(1, made);  // the barrier before found no SM
    if (slice > 1 && !own) take(slice, made);
  }
  builder_.wait_for_stream(Stream::compute, Stream::tensor_comm);
  Value out = tensors_.allocate(frame.shape->ops[i].slice());
  out.ready = emit_.compute(frame, i, work.sum, sum_name, Action::sum_slices);
  tensors_.drop(slices, Role::input);
  builder_.writes(out.buffer, Role::output);
  return out;
}

}  // namespace sim::lowering
