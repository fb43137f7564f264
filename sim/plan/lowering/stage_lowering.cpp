#include "sim/plan/lowering/stage_lowering.hpp"

#include "sim/layout/optimizer_states.hpp"

namespace sim::lowering {
namespace {

// Megatron-LM's gradients, which a kernel may add to, and its distributed optimizer's parameters
// (core/distributed/param_and_grad_buffer.py, grad_data and param_data).
bool has_buffers(const LoweringContext& context) {
  return context.sharing.zero < 2 && context.runs.bucket_rule == BucketRule::megatron &&
         context.runs.gradient_buckets == GradientBuckets::flat;
}
bool moves_parameters(const LoweringContext& context) {
  return context.sharing.zero == 1 &&
         (has_buffers(context) ||
          (!context.runs.adds_gradients && context.runs.gradient_buckets == GradientBuckets::flat));
}

RecordedStreams recorded_streams(const LoweringContext& context) {
  // Plain torch.distributed under autograd (Scaling). NVIDIA's recipes set
  // TORCH_NCCL_AVOID_RECORD_STREAMS, and functional collectives hold references instead.
  if (context.runs.adds_gradients && !has_buffers(context)) return RecordedStreams::tensor;
  // Megatron-LM's merged passes (core/pipeline_parallel/utils.py, ScheduleNode).
  return context.layout.overlap_expert_exchange ? RecordedStreams::exchange : RecordedStreams::none;
}

}  // namespace

StageLowering::StageLowering(const ShardedModel& model, const PipelineOrder& order, int stage)
    : context_{model, order.ranks[static_cast<std::size_t>(stage)], stage},
      weights_{context_, store_},
      local_steps_{context_, store_},
      tools_{context_, store_, weights_},
      parts_{tools_},
      forward_{tools_, parts_},
      backward_{tools_, parts_, forward_},
      messages_{context_, order},
      scales_{context_},
      host_{context_},
      saved_(context_.saved) {}

Program StageLowering::lower() {
  ProgramBuilder& builder = context_.builder;
  const Layout& layout = context_.layout;
  builder.set_allocation(allocation());
  builder.set_host_rules(
      {.waits = layout.overlap_pipeline || layout.schedule != Schedule::interleaved,
       .blocks_launches = context_.runs.blocking_launches});
  builder.reserve(estimated_ops());
  work_ = OpInterner{tools_, parts_}.intern_blocks();
  allocate();
  local_steps_.set_out();
  weights_.gather_at_start();
  OptimizerStep optimizer{context_, store_, weights_, local_steps_};
  optimizer.begin_step();
  for (std::size_t i = 0; i < context_.slots.size();) {
    i += lower_slots(i);
    if (context_.begins_batch(i)) end_batch();
  }
  messages_.wait_for_sends();
  tools_.reduction.reduce_remaining();
  if (context_.runs.waits_for_batches) builder.host_waits_for_all();
  optimizer.sum_tensor_gradients();
  optimizer.sum_tied_gradients();
  optimizer.optimizer_step();
  return builder.finish();
}

// The training loop calls the schedule, or the model, for the next batch of a step.
void StageLowering::end_batch() {
  messages_.wait_for_sends();
  tools_.reduction.end_run();
  if (context_.runs.waits_for_batches) context_.builder.host_waits_for_all();
}

Allocation StageLowering::allocation() const {
  const Execution& runs = context_.runs;
  const Layout& layout = context_.layout;
  const int zero = context_.sharing.zero;
  return {.expandable = runs.expandable_segments,
          .max_split_size = runs.max_split_size,
          .copies_gathered = runs.copies_weights && zero == 3,
          .flat_parameters = runs.flat_parameters && zero == 3,
          .separate_gradients = runs.adds_gradients && !has_buffers(context_),
          .moved_parameters = moves_parameters(context_),
          .parameter_buffers = has_buffers(context_),
          .recorded = recorded_streams(context_),
          .held_logits = runs.held_logits,
          .loss_metrics = runs.loss_metrics,
          // Runs that train adapters alone: the gathered units have no masters.
          .master_weights = layout.master_weights && !layout.trains_adapters(),
          .master_bytes = layout.master_bytes(),
          .moment_bytes = layout.state_format == StateFormat::plain
                              ? layout.moment_bytes()
                              : moment_bytes(layout, least_in_blocks) / least_in_blocks};
}

std::size_t StageLowering::estimated_ops() const {
  std::size_t ops = 0;
  for (const Chunk& chunk : context_.chunks)
    ops += 5 * std::size_t{chunk.saved} + 6;
  return ops * static_cast<std::size_t>(context_.layout.micro_batches()) + 8 * saved_.size() / 64 +
         64;
}

void StageLowering::allocate() {
  ParameterLayout parameters{context_, store_};
  parameters.make_parameters();
  parameters.make_buckets();
  parameters.compress_gradients();
  parameters.allocate_parameters();
  local_steps_.allocate();
  tools_.sums.allocate_kept_placeholders();
  parts_.experts.allocate_expert_workspaces();
  parameters.describe_parameters();
}

Frame StageLowering::frame(const StageBlock& block, int microbatch, Pass pass) {
  const Chunk& chunk = context_.chunks[static_cast<std::size_t>(block.chunk)];
  Frame made;
  made.block = &block;
  const std::uint32_t shape = context_.model.block_for(block.shape, microbatch);
  made.shape = &context_.model.blocks[shape];
  made.work = &work_[shape];
  made.saved = saved_.data() + chunk.saved_base +
               static_cast<std::size_t>(microbatch) * chunk.saved + block.first_saved;
  made.label.layer = block.layer;
  made.label.chunk = chunk.global;
  made.label.microbatch = microbatch;
  made.pass = pass;
  made.kept = block.left_out ? &made.shape->kept_left_out : &made.shape->kept;
  made.keep = pass != Pass::forward || !(block.frozen || made.kept->keeps_input_alone());
  return made;
}

std::size_t StageLowering::lower_slots(std::size_t index) {
  if (!context_.layout.overlap_expert_exchange) {
    lower_slot(index);
    return 1;
  }
  const MergedSlots slots = merged_slots(context_, index);
  lower_merged(slots);
  return slots.count();
}

void StageLowering::lower_slot(std::size_t index) {
  context_.slot = index;
  messages_.begin_slot();
  const Slot& slot = context_.slots[index];
  switch (slot.kind) {
    case SlotKind::forward:
      return lower_forward(slot);
    case SlotKind::backward:
      return lower_backward(slot);
    case SlotKind::weight_backward:
      return lower_weight_backward(slot);
  }
}

void StageLowering::lower_forward(const Slot& slot) {
  const Chunk& chunk = context_.chunk_of(slot);
  messages_.wait_for_messages();
  Value x = messages_.received(slot);
  for (std::uint32_t i = 0; i < chunk.blocks; ++i) {
    const std::uint32_t at = chunk.first_block + i;
    const StageBlock& block = context_.blocks[at];
    weights_.prefetch(at, +1);
    Frame made = frame(block, slot.microbatch, Pass::forward);
    weights_.wait_for_weights(block);
    x = forward_.forward_block(made, x);
    weights_.release_weights(block, true);
    host_.behind_forward(made);
    if (scales_.ends_layers(chunk, i, +1))
      scales_.share_maxima(chunk, slot.microbatch, Pass::forward);
  }
  host_.end_forward();
  if (chunk.global + 1 == context_.layout.chunks()) {
    context_.tensors.drop(x, Role::output);
  } else if (messages_.leads_pair()) {
    messages_.send_behind_pair(x);
  } else {
    messages_.pass_on(slot, x);
  }
}

void StageLowering::lower_backward(const Slot& slot) {
  const Chunk& chunk = context_.chunk_of(slot);
  messages_.wait_for_messages();
  Value gradient = messages_.received(slot);
  for (std::uint32_t i = chunk.blocks; i-- > 0;) {
    const std::uint32_t at = chunk.first_block + i;
    const StageBlock& block = context_.blocks[at];
    if (block.frozen) {
      weights_.release_weights(block, false);
      continue;
    }
    weights_.prefetch(at, -1);
    weights_.wait_for_weights(block);
    host_.before_backward(at, slot.microbatch);
    Frame made = frame(block, slot.microbatch, Pass::backward);
    gradient = backward_.backward_block(made, gradient);
    tools_.sums.add_held_gradients(made);
    tools_.reduction.reduce_held();
    weights_.release_weights(block, false);
    if (scales_.ends_layers(chunk, i, -1))
      scales_.share_maxima(chunk, slot.microbatch, Pass::backward);
  }
  tools_.reduction.reduce_aligned();  // before messages, for which kernels may have to wait
  messages_.send_waiting_forward();
  if (chunk.global > 0) {
    messages_.pass_on(slot, gradient);
  } else {
    context_.tensors.drop(gradient, Role::input_gradient);
  }
  backward_.take_loss_metrics(chunk);
}

void StageLowering::lower_weight_backward(const Slot& slot) {
  const Chunk& chunk = context_.chunk_of(slot);
  for (std::uint32_t i = chunk.blocks; i-- > 0;) {
    if (context_.blocks[chunk.first_block + i].frozen) continue;
    Frame made =
        frame(context_.blocks[chunk.first_block + i], slot.microbatch, Pass::weight_backward);
    backward_.deferred_weight_gradients(made);
    tools_.sums.add_held_gradients(made);
  }
}

}  // namespace sim::lowering
