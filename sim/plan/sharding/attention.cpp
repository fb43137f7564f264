#include <cmath>

#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/parts.hpp"

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
  if (shape.softcap)
    passes.elementwise += forward ? 6 : 7;  // sim/model/embedding_and_head.cpp, softcap_op
  if (shape.eager_softmax) {
    passes.softmax *= 2;
    passes.elementwise += 8;
  }
  return passes;
}

// Casts belong to a rank's own tokens; of context-parallel ranks, each of whose steps is a kernel,
// a share to each.
void attend_in_eight_bits(const Region& region, Kernel& kernel) {
  const Execution& runs = region.model->execution;
  const AttentionCasts casts = attention_casts(runs);
  const bool forward = kernel.part == AttentionPart::forward;
  const double tokens = static_cast<double>(kernel.batch * kernel.m);
  const double keys = static_cast<double>(kernel.k);
  const double values = static_cast<double>(kernel.values > 0 ? kernel.values : kernel.k);
  const double outputs = static_cast<double>(kernel.heads) * values;
  const double inputs = static_cast<double>(kernel.heads) * keys +
                        static_cast<double>(kernel.kv_heads) * (keys + values);
  const double all = forward ? casts.inputs * inputs + casts.output * outputs
                             : casts.output_gradient * outputs + casts.input_gradients * inputs;
  const bool in_steps = region.layout->context_parallel > 1 && !exchanges_heads(*region.layout);
  kernel.dtype = DType::fp8;
  kernel.scales = runs.eight_bit == EightBit::transformer_engine_mxfp8 ? ProductScales::micro
                                                                       : ProductScales::tensors;
  kernel.beside = bytes_from(all * tokens / (in_steps ? region.layout->context_parallel : 1));
  kernel.launches += casts.launches;
}

}  // namespace

AttentionShape rank_attention(const Region& region, const ModelOp& op) {
  AttentionShape shape = region.model->attention;
  if (op.kv_heads > 0) shape.kv_heads = op.kv_heads;
  const std::int64_t matrices = region.layout->micro_batch * (shape.heads / region.tensor);
  shape.eager_softmax |= shape.softmax_in_fours && matrices % 4 != 0;
  return shape;
}

AttendedSequences attended_sequences(const Region& region) {
  const std::int64_t rows = region.layout->micro_batch;
  if (region.attended > 0) {
    const double tokens = static_cast<double>(rows * region.row);
    AttendedSequences made;
    made.count = std::max<std::int64_t>(1, std::llround(tokens / region.attended));
    made.length =
        std::llround(std::sqrt(tokens * region.attended / static_cast<double>(made.count)));
    return made;
  }
  const std::int64_t packed = packed_sequences(*region.layout);
  return {rows * packed, (region.row + packed / 2) / packed};
}

bool copies_attention(const Region& region) {
  return region.model->execution.copies_attention && region.layout->micro_batch > 1;
}

bool copies_attention_output(const Region& region) {
  const bool flash = region.model->execution.copies_flash_output &&
                     is_flash(region.layout->attention) && region.layout->micro_batch > 1;
  return flash || copies_attention(region);
}

