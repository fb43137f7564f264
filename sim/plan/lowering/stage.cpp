// Set-up of a stage, and the slots of its schedule with their sends and receives.
#include <algorithm>

#include "sim/base/check.hpp"
#include "sim/plan/lowering/stage_lowering.hpp"
#include "sim/plan/sharding/selective_operators.hpp"

namespace sim::lowering {

StageLowering::StageLowering(const ShardedModel& sharded, const PipelineOrder& order, int stage)
    : model_{sharded},
      layout_{sharded.layout},
      placement_{layout_},
      messages_{layout_, order, stage},
      stage_{stage},
      gradient_dtype_{summed_gradient_dtype(*sharded.model, sharded.layout)},
      builder_{stage} {
  // A copy shared by one rank is not sharded at all.
  shards_ = layout_.zero_stage > 0 ? layout_.shard_ranks() : 1;
  if (model_.model->has_experts()) expert_copies_ = std::max(1, layout_.expert_replicas());
  zero_ = shards_ > 1 || expert_copies_ > 1 ? layout_.zero_stage : 0;
  converts_ = converts_gradients(*model_.model, layout_);
  holds_ = holds_units(*model_.model, layout_);
  slots_ = order.ranks[static_cast<std::size_t>(stage)];
  posted_.resize(slots_.size());
}

// Megatron-LM's distributed optimizer (core/distributed/param_and_grad_buffer.py, param_data).
bool StageLowering::moves_parameters() const {
  const Execution& execution = model_.model->execution;
  return zero_ == 1 && !execution.adds_gradients &&
         execution.gradient_buckets == GradientBuckets::flat;
}

Program StageLowering::lower() {
  make_blocks();
  const Execution& execution = model_.model->execution;
  builder_.set_allocation({.expandable = execution.expandable_segments,
                           .copies_gathered = execution.copies_weights && zero_ == 3,
                           .flat_parameters = execution.flat_parameters && zero_ == 3,
                           .separate_gradients = execution.adds_gradients,
                           .moved_parameters = moves_parameters(),
                           .held_logits = execution.held_logits,
                           .loss_metrics = execution.loss_metrics,
                           .master_weights = layout_.master_weights,
                           .master_bytes = layout_.master_bytes(),
                           .moment_bytes = layout_.moment_bytes()});
  builder_.set_host_rules(
      {.waits = layout_.overlap_pipeline || layout_.schedule != Schedule::interleaved,
       .blocks_launches = execution.blocking_launches});
  builder_.reserve(estimated_ops());
  make_work();
  count_scaled_tensors();
  make_parameters();
  make_buckets();
  allocate_parameters();
  gather_at_start();
  zero_gradients();
  for (std::size_t i = 0; i < slots_.size(); ++i)
    lower_slot(i);
  reduce_remaining();
  sum_tensor_gradients();
  sum_tied_gradients();
  optimizer_step();
  return builder_.finish();
}

void StageLowering::make_blocks() {
  std::uint32_t ops = 0;
  const auto add = [&](std::uint32_t shape, int layer, int chunk) -> StageBlock& {
    StageBlock& block = blocks_.emplace_back();
    block.shape = shape;
    block.layer = static_cast<std::int16_t>(layer);
    block.chunk = chunk;
    block.first_op = ops;
    block.first_saved = chunks_.back().saved;
    const auto count = static_cast<std::uint32_t>(model_.blocks[shape].ops.size());
    ops += count;
    chunks_.back().saved += count;
    return block;
  };
  for (int local = 0; local < layout_.virtual_stages; ++local) {
    const int global = placement_.chunk_of(stage_, local);
    Chunk& chunk = chunks_.emplace_back();
    chunk.global = static_cast<std::int16_t>(global);
    chunk.first_block = static_cast<std::uint32_t>(blocks_.size());
    if (global == 0 && model_.input) add(*model_.input, -1, local).is_first = true;
    const auto at = static_cast<std::size_t>(global);
    for (int layer = model_.first_layer[at]; layer < model_.first_layer[at + 1]; ++layer) {
      StageBlock& block = add(model_.of_layer[static_cast<std::size_t>(layer)], layer, local);
      block.checkpoint = layout_.recompute == Recompute::operators ||
                         (layout_.recompute == Recompute::full &&
                          (layer - model_.first_layer[at]) % layout_.recompute_every == 0);
      block.is_first = layer == 0 && !model_.input;
    }
    if (global == layout_.chunks() - 1 && model_.output) {
      StageBlock& block = add(*model_.output, -1, local);
      block.is_output = true;
      block.checkpoint =
          layout_.recompute == Recompute::full && model_.model->execution.recomputes_head;
    }
    chunk.blocks = static_cast<std::uint32_t>(blocks_.size()) - chunk.first_block;
  }
  const auto micro_batches = static_cast<std::uint32_t>(layout_.micro_batches());
  std::uint32_t base = 0;
  for (Chunk& chunk : chunks_) {
    chunk.saved_base = base;
    base += chunk.saved * micro_batches;
  }
  saved_.resize(base);
  if (layout_.recompute == Recompute::full || layout_.recompute == Recompute::operators) {
    checkpoints_.resize(blocks_.size() * micro_batches);
    kept_outputs_.resize(checkpoints_.size(), BufferId{none});
  }
  find_gradients();
}

// The passes with the first and the last gradients of each chunk.
void StageLowering::find_gradients() {
  const SlotKind last =
      splits_backward(layout_.schedule) ? SlotKind::weight_backward : SlotKind::backward;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].kind != last) continue;
    Chunk& chunk = chunks_[static_cast<std::size_t>(slots_[i].chunk)];
    if (chunk.last_backward < 0) chunk.first_gradients = slots_[i].microbatch;
    chunk.last_backward = static_cast<int>(i);
  }
}

