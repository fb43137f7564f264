// A router scores its tokens and hands them on; what it keeps is the choice. Experts weigh what
// they make by it. The ways of tokens between them are tapes (sharding/token_ways.cpp).
#include "sim/plan/block/experts.hpp"

#include <algorithm>
#include <utility>

#include "sim/model/expert_bias.hpp"

namespace sim::lowering {

// Grouped products run on four streams, each with a workspace of its own (Transformer Engine 2,
// pytorch/module/base.py, get_multi_stream_cublas_workspace; of Hopper and later).
void ExpertPass::allocate_expert_workspaces() {
  constexpr std::int64_t streams = 4, workspace = (32LL << 20) + 1024;
  const bool grouped =
      std::any_of(context_.blocks.begin(), context_.blocks.end(), [&](const StageBlock& block) {
        const auto& ops = model_.blocks[block.shape].ops;
        return std::any_of(ops.begin(), ops.end(),
                           [](const ShardedOp& op) { return op.op->experts > 0; });
      });
  if (grouped && runs_.experts == ExpertForm::megatron)
    builder_.buffer(Bytes{streams * workspace}, BufferCategory::activations, true);
}

Value ExpertPass::forward_router(Frame& frame, std::size_t i, Value x) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  tensors_.wait_for(x);
  const Value scores = tensors_.allocate(op.whole_output);
  emit_.compute(frame, i, work.forward, work.name, Action::forward);
  tensors_.read(x, Role::input);
  emit_.read_weight(frame, i);
  builder_.writes(scores.buffer, Role::output);
  const OpId chosen = emit_.compute(frame, i, work.choose, work.choose_name, Action::choose);
  tensors_.drop(scores, Role::input);
  BufferId choice = tensors_.allocate_buffer(op.saved - x.bytes);
  builder_.writes(choice, Role::saved);
  std::size_t dispatch = i + 1;  // behind it, or behind the linear of a narrower state
  while (!frame.shape->ops[dispatch].experts)
    ++dispatch;
  choice_weights_ = tensors_.allocate(frame.shape->ops[dispatch].experts->weights);
  choice_weights_.ready = chosen;
  builder_.writes(choice_weights_.buffer, Role::choice_weights);
  if (!frame.keep) {
    tensors_.release(choice, Role::saved);
    return x;
  }
  frame.saved[i].extra = choice;
  if (SavedTensors::input_comes_again(frame, i) || work.weight_gradients.empty()) return x;
  tensors_.retain(x.buffer);
  frame.saved[i].input = x.buffer;
  return x;
}

Value ExpertPass::backward_router(Frame& frame, std::size_t i, Value gradient) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  Saved& saved = frame.saved[i];
  tensors_.wait_for(gradient);
  tensors_.wait_for(choice_gradient_);
  const Value scores = tensors_.allocate(op.whole_output);
  emit_.compute(frame, i, work.choose_backward, work.choose_name, Action::choose_backward);
  tensors_.release(saved.extra, Role::saved);
  tensors_.drop(std::exchange(choice_gradient_, {}), Role::choice_gradient);
  builder_.writes(scores.buffer, Role::input_gradient);
  Value made = tensors_.allocate(op.input);
  made.ready = emit_.compute(frame, i, work.input_gradients.front(), work.gradient_name,
                             Action::input_gradient);
  const bool frozen = work.weight_gradients.empty();  // Layout::lora_rank
  if (frozen)
    tensors_.drop(scores, Role::gradient);
  else
    tensors_.read(scores, Role::gradient);
  emit_.read_weight(frame, i);
  builder_.writes(made.buffer, Role::input_gradient);
  if (!frozen) {
    emit_.compute(frame, i, work.weight_gradients.front(), work.weight_name,
                  Action::weight_gradient);
    tensors_.drop(scores, Role::gradient);
    tensors_.release(saved.input, Role::input);
    const Place& own = store_.parameters[site(frame, i)].vector();
    sums_.add_gradient(frame, i, own, sums_.write_gradient(frame, own));
  }
  reduction_.gradient_ready(frame, i);
  // Gradients of the tokens that went on to the experts, of those that another branch started from,
  // and of those that went past all of it (post-norm).
  const Value lent = std::exchange(branches_.lent_gradient[i], {});
  const Value past = std::exchange(branches_.gradient_past[i], {});
  for (const Value& part : {made, lent, past}) {
    if (!part.exists()) continue;
    tensors_.wait_for(part);
    gradient.ready = emit_.compute(frame, i, work.add_gradient, work.add_gradient_name,
                                   Action::add_product_gradient);
    tensors_.drop(part, Role::input);
    builder_.writes(gradient.buffer, Role::input_gradient);
  }
  return gradient;
}