Kernel attention_kernel(const Region& region, const ModelOp& op, AttentionPart part,
                        const ScoreBlock& block) {
  const AttentionShape shape = rank_attention(region, op);
  const bool forward = part == AttentionPart::forward;
  const bool flash = is_flash(region.layout->attention);
  const bool banded = block.causal && is_shorter(op.window, block.n);
  Kernel kernel;
  kernel.kind = OpKind::attention;
  kernel.dtype = region.layout->activation_dtype;
  kernel.part = part;
  kernel.causal = block.causal;
  kernel.attention = region.layout->attention;
  kernel.m = block.m;
  kernel.n = block.n;
  kernel.k = shape.head_dim;
  if (shape.value_dim != shape.head_dim) kernel.values = shape.value_dim;
  if (flash && banded) kernel.window = op.window;
  kernel.batch = attended_sequences(region).count;
  const int divisor = region.tensor * block.shares;
  kernel.heads = shape.heads / divisor;
  kernel.kv_heads = std::max<std::int64_t>(1, shape.kv_heads / divisor);
  const double scores = static_cast<double>(kernel.batch * kernel.heads) *
                        static_cast<double>(kernel.m) * static_cast<double>(kernel.n);
  // Two products forward, of the width of keys and of values; backward twice as many, and in a
  // flash kernel the scores again (Dao et al. 2022, algorithm 4). A flash kernel skips the masked
  // half, and what lies before a window (Dao 2023, section 3.1; flash-attn since 2.3, window_size).
  const auto keys = static_cast<double>(shape.head_dim);
  const auto values = static_cast<double>(shape.value_dim);
  const double widths = (forward ? 1 : 2) * (keys + values) + (forward || !flash ? 0 : keys);
  const double unmasked =
      flash && block.causal ? 0.5 * share_in_window(kernel.window, block.n) : 1.0;
  kernel.flops = Flops{2.0 * scores * widths * unmasked};
  const double elements = forward ? op.forward_elements : op.backward_elements;
  // Elements of K and V belong to the n tokens; `elements` counts them per token of m.
  const double of_keys = (forward ? 1.0 : 2.0) *
                         static_cast<double>(shape.kv_heads * (shape.head_dim + shape.value_dim));
  double bytes =
      (elements * static_cast<double>(block.m) + of_keys * static_cast<double>(block.n - block.m)) *
      static_cast<double>(kernel.batch) / divisor;
  if (!flash) {
    // The fused softmax of a causal mask knows no window: that is a mask like any other.
    const ScorePasses passes = score_passes(forward, block.causal && !banded, shape);
    bytes += passes.all() * scores;
    kernel.beside = bytes_from(passes.elementwise * scores * region.element);
  }
  kernel.bytes = bytes_from(bytes * region.element);
  // Flash backward: dO.O, the main kernel, conversion of dQ. Unfused: the products, the softmax and
  // the dropout.
  kernel.launches = flash ? (forward ? 1 : 3)
                          : (forward ? 3 : 5) + (shape.dropout ? 1 : 0) +
                                (shape.eager_softmax ? 3 : 0) + (shape.softcap ? 3 : 0);
  if (flash && attends_in_eight_bits(region.model->execution, *region.layout))
    attend_in_eight_bits(region, kernel);
  return kernel;
}

namespace {

// Passes over memory beside the kernels of attention, in bytes per token, and their launches.
struct ContextPass {
  double bytes = 0;
  int launches = 1;
};
struct ContextPasses {
  ContextPass merge, once_forward;             // of a part; once, for all parts
  ContextPass begin_gradients, add_gradients;  // of the first slice, with what is done once
};

// Transformer Engine; `share`: of a slice's keys and values that a rank has to do with.
ContextPasses transformer_engine_passes(double queries, double outputs, double keys, double heads,
                                        double share, int element) {
  // Log-sum-exp: running and part read, running written; both read again with the outputs.
  constexpr double log_sum_exp_bytes = 5 * 4;
  const double gradients = (queries + share * keys) * element;
  return {.merge = {3 * outputs * element + log_sum_exp_bytes * heads, 2},
          .once_forward = {},
          .begin_gradients = {2 * gradients, 2},
          .add_gradients = {3 * gradients, 2}};
}

// PyTorch, distributed/tensor/experimental/_attention.py, operator by operator, reads + writes per
// feature, fp32 counted twice, keys and values as wide as queries.
// _SDPAMerger: part to fp32 1 + 2, difference 2 + 2 + 2, times the weight 2 + 2, subtracted 2 + 2 +
// 2; and keys and values joined for the next exchange, also where none follows: 2 (1 + 1). Once:
// contiguous copies of keys and values 2 (1 + 1), the first part to fp32 1 + 2, the result back 2 +
// 1. Backward, of a slice: keys and values joined 2 (1 + 1), dQ added 2 + 1 + 2, half of dK and dV
// likewise and joined to the other 2 (2.5 + 2 + 2), both joined 2 (2 + 2). Of the first all of
// them added 3 (2 + 1 + 2) and joined 2 (2 + 2); once: zeros 3 x 2, copies of keys and values 2 (1
// + 1), dK and dV back 2 (2 + 1), dQ back 2 + 1.
ContextPasses eager_passes(double width) {
  return {.merge = {23 * width, 9},
          .once_forward = {10 * width, 4},
          .begin_gradients = {42 * width, 15},
          .add_gradients = {30 * width, 10}};
}

// The same where a compiler has fused what is element-wise, and left out what nobody reads: merge,
// part and output read and written 1 + 2 + 2. Once: keys and values copied and joined 2 (1 + 1 +
// 1), less the first part, read as it is, and the result, written as it is wanted: 6 - 2. Backward,
// of a slice: dQ 2 + 1 + 2, dK and dV, half of them with a part, written joined 2 (2 + 0.5 + 2).
// First: dQ, dK, dV 3 (1 + 2); once: keys and values 2 (1 + 1 + 1), dK and dV back 2 (2 + 1), less
// dQ.
ContextPasses compiled_passes(double width) {
  return {.merge = {5 * width, 2},
          .once_forward = {4 * width, 2},
          .begin_gradients = {20 * width, 4},
          .add_gradients = {14 * width, 2}};
}

}  // namespace