std::size_t StageLowering::estimated_ops() const {
  std::size_t ops = 0;
  for (const Chunk& chunk : chunks_)
    ops += 5 * std::size_t{chunk.saved} + 6;
  return ops * static_cast<std::size_t>(layout_.micro_batches()) + 8 * saved_.size() / 64 + 64;
}

void StageLowering::make_work() {
  work_.resize(model_.blocks.size());
  for (const StageBlock& block : blocks_) {
    BlockWork& work = work_[block.shape];
    if (work.interned) continue;
    work.interned = true;
    for (const ShardedOp& op : model_.blocks[block.shape].ops) {
      intern_op(op, work.ops.emplace_back());
    }
    find_branches(model_.blocks[block.shape], work);
  }
}

void StageLowering::find_branches(const ShardedBlock& block, BlockWork& work) {
  past_branch_.resize(std::max(past_branch_.size(), block.ops.size()));
  gradient_past_branch_.resize(past_branch_.size());
  lent_gradient_.resize(past_branch_.size());
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    const ShardedOp& sum = block.ops[i];
    if (sum.op->residual_of < 0) {
      if (sum.op->starts_from >= 0)
        work.ops[static_cast<std::size_t>(sum.op->starts_from)].lends_input = true;
      if (sum.add_gradient) intern_gradient_sum(sum, i, work.ops[i]);
      continue;
    }
    SIM_CHECK(static_cast<std::size_t>(sum.op->residual_of) < i, sum.op->name);
    OpWork& first = work.ops[static_cast<std::size_t>(sum.op->residual_of)];
    SIM_CHECK(!first.begins_branch, sum.op->name);
    first.begins_branch = true;
    first.branch_sum = static_cast<std::uint32_t>(i);
    if (sum.add_gradient) intern_gradient_sum(sum, i, first);
    const auto behind = block.ops.begin() + static_cast<std::ptrdiff_t>(i);
    const auto linear = std::find_if(behind, block.ops.end(), [](const ShardedOp& op) {
      return op.op->kind == ModelOpKind::linear;
    });
    if (linear != block.ops.end())
      work.ops[static_cast<std::size_t>(linear - block.ops.begin())].begins_mlp = true;
  }
}