// The kernel added last is an expert's activation, if it is one of an expert.
void ExpertPass::weigh_choices(Frame& frame, std::size_t i) {
  const ModelOp& op = *frame.shape->ops[i].op;
  if (op.experts == 0 || op.kind != ModelOpKind::elementwise || is_expert_bias(op)) return;
  if (weighs_at_origin(runs_, layout_)) return;
  const Value weights = std::exchange(choice_weights_, {});
  if (!frame.keep) return tensors_.drop(weights, Role::choice_weights);
  tensors_.read(weights, Role::choice_weights);
  frame.saved[i].weights = weights.buffer;
}

void ExpertPass::weigh_choices_backward(const Frame& frame, std::size_t i) {
  Saved& saved = frame.saved[i];
  if (saved.weights.value == none) return;  // or its combine has them (weighs_at_origin())
  choice_gradient_ = tensors_.allocate(builder_.size_of(saved.weights));
  choice_gradient_.ready = builder_.last(Stream::compute);
  tensors_.release(saved.weights, Role::choice_weights);
  builder_.writes(choice_gradient_.buffer, Role::choice_gradient);
}

// Recomputation by operators keeps what exchanges have brought.
const TokenWays& ExpertPass::ways(const Frame& frame, std::size_t i) {
  const ShardedOp& op = frame.shape->ops[i];
  return frame.pass == Pass::recompute && op.ways_again ? *op.ways_again : *op.ways;
}

Value ExpertPass::play(Frame& frame, std::size_t i, const Tape& tape, const Value& x) {
  if (tape.steps.empty()) return x;
  Value& choices = frame.pass == Pass::backward ? choice_gradient_ : choice_weights_;
  TapeValues values{x};
  values[tape_value::choices] = choices;
  values[tape_value::chosen].ready = chosen_;
  const Value result = tapes_.play(frame, i, tape, values);
  choices = values[tape_value::choices];
  return result;
}

Value ExpertPass::send_to_experts(Frame& frame, std::size_t i, const Value& x) {
  return arrive_at_experts(frame, i, exchange_to_experts(frame, i, leave_for_experts(frame, i, x)));
}

Value ExpertPass::leave_for_experts(Frame& frame, std::size_t i, const Value& x) {
  if (frame.shape->ops[i].op->kind == ModelOpKind::dispatch)
    chosen_ = builder_.last(Stream::compute);
  return play(frame, i, ways(frame, i).to.leave, x);
}

Value ExpertPass::exchange_to_experts(Frame& frame, std::size_t i, const Value& x) {
  return play(frame, i, ways(frame, i).to.exchange, x);
}

Value ExpertPass::arrive_at_experts(Frame& frame, std::size_t i, const Value& x) {
  return play(frame, i, ways(frame, i).to.arrive, x);
}

// Forward of combine, backward of dispatch.
Value ExpertPass::bring_from_experts(Frame& frame, std::size_t i, const Value& x) {
  return arrive_from_experts(frame, i, exchange_from_experts(frame, i, leave_experts(frame, i, x)));
}

Value ExpertPass::leave_experts(Frame& frame, std::size_t i, const Value& x) {
  return play(frame, i, ways(frame, i).from.leave, x);
}

Value ExpertPass::exchange_from_experts(Frame& frame, std::size_t i, const Value& x) {
  return play(frame, i, ways(frame, i).from.exchange, x);
}

Value ExpertPass::arrive_from_experts(Frame& frame, std::size_t i, const Value& x) {
  return play(frame, i, ways(frame, i).from.arrive, x);
}

}  // namespace sim::lowering
