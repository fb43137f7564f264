// Scans over context-parallel ranks, and sparse attention.
#include <algorithm>

#include "sim/base/rounding.hpp"
#include "sim/plan/sharding/parts.hpp"

namespace sim {
namespace {

// The features that all heads of a group share are sent as often as there are context ranks for a
// group. Before an exchange a tensor is copied rank after rank. Behind it, the parts that came are
// put together, and the ranks' two chunks of the sequence, which balance attention, are put in
// order (torch.cat, _undo_attention_load_balancing). The output of the scan has the second copy
// alone.
ContextAttention scan_exchange(const Region& region, const ModelOp& op) {
  const std::int64_t ranks = region.layout->context_parallel;
  const std::int64_t groups = std::max<std::int64_t>(1, op.scan->groups / region.tensor);
  const std::int64_t copies = std::max<std::int64_t>(1, ranks / groups);
  const auto part = [&](std::int64_t features, double behind) {
    ContextAttention::Heads heads;
    heads.bytes = Bytes{features * region.tokens * region.element / region.tensor};
    const auto bytes = static_cast<double>(heads.bytes.count());
    heads.order = memory_kernel(OpKind::elementwise, region, op, 2.0 * bytes);
    heads.behind = memory_kernel(OpKind::elementwise, region, op, behind * bytes);
    return heads;
  };
  ContextAttention made;
  for (const ScanShape::Part& one : op.scan->exchanged)
    made.parts.push_back(part(one.features * (one.of_groups ? copies : 1), 4));
  made.made = part(op.out_features, 2);
  return made;
}

}  // namespace

void shard_scan(const Region& region, const ModelOp& op, ShardedOp& to) {
  const ScanShape& scan = *op.scan;
  const std::int64_t chunks = divide_up(region.row, scan.chunk);
  to.forward->in_sequence = chunks * scan.forward_step;
  to.backward->in_sequence = chunks * scan.backward_step;
  if (region.layout->context_parallel > 1) to.context = scan_exchange(region, op);
}

// Among s tokens a query at i sees min(i, k): the share of a window in all pairs under the mask.
// Attention works on the narrow vectors, which all heads share (arXiv:2512.02556, section 2.1:
// "implemented in the MQA mode of MLA"): queries and keys of rank + rotary features, values of
// rank. Backward it computes the scores again. The indexer scores all pairs before the choice; its
// own loss compares the chosen pairs with the scores of all heads, which are computed once more,
// and its backward pass multiplies the chosen pairs twice. Its scores are written in fp32, and read
// by the choice. Repeated gathers from the cache by queries are not counted.
//
// Context ranks have queries of their own, in chunks that balance the mask, and all keys: the keys
// that came are put into the order of the sequence (Megatron-LM at d98e8a64, dsa.py,
// kv_reorder_idx).
Kernel sparse_attention_kernel(const Region& region, const ModelOp& op, AttentionPart part) {
  const TransformerShape& shape = *region.model->shape;
  const Layout& layout = *region.layout;
  const bool forward = part == AttentionPart::forward;
  const auto tokens = static_cast<double>(layout.sequence_length);
  const double all =
      static_cast<double>(layout.micro_batch) * tokens * tokens / 2 / layout.context_parallel;
  const double chosen = all * share_in_window(op.top_keys, layout.sequence_length);
  const auto values = static_cast<double>(shape.latent.key_value_rank);
  const double keys = values + static_cast<double>(shape.latent.rotary_dim);
  const double heads = static_cast<double>(shape.heads) / region.tensor;
  const double index = static_cast<double>(shape.sparse.index_heads * shape.sparse.index_dim);
  const double attention = forward ? keys + values : 2 * (keys + values) + keys;
  const double loss = forward && !op.reuses_choice ? keys : 0;
  const double indexer = op.reuses_choice ? 0.0 : (forward ? all * index : 2 * chosen * index);
  Kernel kernel = memory_kernel(OpKind::generic, region, op, 0);
  kernel.part = part;
  kernel.flops = Flops{2 * (chosen * heads * (attention + loss) + indexer)};
  const double elements = forward ? op.forward_elements : op.backward_elements;
  constexpr double fp32_elements = 2;
  const double scores = op.reuses_choice ? 0.0 : 2 * fp32_elements * (forward ? all : chosen);
  kernel.bytes = bytes_from(
      (elements * static_cast<double>(region.tokens) / region.tensor + scores) * region.element);
  kernel.launches = forward ? 5 : 6;
  if (layout.context_parallel > 1) {
    kernel.bytes += sparse_context(region, op).slice * (std::int64_t{2} * layout.context_parallel);
    kernel.launches += 2;
  }
  return kernel;
}

// Every tensor rank has the indexer's scores of all tokens: it gathers the hidden state and the
// narrow vector of queries, and keeps them (dsa.py, DSAIndexer.forward_before_topk). The loss
// compares with the scores of the heads of all ranks (dsa.py, "attention_scores_sum").
void shard_indexer(const Region& region, ShardedOp& to) {
  const TransformerShape& shape = *region.model->shape;
  for (std::optional<Kernel>* const pass : {&to.forward, &to.backward}) {
    Kernel& kernel = **pass;
    kernel.m *= region.tensor;
    kernel.bytes = kernel.bytes * region.tensor;
    kernel.flops = kernel.flops * region.tensor;
  }
  to.gathered_beside =
      Bytes{(shape.hidden + shape.latent.query_rank) * region.tokens * region.element};
  to.saved = to.saved * region.tensor + to.gathered_beside;
  const std::int64_t keys = std::min(shape.sparse.top_keys, region.layout->sequence_length);
  to.summed_beside = Bytes{region.tokens * keys * bytes_of(DType::fp32)};
}

// The narrow vector of keys and values, and the indexer's key (dsa.py, DSAttention.forward).
ContextAttention sparse_context(const Region& region, const ModelOp& op) {
  const TransformerShape& shape = *region.model->shape;
  const std::int64_t features = shape.latent.key_value_rank + shape.latent.rotary_dim +
                                (op.reuses_choice ? 0 : shape.sparse.index_dim);
  ContextAttention made;
  made.slice = made.gradient_slice = Bytes{features * region.tokens * region.element};
  return made;
}

}  // namespace sim
