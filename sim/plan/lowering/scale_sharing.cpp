// Delayed scaling of 8-bit tensors (Transformer Engine, pytorch/fp8.py, FP8GlobalStateManager): the
// scales of the next pass follow from the maxima of earlier ones. fp8_autocast_exit() and, in the
// backward pass, the first module of the region call reduce_and_update_fp8_tensors(): the maxima
// of all modules that the rank has, not of the region alone, are put together (torch.cat), reduced
// over the ranks of the stage while the stream of kernels waits (async_op=False), and all histories
// and scales updated by a kernel (fused_amax_and_scale_update_after_reduction). Megatron-LM opens
// such a region around the layers of a model chunk (core/transformer/transformer_block.py).
#include "sim/plan/lowering/scale_sharing.hpp"

#include "sim/plan/sharding/eight_bit.hpp"

namespace sim::lowering {
namespace {

constexpr std::int64_t forward_tensors = 3;   // of a product: input, weight, output (base.py,
constexpr std::int64_t backward_tensors = 2;  // set_meta_tensor); gradients of output and input
constexpr std::int64_t history = 1024;        // DelayedScaling, amax_history_len

}  // namespace

void ScaleSharing::count_scaled_tensors() {
  if (!shares_maxima(runs_, layout_)) return;
  for (const StageBlock& block : context_.blocks)
    for (const ShardedOp& op : model_.blocks[block.shape].ops)
      if (op.encoded_elements > 0) ++scaled_products_;
}

bool ScaleSharing::ends_layers(const Chunk& chunk, std::uint32_t i, int direction) const {
  const StageBlock& block = context_.blocks[chunk.first_block + i];
  if (scaled_products_ == 0 || block.layer < 0) return false;
  const bool last = direction > 0 ? i + 1 == chunk.blocks : i == 0;
  if (last) return true;
  return context_.blocks[chunk.first_block + (direction > 0 ? i + 1 : i - 1)].layer < 0;
}

void ScaleSharing::share_maxima(const Chunk& chunk, int microbatch, Pass pass) {
  const std::int64_t tensors =
      scaled_products_ * (pass == Pass::forward ? forward_tensors : backward_tensors);
  const Bytes bytes{4 * tensors};
  const OpLabel label = context_.boundary_label("maxima", chunk, microbatch);
  const Value maxima = tensors_.allocate(bytes);
  builder_.add_kernel(context_.memory_pass(2 * bytes.count(), OpKind::elementwise, DType::fp32),
                      Stream::compute, pass, label, {Action::collect_maxima});
  builder_.writes(maxima.buffer, Role::output);
  if (layout_.tensor_parallel * layout_.replicas() > 1) {
    builder_.wait_for_stream(Stream::tensor_comm, Stream::compute);
    const OpId shared = builder_.add_collective(
        builder_.collective({CollectiveKind::all_reduce, GroupRole::maxima, DType::fp32, bytes}),
        Stream::tensor_comm, pass, label, {Action::share_maxima});
    builder_.writes(maxima.buffer, Role::output);
    builder_.wait(Stream::compute, shared);
  }
  builder_.add_kernel(
      context_.memory_pass(2 * history * bytes.count(), OpKind::elementwise, DType::fp32),
      Stream::compute, pass, label, {Action::update_scales});
  tensors_.drop(maxima, Role::input);
}

}  // namespace sim::lowering
