// Held gradients are those of ZeRO-3 under torch.distributed.pipelining (Execution::holds_units).
//
// Source: PyTorch, torch/distributed/pipelining/stage.py, backward_maybe_with_nosync and
// perform_reduce_grad (pull requests 134052, 144535 and 165106). No backward pass of FSDP reshards
// or reduces: a unit is gathered once per step, or with reshard_after_forward once per micro-batch,
// and its gradients stay whole. FSDP adds them up in the format in which they are reduced, when a
// unit's backward pass is over (torch/distributed/fsdp/_fully_shard, _fsdp_param_group.py,
// post_backward; _fsdp_param.py, to_accumulated_grad_if_needed and
// accumulate_unsharded_grad_if_needed). All of them are reduced behind the last backward pass of
// the rank and its message, unit by unit, each of which is resharded then.
#include "sim/plan/block/gradient_sums.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace sim::lowering {

// PyTorch's AccumulateGrad (torch/csrc/autograd/functions/accumulate_grad.h) keeps the first
// gradient of a parameter and adds the later ones with a kernel of its own. Where they are
// converted the first one is added too.
bool GradientSums::adds_gradients(const Frame& frame, const Bucket& bucket) const {
  if (sums_wide(frame)) return true;
  if (bucket.outside) return !is_first_microbatch(frame) || frame.piece > 0;
  if (sharing_.holds)
    return frame.piece > 0 || !begins_sum(frame) ||
           sharing_.gradient_dtype != layout_.activation_dtype;
  if (runs_.adds_gradients && frame.piece > 0) return true;
  if (!runs_.adds_gradients || sharing_.zero >= 2) return false;
  return frame.label.microbatch > 0 || sharing_.converts;
}

// Chunks of the loss behind each of which FSDP does not reduce (LossChunks::at_once_fp32):
// gradients are cast to the format on the wire and added up there.
bool GradientSums::sums_wide(const Frame& frame) const {
  return frame.pieces > 1 && frame.replay != nullptr &&
         frame.replay->order == PieceOrder::at_once &&
         runs_.loss_chunks == LossChunks::at_once_fp32 && layout_.zero_stage == 3 &&
         layout_.shard_ranks() > 1 &&
         bytes_of(layout_.reduce_dtype) > bytes_of(layout_.gradient_dtype);
}

// The kernel added last adds to the gradients of these parameters, or writes them into a buffer,
// which is `own` if there is one already.
BufferId GradientSums::write_gradient(const Frame& frame, const Place& place, BufferId own) {
  if (place.bucket == none || place.elements == 0) return own;
  if (!adds_gradients(frame, store_.buckets[place.bucket])) {
    builder_.writes(store_.buckets[place.bucket].gradient, Role::weight_gradient);
    return own;
  }
  if (own.value == none) {
    const DType written = written_gradient_dtype(*model_.model, layout_);
    own = builder_.buffer(Bytes{place.elements * bytes_of(written)}, BufferCategory::gradients);
  }
  builder_.writes(own, Role::weight_gradient);
  return own;
}

// A placeholder of the operator added last (Placeholders): Megatron-LM,
// core/tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication.backward, since
// November 2023; Transformer Engine the same until pull request 1651.
void GradientSums::take_temporary_placeholder(const Place& place) {
  if (runs_.gradient_placeholders == Placeholders::none) return;
  const BufferId empty = builder_.buffer(Bytes{place.elements * bytes_of(layout_.activation_dtype)},
                                         BufferCategory::gradients);
  builder_.writes(empty, Role::workspace);
  builder_.frees(empty, Role::workspace);
}

// Linears of layers are Transformer Engine's.
bool GradientSums::has_kept_placeholder(const ModelOp& op) const {
  return runs_.gradient_placeholders == Placeholders::all_kept ||
         (runs_.gradient_placeholders == Placeholders::kept && is_linear_of_layer(op));
}

// One for each shape of a weight (Transformer Engine 2.3, pytorch/module/base.py, get_dummy_wgrad).
void GradientSums::allocate_kept_placeholders() {
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  for (const StageBlock& block : context_.blocks) {
    for (const ShardedOp& op : model_.blocks[block.shape].ops) {
      if (!has_kept_placeholder(*op.op) || !op.weight_gradient) continue;
      const int tensor = op.op->experts > 0 ? layout_.expert_tensor() : layout_.tensor_parallel;
      const bool column = op.op->split == TensorSplit::column;
      const std::pair shape{op.op->out_features / (column ? tensor : 1) / op.products,
                            op.op->in_features / (column ? 1 : tensor)};
      if (!shapes.insert(shape).second) continue;
      builder_.buffer(Bytes{shape.first * shape.second * bytes_of(layout_.activation_dtype)},
                      BufferCategory::gradients, true);
    }
  }
}