void StageLowering::intern_gradient_sum(const ShardedOp& op, std::size_t i, OpWork& work) {
  work.branch_sum = static_cast<std::uint32_t>(i);
  work.add_gradient = builder_.kernel(*op.add_gradient);
  work.add_gradient_name = builder_.name(op.op->name + ".add_gradient");
}

std::uint32_t StageLowering::interned(const std::optional<Kernel>& kernel) {
  return kernel ? builder_.kernel(*kernel) : none;
}

std::vector<std::uint32_t> StageLowering::interned(const std::vector<Kernel>& kernels) {
  std::vector<std::uint32_t> ids;
  ids.reserve(kernels.size());
  for (const Kernel& kernel : kernels)
    ids.push_back(builder_.kernel(kernel));
  return ids;
}

void StageLowering::intern_op(const ShardedOp& op, OpWork& work) {
  const std::string& name = op.op->name;
  work.name = builder_.name(name);
  work.gradient_name = op.input_gradient ? builder_.name(name + ".input_gradient") : work.name;
  if (op.weight_gradient) work.weight_name = builder_.name(name + ".weight_gradient");
  if (op.weight_gradient && op.backward) work.bias_name = builder_.name(name + ".bias_gradient");
  if (op.encode_gradient)
    work.encode_name = builder_.name(name + ".encode");
  else if (op.encode_saved || op.transpose_gradient)
    work.encode_name = builder_.name(name + ".reorder");
  work.forward = interned(op.forward);
  work.backward = interned(op.backward);
  work.encode_input = interned(op.encode_input);
  work.encode_saved = interned(op.encode_saved);
  work.encode_gradient = interned(op.encode_gradient);
  work.encode_weight = interned(op.encode_weight);
  work.encode_saved_weight = interned(op.encode_saved_weight);
  work.join_output = interned(op.join_output);
  work.own_output = interned(op.own_output);
  work.spread_gradient = interned(op.spread_gradient);
  work.add_products = interned(op.add_products);
  work.sum_products = interned(op.sum_products);
  work.rescale_input_gradient = interned(op.rescale_input_gradient);
  work.rescale_weight_gradient = interned(op.rescale_weight_gradient);
  work.reorder_input = interned(op.reorder_input);
  work.reorder_output = interned(op.reorder_output);
  if (op.reorder_input || op.reorder_output) work.reorder_name = builder_.name(name + ".reorder");
  intern_products(op, work);
  intern_collectives(op, work);
  work.transpose_gradient = interned(op.transpose_gradient);
  if (op.forward_part) intern_user_buffers(op, work.buffers);
  if (op.sliced_forward) intern_slices(op, work);
  if (op.context) intern_context(op, work.context);
  if (op.experts || op.choose) intern_experts(op, work.experts);
}

void StageLowering::intern_products(const ShardedOp& op, OpWork& work) {
  work.products_again = interned(op.forward_again);
  if (!op.weight_gradient) return;
  const auto each = static_cast<std::size_t>(op.products);
  const bool apart = !op.forward_apart.empty();
  work.products = interned(apart ? op.forward_apart : std::vector(each, *op.forward));
  work.input_gradients =
      interned(apart ? op.input_gradient_apart : std::vector{*op.input_gradient});
  work.weight_gradients =
      interned(apart ? op.weight_gradient_apart : std::vector(each, *op.weight_gradient));
}

StageLowering::Gathered StageLowering::as_gathered(const ShardedOp& op, Bytes tokens) const {
  const DType kept = layout_.activation_dtype;
  const DType sent = op.gathers_eight_bits ? DType::fp8 : kept;
  return {sent, Bytes{tokens.count() / bytes_of(kept) * bytes_of(sent)}};
}

