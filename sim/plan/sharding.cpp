#include "sim/plan/sharding.hpp"

#include <cmath>
#include <tuple>

#include "sim/base/check.hpp"

namespace sim {
namespace {

// Tokens and divisors of one micro-batch.
struct Region {
  const Model* model;
  const Layout* layout;
  std::int64_t tokens = 0;  // of the micro-batch that the rank holds (samples for layer lists)
  std::int64_t sequence_tokens = 0;  // held outside the split blocks
  int tensor = 1;
  int element = 2;  // bytes of an activation
};

Bytes bytes_from(double value) {
  return Bytes{static_cast<std::int64_t>(std::llround(value))};
}

std::int64_t tokens_of(const Region& region, const ModelOp& op) {
  return op.once_per_sequence ? region.layout->micro_batch : region.tokens;
}

// Elements held per feature in the region of a sequence-split tensor. The one token per sequence
// that a pooler reads is not split: every rank computes it.
std::int64_t sequence_tokens_of(const Region& region, const ModelOp& op) {
  return op.once_per_sequence ? region.layout->micro_batch : region.sequence_tokens;
}

// Whatever else is as wide as the vocabulary by chance is not padded.
std::int64_t padded(const Region& region, const ModelOp& op, std::int64_t features) {
  return op.split == TensorSplit::vocabulary ? padded_vocabulary(features, region.tensor)
                                             : features;
}

Kernel memory_kernel(OpKind kind, const Region& region, const ModelOp& op, double bytes) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.dtype = region.layout->activation_dtype;
  kernel.m = tokens_of(region, op);
  kernel.n = op.in_features;
  kernel.bytes = bytes_from(bytes);
  return kernel;
}

// Convention: forward C[tokens, out] = X[tokens, in] W; input gradient [tokens, in] over k = out;
// weight gradient [out, in] over k = tokens, added to what earlier micro-batches left there.
Kernel gemm(const Region& region, std::int64_t m, std::int64_t n, std::int64_t k, Bytes result) {
  Kernel kernel;
  kernel.kind = OpKind::gemm;
  kernel.dtype = region.layout->compute_dtype;
  kernel.m = m;
  kernel.n = n;
  kernel.k = k;
  kernel.flops =
      Flops{2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k)};
  kernel.bytes = Bytes{(m * k + k * n) * bytes_of(kernel.dtype)} + result;
  return kernel;
}

// Eight-bit operands are made from 16-bit ones by a pass of their own: it reads the tensor and
// writes it and its transpose, which the weight gradient needs, in one byte each (NVIDIA
// Transformer Engine, cast_transpose).
std::optional<Kernel> encode_kernel(const Region& region, const ModelOp& op, std::int64_t rows,
                                    std::int64_t columns) {
  if (region.layout->compute_dtype != DType::fp8) return std::nullopt;
  Kernel kernel = memory_kernel(OpKind::elementwise, region, op, 0);
  kernel.m = rows;
  kernel.n = columns;
  kernel.bytes = Bytes{rows * columns * (region.element + 2)};
  return kernel;
}

void shard_linear(const Region& region, const ModelOp& op, ShardedOp& to) {
  const std::int64_t t = region.tensor;
  const bool column = op.split == TensorSplit::column || op.split == TensorSplit::vocabulary;
  const bool row = op.split == TensorSplit::row;
  const std::int64_t out = padded(region, op, op.out_features) / (column ? t : 1);
  const std::int64_t in = op.in_features / (row ? t : 1);
  const std::int64_t tokens =
      column || row ? tokens_of(region, op) : sequence_tokens_of(region, op);
  const std::int64_t outside = sequence_tokens_of(region, op);
  to.gathers_input = column && t > 1 && region.layout->sequence_parallel && !op.once_per_sequence;
  to.sums_gradient = column && t > 1;
  to.sums_output = row && t > 1;
  to.whole_input = Bytes{tokens * in * region.element};
  to.input = column ? Bytes{outside * in * region.element} : to.whole_input;
  to.whole_output = Bytes{tokens * out * region.element};
  to.output = row ? Bytes{outside * out * region.element} : to.whole_output;
  const Bytes weight_gradient{out * in * bytes_of(region.layout->gradient_dtype)};
  to.forward = gemm(region, tokens, out, in, to.whole_output);
  to.input_gradient = gemm(region, tokens, in, out, to.whole_input);
  to.weight_gradient = gemm(region, out, in, tokens, weight_gradient * 2);
  to.encode_input = encode_kernel(region, op, tokens, in);
  to.encode_gradient = encode_kernel(region, op, tokens, out);
  to.encode_weight = encode_kernel(region, op, in, out);
  if (op.backward_elements > 0) {
    // A row's bias is added behind the reduction, to the tokens that the rank holds (Megatron-LM,
    // RowParallelLinear with skip_bias_add), so its gradient is a sum over those.
    const double summed = static_cast<double>(row ? outside : tokens);
    to.backward = memory_kernel(
        OpKind::elementwise, region, op,
        op.backward_elements * summed * region.element / static_cast<double>(column ? t : 1));
  }
  const std::int64_t biases =
      op.biases == op.out_features && column ? out : op.biases / (column ? t : 1);
  to.parameters = (op.weights > 0 ? in * out : 0) + biases;
  to.tied_parameters = op.tied_to_embedding ? in * out : 0;
  if (t > 1 && region.layout->sequence_parallel) {
    to.tensor_summed = row ? biases : (column ? 0 : to.parameters);
  }
}