void GradientSums::add_gradient(const Frame& frame, std::size_t i, const Place& place,
                                BufferId own) {
  if (own.value == none) return;
  const ApartGradient apart{i, place, own};
  if (!sharing_.holds) return add_to_sum(frame, apart);
  if (frame.piece > 0) return add_to_first_piece(frame, apart);
  held_gradients_.push_back(apart);
}

// FSDP takes the gradients of a unit when all its pieces are done: until then autograd adds to the
// gradient of the first.
void GradientSums::add_to_first_piece(const Frame& frame, const ApartGradient& apart) {
  const auto first = std::ranges::find_if(held_gradients_, [&](const ApartGradient& held) {
    return held.op == apart.op && held.place.first == apart.place.first;
  });
  const ShardedOp& op = frame.shape->ops[apart.op];
  const DType written = written_gradient_dtype(*model_.model, layout_);
  emit_.compute(frame, apart.op,
                context_.memory_pass(apart.place.elements * 3 * bytes_of(written),
                                     OpKind::elementwise, written, op.products),
                builder_.name(op.op->name + ".add_gradient"), Action::add_weight_gradient);
  builder_.frees(apart.own, Role::input);
  builder_.writes(
      first != held_gradients_.end() ? first->own : store_.buckets[apart.place.bucket].gradient,
      Role::weight_gradient);
}

// Converted: what autograd holds is zeroed, added to, read, written in the other format and added
// to the sum (DeepSpeed, bf16_optimizer.py: clear_lp_grads, _update_hp_grad). The first that is
// held is cast, and is the sum.
void GradientSums::add_to_sum(const Frame& frame, const ApartGradient& apart) {
  const bool wide = sums_wide(frame);
  const int sum = bytes_of(wide ? layout_.reduce_dtype : sharing_.gradient_dtype),
            written = bytes_of(layout_.activation_dtype);
  const bool begins = wide ? frame.piece == 0 : sharing_.holds && begins_sum(frame);
  const bool outside = store_.buckets[apart.place.bucket].outside;
  const int each = outside             ? 3 * written
                   : sharing_.converts ? 5 * written + 4 * sum
                                       : written + (begins ? 1 : 2) * sum;
  const ShardedOp& op = frame.shape->ops[apart.op];
  emit_.compute(frame, apart.op,
                context_.memory_pass(apart.place.elements * each, OpKind::elementwise,
                                     sharing_.gradient_dtype, op.products),
                builder_.name(op.op->name + ".add_gradient"), Action::add_weight_gradient);
  if (wide) hold_wide_sum(frame, apart.place);
  builder_.frees(apart.own, Role::input);
  builder_.writes(store_.buckets[apart.place.bucket].gradient, Role::weight_gradient);
}

// The memory that the sum takes beyond the gradients of the bucket, in whose place it stands.
void GradientSums::hold_wide_sum(const Frame& frame, const Place& place) {
  if (frame.piece == 0) {
    const int more = bytes_of(layout_.reduce_dtype) - bytes_of(layout_.gradient_dtype);
    wide_sum_ = builder_.buffer(Bytes{place.elements * more}, BufferCategory::gradients);
    builder_.writes(wide_sum_, Role::workspace);
  } else if (frame.is_last_piece()) {
    builder_.frees(wide_sum_, Role::workspace);
  }
}

bool GradientSums::is_first_microbatch(const Frame& frame) const {
  const Chunk& chunk = context_.chunks[static_cast<std::size_t>(frame.block->chunk)];
  return frame.label.microbatch == chunk.first_gradients;
}

// Whether the micro-batch is the first of those whose gradients are reduced together.
bool GradientSums::begins_sum(const Frame& frame) const {
  if (!sharing_.each_run) return is_first_microbatch(frame);
  const Chunk& chunk = context_.chunks[static_cast<std::size_t>(frame.block->chunk)];
  return (frame.label.microbatch - chunk.first_gradients) % layout_.run_batches() == 0;
}

void GradientSums::add_held_gradients(const Frame& frame) {
  for (const ApartGradient& held : held_gradients_)
    add_to_sum(frame, held);
  held_gradients_.clear();
}

}  // namespace sim::lowering