// DeepSpeed at edaa7221, runtime/sequence_parallel/ulysses_sp.py, UlyssesSPAttentionHF:
// kv_replication_factor, so that each rank has a key head.
std::int64_t exchanged_key_heads(const Region& region, const AttentionShape& shape) {
  const std::int64_t ranks = region.layout->head_ranks();
  return ranks == 1 ? shape.kv_heads : std::max(shape.kv_heads, ranks * region.tensor);
}

ContextAttention head_exchange(const Region& region, const ModelOp& op) {
  const AttentionShape shape = rank_attention(region, op);
  const std::int64_t keys = exchanged_key_heads(region, shape);
  const auto heads = [&](std::int64_t count, std::int64_t width) {
    ContextAttention::Heads made;
    made.bytes = Bytes{count * width * region.tokens * region.element / region.tensor};
    made.order = memory_kernel(OpKind::elementwise, region, op,
                               2.0 * static_cast<double>(made.bytes.count()));
    made.behind = made.order;
    return made;
  };
  ContextAttention made;
  made.parts = {heads(shape.heads, shape.head_dim), heads(keys, shape.head_dim),
                heads(keys, shape.value_dim)};
  // Repeated, or their gradients added up: the heads there are, and those that travel.
  if (keys > shape.kv_heads)
    for (std::size_t part : {1, 2}) {
      ContextAttention::Heads& repeated = made.parts[part];
      repeated.order.bytes +=
          repeated.bytes + Bytes{repeated.bytes.count() * shape.kv_heads / keys};
      ++repeated.order.launches;
    }
  made.made = heads(shape.heads, shape.value_dim);
  return made;
}

ContextAttention context_attention(const Region& region, const ModelOp& op) {
  const AttentionShape shape = rank_attention(region, op);
  const std::int64_t held =
      std::max<std::int64_t>(1, attended_sequences(region).length / region.layout->head_groups());
  const ScoreBlock block{held, shape.causal ? held / 2 : held, false, region.layout->head_ranks()};
  ModelOp plain = op;  // a framework's passes around the attention are added once
  const ContextForm form = region.model->execution.context;
  const bool pytorch = form != ContextForm::transformer_engine;
  const double queries = static_cast<double>(shape.heads * shape.head_dim);
  const double outputs = static_cast<double>(shape.heads * shape.value_dim);
  const double keys = static_cast<double>((pytorch ? shape.heads : shape.kv_heads) *
                                          (shape.head_dim + shape.value_dim));
  plain.forward_elements = queries + outputs + keys;
  plain.backward_elements = 2 * (queries + outputs) + 2 * keys;
  const double tokens = static_cast<double>(region.tokens) / region.tensor;
  ContextAttention made;
  const bool eight_bit = attends_in_eight_bits(region.model->execution, *region.layout);
  made.slice = bytes_from(keys * tokens * (eight_bit ? bytes_of(DType::fp8) : region.element));
  // convert_to_f32: gradients of keys and values are added up, and travel, in fp32.
  made.gradient_slice =
      bytes_from(keys * tokens * (pytorch ? bytes_of(DType::fp32) : region.element));
  made.attend = attention_kernel(region, plain, AttentionPart::forward, block);
  made.attend_backward = attention_kernel(region, plain, AttentionPart::backward, block);
  const double share = static_cast<double>(block.n) / static_cast<double>(held);
  const double width = queries * region.element;
  const ContextPasses passes =
      form == ContextForm::eager ? eager_passes(width)
      : form == ContextForm::compiled
          ? compiled_passes(width)
          : transformer_engine_passes(queries, outputs, keys, static_cast<double>(shape.heads),
                                      share, region.element);
  const auto kernel = [&](const ContextPass& pass) {
    Kernel of = memory_kernel(OpKind::elementwise, region, op, pass.bytes * tokens);
    of.launches = pass.launches;
    return of;
  };
  made.merge = kernel(passes.merge);
  made.first_merge = made.merge;
  if (passes.once_forward.bytes > 0)
    made.first_merge = kernel({passes.merge.bytes + passes.once_forward.bytes,
                               passes.merge.launches + passes.once_forward.launches});
  made.begin_gradients = kernel(passes.begin_gradients);
  made.add_gradients = kernel(passes.add_gradients);
  return made;
}

}  // namespace sim