// Matrices of s^2 elements that an unfused attention moves, in reads + writes. Forward: scores
// written, softmax read and written, read by the second product; dropout reads, writes and stores
// a mask byte. Backward: dP written, softmax gradient reads two and writes one, dS read for dQ and
// dK, P read for dV; dropout as forward.
// Eager, in fp32 (Megatron-LM, attention_softmax_in_fp32; PyTorch's math path under autocast):
// forward besides: mask 1 + 1, casts (1 + 2) + (2 + 1), the softmax on fp32 values; backward: of
// the casts and the mask the same, of the softmax on fp32 values.
double score_passes(bool forward, const AttentionShape& shape) {
  const double eager = !shape.eager_softmax ? 0.0 : forward ? 10.0 : 11.0;
  return (forward ? 4.0 : 7.0) + eager + (shape.dropout ? 2.5 : 0.0);
}

// Queries of m tokens with keys of n of each sequence.
struct ScoreBlock {
  std::int64_t m = 0, n = 0;
  bool causal = false;
};

Kernel attention_kernel(const Region& region, const ModelOp& op, AttentionPart part,
                        const ScoreBlock& block) {
  const AttentionShape& shape = region.model->attention;
  const bool forward = part == AttentionPart::forward;
  const bool flash = region.layout->attention != AttentionKernel::unfused;
  Kernel kernel;
  kernel.kind = OpKind::attention;
  kernel.dtype = region.layout->activation_dtype;
  kernel.part = part;
  kernel.causal = block.causal;
  kernel.flash = flash;
  kernel.flash_1 = region.layout->attention == AttentionKernel::flash_1;
  kernel.flash_2 = region.layout->attention == AttentionKernel::flash_2;
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
  if (!flash) bytes += score_passes(forward, shape) * scores;
  kernel.bytes = bytes_from(bytes * region.element);
  // Flash backward: dO.O, the main kernel, conversion of dQ. Unfused: the products, the softmax and
  // the dropout.
  kernel.launches =
      flash ? (forward ? 1 : 3)
            : (forward ? 3 : 5) + (shape.dropout ? 1 : 0) + (shape.eager_softmax ? 3 : 0);
  return kernel;
}

// Transformer Engine, context_parallel.py, AttnFuncWithCPAndKVP2P: forward, each part is scaled by
// its log-sum-exp and added to the output, in fp32 registers, after the running log-sum-exp has
// been updated; backward, dQ and the slice's dK and dV are copied for the first slice and added for
// the others. Of a causal mask, the ranks before a slice's owner have half of the queries to do and
// the ranks behind it all queries with half of the keys; the FLOPs are the same, and as the ring
// goes with the slowest, passes over queries count whole.
ContextAttention context_attention(const Region& region, const ModelOp& op) {
  const AttentionShape& shape = region.model->attention;
  const std::int64_t held = region.layout->tokens_held();
  const ScoreBlock block{held, shape.causal ? held / 2 : held, false};
  ModelOp plain = op;  // what a framework adds around the attention, it adds once
  const double heads = static_cast<double>(shape.heads);
  const double queries = static_cast<double>(shape.heads * shape.head_dim);
  const double keys = 2.0 * static_cast<double>(shape.kv_heads * shape.head_dim);
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
  return made;
}

OpKind kernel_kind(ModelOpKind kind) {
  switch (kind) {
    case ModelOpKind::embedding:
      return OpKind::embedding;
    case ModelOpKind::linear:
      return OpKind::gemm;
    case ModelOpKind::attention:
      return OpKind::attention;
    case ModelOpKind::norm:
      return OpKind::norm;
    case ModelOpKind::elementwise:
      return OpKind::elementwise;
    case ModelOpKind::cross_entropy:
      return OpKind::cross_entropy;
    case ModelOpKind::generic:
      return OpKind::generic;
  }
  return OpKind::generic;
}

