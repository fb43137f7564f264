// Scratch memory of eager kernels (scratch.hpp), by operator.
#include "sim/plan/sharding/parts.hpp"

namespace sim {
namespace {

Bytes in_fp32(const Region& region, Bytes bytes) {
  return Bytes{bytes.count() / region.element * bytes_of(DType::fp32)};
}

void shard_loss_scratch(const Region& region, const ModelOp& op, ShardedOp& to) {
  if (to.backward_scratch.count() == 0) return;
  const Bytes logits = in_fp32(region, to.input);
  if (op.backward_scratch_bytes > 0) {
    to.scratch_backward = copied(logits);
    return;
  }
  to.scratch_forward = to.splits_loss ? split_loss_forward(logits) : eager_loss_forward(logits);
  to.scratch_backward = to.splits_loss ? split_loss_backward(logits) : eager_loss_backward(logits);
}

// A flash kernel adds up the gradient of the queries in fp32 (flash-attn, csrc/flash_attn/
// flash_api.cpp, dq_accum; the same in ATen/native/transformers/cuda/flash_attn).
Scratch flash_backward(Bytes queries) {
  return {{ScratchMoment::take, 0, queries},
          {ScratchMoment::write_results, 0, {}},
          {ScratchMoment::give, 0, {}},
          {ScratchMoment::free_operands, 0, {}}};
}

void shard_attention_scratch(const Region& region, ShardedOp& to) {
  if (is_flash(region.layout->attention)) {
    to.scratch_backward = flash_backward(in_fp32(region, to.output));
    return;
  }
  const AttentionShape shape = rank_attention(region, *to.op);
  const Kernel& kernel = *to.forward;
  Scores scores;
  scores.matrix = Bytes{kernel.batch * kernel.heads * kernel.m * kernel.n * region.element};
  scores.kept = to.attention_saved;
  scores.eager = shape.eager_softmax;
  scores.dropout = shape.dropout;
  to.scratch_forward = scores_forward(scores);
  to.scratch_backward = scores_backward(scores);
}

}  // namespace

void shard_scratch(const Region& region, const ModelOp& op, ShardedOp& to) {
  if (op.kind == ModelOpKind::cross_entropy) shard_loss_scratch(region, op, to);
  if (op.kind == ModelOpKind::attention && to.forward &&
      (!to.context || exchanges_heads(*region.layout)))
    shard_attention_scratch(region, to);
  // A head outside of what is compiled reads its tokens from a copy.
  if (to.gathers_input && region.model->execution.eager_ends &&
      op.split == TensorSplit::vocabulary && !region.model->execution.copies_tokens)
    to.scratch_gather = copied(to.whole_input);
  if (to.join_output && op.gathered_features == 0)
    to.scratch_gather = gathered_list(to.gathered_output);
}

}  // namespace sim