void StageLowering::intern_collectives(const ShardedOp& op, OpWork& work) {
  const bool scattered = layout_.sequence_parallel;
  const Carrier carrier = op.forward_part ? Carrier::user_buffers : Carrier::nccl;
  const int sms = op.forward_part ? user_buffer_sms : 0;
  const auto make = [&](CollectiveKind kind, Bytes bytes) {
    return builder_.collective(
        {kind, GroupRole::tensor, layout_.activation_dtype, bytes, carrier, sms});
  };
  const auto gather = [&](Bytes bytes) {
    const Gathered sent = as_gathered(op, bytes);
    return builder_.collective(
        {CollectiveKind::all_gather, GroupRole::tensor, sent.dtype, sent.bytes, carrier, sms});
  };
  const CollectiveKind sum =
      scattered ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
  const std::string& name = op.op->name;
  if (op.gathers_input || (op.sums_output && scattered)) {
    work.gather_name = builder_.name(name + ".all_gather");
  }
  if (op.gathers_input) work.gather_input = gather(op.whole_input);
  if (op.sums_gradient || op.sums_output) {
    work.sum_name = builder_.name(name + (scattered ? ".reduce_scatter" : ".all_reduce"));
  }
  if (op.sums_gradient) work.sum_gradient = make(sum, op.whole_input);
  if (op.sums_output) {
    work.sum_output = make(sum, op.whole_output);
    if (scattered) work.gather_gradient = gather(op.whole_output);
  }
  if (op.join_output) {
    work.gather_name = builder_.name(name + ".all_gather");
    work.gather_output = make(CollectiveKind::all_gather, op.gathered_output);
  }
  if (op.spread_gradient) {
    work.sum_name = builder_.name(name + ".reduce_scatter");
    work.scatter_gradient = make(CollectiveKind::reduce_scatter, op.gathered_output);
  }
  if (op.splits_loss) {
    // One fp32 number per token, three times (Megatron-LM, core/tensor_parallel/cross_entropy.py):
    // the maximum, the logit of the target, the sum of exponentials.
    const Bytes bytes{op.forward->m * 4};
    work.loss_maximum =
        builder_.collective({CollectiveKind::all_reduce, GroupRole::tensor, DType::fp32, bytes});
    work.loss_sum = work.loss_maximum;
    work.sum_name = builder_.name(name + ".all_reduce");
  }
}

OpLabel StageLowering::label(const char* name) {
  OpLabel label;
  label.name = builder_.name(name);
  return label;
}

OpLabel StageLowering::boundary_label(const char* name, const Chunk& chunk, int microbatch) {
  OpLabel made = label(name);
  made.chunk = chunk.global;
  made.microbatch = microbatch;
  return made;
}

Frame StageLowering::frame(const StageBlock& block, int microbatch, Pass pass) {
  const Chunk& chunk = chunks_[static_cast<std::size_t>(block.chunk)];
  Frame made;
  made.block = &block;
  made.shape = &model_.blocks[block.shape];
  made.work = &work_[block.shape];
  made.saved = saved_.data() + chunk.saved_base +
               static_cast<std::size_t>(microbatch) * chunk.saved + block.first_saved;
  made.label.layer = block.layer;
  made.label.chunk = chunk.global;
  made.label.microbatch = microbatch;
  made.pass = pass;
  return made;
}

std::uint32_t StageLowering::checkpoint_index(const StageBlock& block, int microbatch) const {
  const auto at = static_cast<std::uint32_t>(&block - blocks_.data());
  return at * static_cast<std::uint32_t>(layout_.micro_batches()) +
         static_cast<std::uint32_t>(microbatch);
}

void StageLowering::lower_slot(std::size_t index) {
  current_slot_ = index;
  const auto sent = [&](Stream stream) {
    return builder_.has_op(stream) ? builder_.last(stream) : OpId{none};
  };
  sent_before_slot_.push_back({sent(Stream::forward_send), sent(Stream::backward_send)});
  post_receives();
  const Slot& slot = slots_[index];
  switch (slot.kind) {
    case SlotKind::forward:
      return lower_forward_slot(slot);
    case SlotKind::backward:
      return lower_backward_slot(slot);
    case SlotKind::weight_backward: {
      const Chunk& chunk = chunk_of(slot);
      for (std::uint32_t i = chunk.blocks; i-- > 0;) {
        Frame made = frame(blocks_[chunk.first_block + i], slot.microbatch, Pass::weight_backward);
        deferred_weight_gradients(made);
      }
    }
  }
}