// A convolution of a layer list multiplies like a linear (tf32 beside fp32 activations), but eight
// bits are for linears only.
DType arithmetic_dtype(const Region& region, const ModelOp& op) {
  const DType compute = region.layout->compute_dtype;
  const bool multiplies = op.kind == ModelOpKind::generic && compute != DType::fp8;
  return multiplies ? compute : region.layout->activation_dtype;
}

void shard_other(const Region& region, const ModelOp& op, const Block& block, ShardedOp& to) {
  const bool split = op.split == TensorSplit::inner || op.split == TensorSplit::vocabulary;
  const bool embedding = op.kind == ModelOpKind::embedding;
  const double divisor = split ? region.tensor : 1;
  const std::int64_t tokens = split ? tokens_of(region, op) : sequence_tokens_of(region, op);
  const double padding = op.in_features > 0
                             ? static_cast<double>(padded(region, op, op.in_features)) /
                                   static_cast<double>(op.in_features)
                             : 1.0;
  const double unit = static_cast<double>(tokens) * region.element / divisor * padding;
  to.input = bytes_from(static_cast<double>(op.in_features) * unit);
  to.output = bytes_from(static_cast<double>(op.out_features) * unit);
  if (op.kind == ModelOpKind::generic) {
    to.input = to.output = Bytes{tokens * block.output_elements * region.element};
  }
  if (op.kind == ModelOpKind::cross_entropy) to.output = Bytes{};  // one number per token
  if (embedding) {
    to.input = Bytes{};
    to.output = Bytes{region.sequence_tokens * op.out_features * region.element};
    to.whole_output = Bytes{region.tokens * op.out_features * region.element};
    to.sums_output = region.tensor > 1 && op.split == TensorSplit::vocabulary;
  }
  // The traffic of an embedding is that of its output rows, which every rank writes in full.
  const double traffic = embedding ? static_cast<double>(tokens) * region.element : unit;
  const OpKind kind = kernel_kind(op.kind);
  if (op.kind == ModelOpKind::attention) {
    const Layout& layout = *region.layout;
    const bool gathers = layout.context_exchange == ContextExchange::all_gather;
    const ScoreBlock scores{layout.tokens_held(),
                            gathers ? layout.sequence_length : layout.tokens_held(),
                            region.model->attention.causal};
    to.forward = attention_kernel(region, op, AttentionPart::forward, scores);
    to.backward = attention_kernel(region, op, AttentionPart::backward, scores);
    if (layout.context_parallel > 1) to.context = context_attention(region, op);
  } else {
    if (op.forward_elements > 0 || op.forward_flops.count() > 0) {
      to.forward = memory_kernel(kind, region, op, op.forward_elements * traffic);
      to.forward->flops = op.forward_flops * static_cast<double>(tokens);
      to.forward->dtype = arithmetic_dtype(region, op);
      to.forward->launches = op.forward_launches;
    }
    if (op.backward_elements > 0 || op.backward_flops.count() > 0) {
      to.backward = memory_kernel(kind, region, op, op.backward_elements * traffic);
      to.backward->part = AttentionPart::backward;
      to.backward->flops = op.backward_flops * static_cast<double>(tokens);
      to.backward->dtype = arithmetic_dtype(region, op);
      to.backward->launches = op.backward_launches;
    }
  }
  to.parameters = op.weights + op.biases;
  if (embedding && op.weights > 0) {
    to.parameters =
        padded(region, op, op.in_features) / (split ? region.tensor : 1) * op.out_features +
        op.biases;
  }
  if (region.tensor > 1 && !embedding &&
      (op.split == TensorSplit::inner || region.layout->sequence_parallel)) {
    to.tensor_summed = to.parameters;
  }
}

void shard_saved(const Region& region, const ModelOp& op, ShardedOp& to) {
  const bool outside = op.split == TensorSplit::sequence;
  const double tokens =
      static_cast<double>(outside ? sequence_tokens_of(region, op) : tokens_of(region, op));
  const double divisor = outside ? 1 : region.tensor;
  const double padding = op.kind == ModelOpKind::cross_entropy
                             ? static_cast<double>(padded(region, op, op.in_features)) /
                                   static_cast<double>(op.in_features)
                             : 1.0;
  const double own = op.saved_elements * region.element + op.saved_fixed_bytes;
  const double input = op.saved_input_elements * region.element *
                       static_cast<double>(sequence_tokens_of(region, op));
  to.saved = bytes_from(own * tokens / divisor * padding + input);
  if (op.kind == ModelOpKind::attention) {
    const bool flash = region.layout->attention != AttentionKernel::unfused;
    to.attention_saved =
        bytes_from(attention_kernel_saved_bytes(region.model->attention, flash,
                                                region.layout->sequence_length, region.element) *
                   static_cast<double>(region.tokens) / region.tensor);
  }
}

