#include <cmath>

#include "sim/plan/sharding_parts.hpp"

namespace sim {
namespace {

// Matrices of s^2 elements that an unfused attention moves, in reads + writes.
// Products: forward, scores written and read by the second one; backward, dP written, dS read for
// dQ and dK, P read for dV. Dropout reads, writes and stores a mask byte, both ways.
// Softmax: read and written; its gradient reads two and writes one. The fused kernel of a causal
// mask writes all of a row and reads what the mask leaves of it: half (Megatron-LM,
// scaled_upper_triang_masked_softmax.h). Eager, in fp32 (Megatron-LM, attention_softmax_in_fp32;
// PyTorch's math path under autocast): on fp32 values, besides mask 1 + 1 and casts (1 + 2) +
// (2 + 1).
struct ScorePasses {
  double products = 0, softmax = 0, elementwise = 0;
  double all() const { return products + softmax + elementwise; }
};
ScorePasses score_passes(bool forward, bool causal, const AttentionShape& shape) {
  const double read = causal && !shape.eager_softmax ? 0.5 : 1.0;
  ScorePasses passes;
  passes.products = forward ? 2 : 4;
  passes.softmax = (forward ? read : 2 * read) + 1;
  passes.elementwise = shape.dropout ? 2.5 : 0;
  if (shape.eager_softmax) {
    passes.softmax *= 2;
    passes.elementwise += 8;
  }
  return passes;
}

}  // namespace

bool copies_attention(const Region& region) {
  return region.model->execution.copies_attention && region.layout->micro_batch > 1;
}

Kernel attention_kernel(const Region& region, const ModelOp& op, AttentionPart part,
                        const ScoreBlock& block) {
  const AttentionShape& shape = region.model->attention;
  const bool forward = part == AttentionPart::forward;
  const bool flash = is_flash(region.layout->attention);
  Kernel kernel;
  kernel.kind = OpKind::attention;
  kernel.dtype = region.layout->activation_dtype;
  kernel.part = part;
  kernel.causal = block.causal;
  kernel.attention = region.layout->attention;
  kernel.m = block.m;
  kernel.n = block.n;
  kernel.k = shape.head_dim;
  kernel.batch = region.layout->micro_batch;
  kernel.heads = shape.heads / region.tensor;
  kernel.kv_heads = shape.kv_heads / region.tensor;
  const double scores = static_cast<double>(kernel.batch * kernel.heads) *
                        static_cast<double>(kernel.m) * static_cast<double>(kernel.n);
  // Two products forward; backward four, and five in a flash kernel, which computes the scores
  // again (Dao et al. 2022, algorithm 4). A flash kernel skips the masked half.
  const double products = forward ? 2.0 : (flash ? 5.0 : 4.0);
  kernel.flops = Flops{products * 2.0 * scores * static_cast<double>(shape.head_dim) *
                       (flash && block.causal ? 0.5 : 1.0)};
  const double elements = forward ? op.forward_elements : op.backward_elements;
  // Those of K and V belong to the n tokens; `elements` counts them per token of m.
  const double of_keys =
      (forward ? 2.0 : 4.0) * static_cast<double>(shape.kv_heads * shape.head_dim);
  double bytes =
      (elements * static_cast<double>(block.m) + of_keys * static_cast<double>(block.n - block.m)) *
      static_cast<double>(kernel.batch) / region.tensor;
  if (!flash) {
    const ScorePasses passes = score_passes(forward, block.causal, shape);
    bytes += passes.all() * scores;
    kernel.beside = bytes_from(passes.elementwise * scores * region.element);
  }
  kernel.bytes = bytes_from(bytes * region.element);
  // Flash backward: dO.O, the main kernel, conversion of dQ. Unfused: the products, the softmax and
  // the dropout.
  kernel.launches =
      flash ? (forward ? 1 : 3)
            : (forward ? 3 : 5) + (shape.dropout ? 1 : 0) + (shape.eager_softmax ? 3 : 0);
  return kernel;
}

ContextAttention context_attention(const Region& region, const ModelOp& op) {
  const AttentionShape& shape = region.model->attention;
  const std::int64_t held = region.layout->tokens_held();
  const ScoreBlock block{held, shape.causal ? held / 2 : held, false};
  ModelOp plain = op;  // what a framework adds around the attention, it adds once
  const double heads = static_cast<double>(shape.heads);
  const bool eager = region.model->execution.eager_context;
  const double queries = static_cast<double>(shape.heads * shape.head_dim);
  const double keys =
      2.0 * static_cast<double>((eager ? shape.heads : shape.kv_heads) * shape.head_dim);
  plain.forward_elements = 2 * queries + keys;
  plain.backward_elements = 4 * queries + 2 * keys;
  const double tokens = static_cast<double>(region.tokens) / region.tensor;
  ContextAttention made;
  made.slice = bytes_from(keys * tokens * region.element);
  made.attend = attention_kernel(region, plain, AttentionPart::forward, block);
  made.attend_backward = attention_kernel(region, plain, AttentionPart::backward, block);
  const auto pass = [&](double bytes, int launches) {
    Kernel kernel = memory_kernel(OpKind::elementwise, region, op, bytes * tokens);
    kernel.launches = launches;
    return kernel;
  };
  // Log-sum-exp: running and part read, running written; both read again with the outputs.
  constexpr double log_sum_exp_bytes = 5 * 4;
  made.merge = pass(3 * queries * region.element + log_sum_exp_bytes * heads, 2);
  const double share = static_cast<double>(block.n) / static_cast<double>(held);
  const double gradients = (queries + share * keys) * region.element;
  made.begin_gradients = pass(2 * gradients, 2);
  made.add_gradients = pass(3 * gradients, 2);
  if (!eager) return made;
  // PyTorch, distributed/tensor/experimental/_attention.py, operator by operator, fp32 counted
  // twice, keys and values as wide as queries. _SDPAMerger: part to fp32 1 + 2, difference 2 + 2 +
  // 2, times the weight 2 + 2, subtracted 2 + 2 + 2. Backward: keys and values joined 2 (1 + 1), dQ
  // added 2 + 1 + 2, half of dK and dV likewise and joined to the other 2 (2.5 + 2 + 2), both
  // joined 2 (2 + 2); of the first slice all of them, and none joined.
  made.merge = pass(19 * queries * region.element, 8);
  made.begin_gradients = pass(27 * queries * region.element, 8);
  made.add_gradients = pass(30 * queries * region.element, 10);
  return made;
}

}  // namespace sim