void StageLowering::lower_forward_slot(const Slot& slot) {
  const Chunk& chunk = chunk_of(slot);
  wait_for_messages();
  Value x = received(slot);
  for (std::uint32_t i = 0; i < chunk.blocks; ++i) {
    const std::uint32_t at = chunk.first_block + i;
    const StageBlock& block = blocks_[at];
    prefetch(at, +1);
    Frame made = frame(block, slot.microbatch, Pass::forward);
    wait_for_weights(block);
    if (block.checkpoint && x.exists()) {
      made.keep = false;
      checkpoints_[checkpoint_index(block, slot.microbatch)] = x;
      hold(x.buffer);
    }
    x = forward_block(made, x);
    if (!made.keep) keep_outputs(block, slot.microbatch);
    release_weights(block, true);
    if (ends_layers(chunk, i, +1)) share_maxima(chunk, slot.microbatch, Pass::forward);
  }
  if (chunk.global + 1 == layout_.chunks()) {
    drop(x, Role::output);
  } else if (leads_pair(current_slot_)) {
    waiting_output_ = x;
    waiting_slot_ = current_slot_;
  } else {
    pass_on(slot, x);
  }
}

// The operator added last, the residual sum at the end of the layer, is taken as their writer.
void StageLowering::keep_outputs(const StageBlock& block, int microbatch) {
  const Bytes bytes = model_.blocks[block.shape].kept_outputs;
  if (bytes.count() == 0) return;
  BufferId& kept = kept_outputs_[checkpoint_index(block, microbatch)];
  kept = builder_.buffer(bytes, BufferCategory::activations);
  builder_.writes(kept, Role::saved);
}

void StageLowering::recompute_block(const StageBlock& block, int microbatch) {
  Value& checkpoint = checkpoints_[checkpoint_index(block, microbatch)];
  if (!checkpoint.exists()) return;  // the first block of the model has no input to keep
  Frame again = frame(block, microbatch, Pass::recompute);
  std::swap(again.kept, kept_outputs_[checkpoint_index(block, microbatch)]);
  const bool may_end =
      layout_.recompute == Recompute::full || keeps_tensors(model_.model->execution, layout_);
  if (may_end && !block.is_output)
    again.end = operators_run_again(*again.shape->block, model_.model->execution, layout_);
  Value input = checkpoint;
  input.ready = OpId{none};  // its forward pass has read it: no need to wait again
  drop(forward_block(again, input), Role::output);
  checkpoint = Value{};
}

// The loss is not recomputed: what stands before it is, behind its backward pass.
Value StageLowering::backward_head(Frame& frame, int microbatch) {
  std::size_t i = frame.shape->ops.size();
  Value gradient;
  if (frame.shape->ops[i - 1].op->kind == ModelOpKind::cross_entropy)
    gradient = backward_op(frame, --i, gradient);
  recompute_block(*frame.block, microbatch);
  while (i-- > 0)
    gradient = backward_op(frame, i, gradient);
  return gradient;
}

void StageLowering::lower_backward_slot(const Slot& slot) {
  const Chunk& chunk = chunk_of(slot);
  wait_for_messages();
  Value gradient = received(slot);
  for (std::uint32_t i = chunk.blocks; i-- > 0;) {
    const std::uint32_t at = chunk.first_block + i;
    const StageBlock& block = blocks_[at];
    prefetch(at, -1);
    wait_for_weights(block);
    Frame made = frame(block, slot.microbatch, Pass::backward);
    if (block.checkpoint && block.is_output) {
      gradient = backward_head(made, slot.microbatch);
    } else {
      if (block.checkpoint) recompute_block(block, slot.microbatch);
      gradient = backward_block(made, gradient);
    }
    add_held_gradients(made);
    release_weights(block, false);
    if (ends_layers(chunk, i, -1)) share_maxima(chunk, slot.microbatch, Pass::backward);
  }
  reduce_aligned();  // before messages, for which kernels may have to wait
  send_waiting_forward();
  if (chunk.global > 0) {
    pass_on(slot, gradient);
  } else {
    drop(gradient, Role::input_gradient);
  }
  take_loss_metrics(chunk);
}

}  // namespace sim::lowering