// Two reads and a write of what the rank holds. A norm at the head of a branch adds the gradient in
// its own kernel (sim/model/blocks.cpp).
Kernel gradient_add_kernel(const Region& region, const ModelOp& op) {
  const double elements = 3.0 * static_cast<double>(op.out_features);
  return memory_kernel(
      OpKind::elementwise, region, op,
      elements * static_cast<double>(sequence_tokens_of(region, op)) * region.element);
}

ShardedBlock shard_block(const Region& region, const Block& block) {
  ShardedBlock sharded;
  sharded.block = &block;
  sharded.ops.reserve(block.ops.size());
  for (const ModelOp& op : block.ops) {
    ShardedOp& to = sharded.ops.emplace_back();
    to.op = &op;
    if (op.kind == ModelOpKind::linear) {
      shard_linear(region, op, to);
    } else {
      shard_other(region, op, block, to);
    }
    shard_saved(region, op, to);
    const bool before_linear =
        op.residual_of >= 0 &&
        block.ops[static_cast<std::size_t>(op.residual_of)].kind == ModelOpKind::linear;
    if (before_linear) to.add_gradient = gradient_add_kernel(region, op);
  }
  sharded.output = Bytes{region.sequence_tokens * block.output_elements * region.element};
  sharded.whole_output = Bytes{region.tokens * block.output_elements * region.element};
  return sharded;
}

auto shape_of(const ModelOp& op) {
  return std::make_tuple(op.kind, op.split, op.function, op.residual_of, op.in_place,
                         op.backward_reads_output, op.in_features, op.out_features, op.weights,
                         op.biases, op.tied_to_embedding, op.once_per_sequence, op.forward_elements,
                         op.backward_elements, op.saved_elements, op.saved_fixed_bytes,
                         op.saved_input_elements, op.forward_flops.count(),
                         op.backward_flops.count());
}

bool same_block(const Block& a, const Block& b) {
  if (a.ops.size() != b.ops.size() || a.output_elements != b.output_elements || a.name != b.name) {
    return false;
  }
  for (std::size_t i = 0; i < a.ops.size(); ++i) {
    if (shape_of(a.ops[i]) != shape_of(b.ops[i]) || a.ops[i].name != b.ops[i].name) return false;
  }
  return true;
}

}  // namespace

std::int64_t padded_vocabulary(std::int64_t vocabulary, int tensor_parallel) {
  if (tensor_parallel == 1) return vocabulary;
  const std::int64_t multiple = std::int64_t{128} * tensor_parallel;
  return (vocabulary + multiple - 1) / multiple * multiple;
}

std::vector<int> layers_of_chunks(const Layout& layout, std::size_t layers) {
  if (!layout.layers_per_chunk.empty()) return layout.layers_per_chunk;
  const auto chunks = static_cast<std::size_t>(layout.chunks());
  SIM_CHECK(layers % chunks == 0, layers, chunks);
  return std::vector<int>(chunks, static_cast<int>(layers / chunks));
}

ShardedModel shard(const Model& model, const Layout& layout) {
  Region region{&model, &layout};
  region.tensor = layout.tensor_parallel;
  region.element = bytes_of(layout.activation_dtype);
  region.tokens = layout.micro_batch * (model.is_layer_list ? 1 : layout.tokens_held());
  region.sequence_tokens = layout.sequence_parallel ? region.tokens / region.tensor : region.tokens;
  ShardedModel sharded;
  sharded.model = &model;
  sharded.layout = layout;
  const auto add = [&](const Block& block) {
    sharded.blocks.push_back(shard_block(region, block));
    return static_cast<std::uint32_t>(sharded.blocks.size() - 1);
  };
  if (!model.input.ops.empty()) sharded.input = add(model.input);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const bool repeated = i > 0 && same_block(model.layers[i], model.layers[i - 1]);
    sharded.of_layer.push_back(repeated ? sharded.of_layer.back() : add(model.layers[i]));
  }
  if (!model.output.ops.empty()) sharded.output = add(model.output);
  sharded.first_layer.push_back(0);
  for (const int count : layers_of_chunks(layout, model.layers.size())) {
    sharded.first_layer.push_back(sharded.first_layer.back() + count);
  }
  return sharded;
}

}  // namespace sim
