#include "sim/plan/sharding/sharding.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"
#include "sim/base/rounding.hpp"
#include "sim/model/expert_bias.hpp"
#include "sim/plan/sharding/chunked_loss.hpp"
#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/low_rank.hpp"
#include "sim/plan/sharding/parts.hpp"
#include "sim/plan/sharding/vision.hpp"

namespace sim {

Bytes bytes_from(double value) {
  return Bytes{static_cast<std::int64_t>(std::llround(value))};
}

std::int64_t tokens_of(const Region& region, const ModelOp& op) {
  return op.once_per_sequence ? region.layout->micro_batch : region.tokens;
}

std::int64_t sequence_tokens_of(const Region& region, const ModelOp& op) {
  return op.once_per_sequence ? region.layout->micro_batch : region.sequence_tokens;
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

Kernel elementwise_passes(const Region& region, const ModelOp& op, Bytes tensor, int passes) {
  return memory_kernel(OpKind::elementwise, region, op,
                       static_cast<double>(passes) * static_cast<double>(tensor.count()));
}

Bytes operands_of(const Kernel& product) {
  const std::int64_t elements = (product.m * product.k + product.k * product.n) * product.batch;
  return bytes_from(static_cast<double>(elements) * operand_bytes_of(product.dtype));
}

Kernel gemm(DType dtype, const Product& product, Bytes result, std::int64_t batch) {
  const auto [m, n, k] = product;
  Kernel kernel;
  kernel.kind = OpKind::gemm;
  kernel.dtype = dtype;
  kernel.m = m;
  kernel.n = n;
  kernel.k = k;
  kernel.batch = batch;
  kernel.launches = static_cast<int>(batch);
  kernel.flops = Flops{2.0 * static_cast<double>(m) * static_cast<double>(n) *
                       static_cast<double>(k) * static_cast<double>(batch)};
  kernel.bytes = operands_of(kernel) + result;
  return kernel;
}

Bytes result_of(const Kernel& product) {
  return product.bytes - operands_of(product);
}

Kernel gradient_gemm(DType dtype, const Product& product, Bytes result, std::int64_t batch) {
  Kernel kernel = gemm(dtype, product, result, batch);
  if (dtype == DType::fp8) kernel.part = AttentionPart::backward;
  return kernel;
}

namespace {

// Whatever else is as wide as the vocabulary by chance is not padded.
std::int64_t padded(const Region& region, const ModelOp& op, std::int64_t features) {
  return op.split == TensorSplit::vocabulary ? padded_vocabulary(features, region.tensor)
                                             : features;
}

bool gathers_logits(const Region& region, const ModelOp& op) {
  return region.model->execution.gathers_logits && region.tensor > 1 &&
         op.split == TensorSplit::vocabulary && op.kind != ModelOpKind::embedding;
}

// All-gathered, the classes of a rank lie together: a copy puts those of a token together.
// Backward, a copy takes those of the rank.
void shard_logits(const Region& region, const ModelOp& op, ShardedOp& to) {
  to.gathered_output = to.whole_output * region.tensor;
  const auto copy = [&](Bytes bytes) {
    return memory_kernel(OpKind::elementwise, region, op, 2.0 * static_cast<double>(bytes.count()));
  };
  // all_gather into a list gathers into one buffer and copies its parts (ProcessGroupNCCL.cpp,
  // allgather); they are then concatenated.
  to.join_output = copy(to.gathered_output * 2);
  to.join_output->launches = region.tensor + 1;
  to.own_output = copy(to.whole_output);
}

// Megatron-LM core_v0.16.1, core/tensor_parallel/mappings.py: _gather_along_last_dim concatenates
// what was gathered, of which queries, keys and values are views. Backward, autograd writes zeros
// around their gradient, and _reduce_scatter_along_last_dim orders the sum by ranks.
void shard_gathered_heads(const Region& region, const ModelOp& op, ShardedOp& to) {
  to.gathered_output = to.whole_output * region.tensor;
  const auto all = static_cast<double>(to.gathered_output.count());
  const double part = static_cast<double>(to.whole_output.count()) *
                      static_cast<double>(op.gathered_features) /
                      static_cast<double>(op.out_features);
  to.join_output = memory_kernel(OpKind::elementwise, region, op, 2 * all);
  to.spread_gradient = memory_kernel(OpKind::elementwise, region, op, 3 * all + 2 * part);
  to.spread_gradient->launches = 3;
}

// Scales of 8-bit operands; of experts, who runs their products, and their uneven rows.
void set_kernels_of_products(const Region& region, const ModelOp& op, ShardedOp& to) {
  if (scales_by_blocks(op, region.model->execution, *region.layout)) {
    to.forward->scales = to.input_gradient->scales = ProductScales::blocks;
    to.weight_gradient->scales = ProductScales::rows;
  }
  if (scales_in_tensor_cores(op, region.model->execution, *region.layout))
    for (std::optional<Kernel>* product : {&to.forward, &to.input_gradient, &to.weight_gradient})
      (*product)->scales = ProductScales::micro;
  if (op.experts == 0) return;
  // torch._grouped_mm: a kernel for all experts.
  if (groups_products(region.model->execution.experts)) {
    for (std::optional<Kernel>* product : {&to.forward, &to.input_gradient, &to.weight_gradient})
      (*product)->launches = 1;
    to.forward->grouping = to.input_gradient->grouping = Grouping::rows;
    to.weight_gradient->grouping = Grouping::depth;
  }
  spread_rows(region, *to.forward);
  spread_rows(region, *to.input_gradient);
}

void shard_linear(const Region& region, const ModelOp& op, const ModelOp* before, ShardedOp& to) {
  const std::int64_t t = region.tensor;
  const bool column = op.split == TensorSplit::column || op.split == TensorSplit::vocabulary;
  const bool row = op.split == TensorSplit::row;
  const std::int64_t out = padded(region, op, op.out_features) / (column ? t : 1);
  const std::int64_t in = op.in_features / (row ? t : 1);
  const std::int64_t tokens =
      column || row ? tokens_of(region, op) : sequence_tokens_of(region, op);
  const std::int64_t outside = sequence_tokens_of(region, op);
  const bool alone = op.experts > 0;  // the exchange of tokens gathers and sums
  to.gathers_input =
      column && t > 1 && region.layout->sequence_parallel && !op.once_per_sequence && !alone;
  to.sums_gradient = column && t > 1 && !alone;
  to.sums_output = row && t > 1 && !alone;
  to.whole_input = Bytes{tokens * in * region.element};
  to.input = column ? Bytes{outside * in * region.element} : to.whole_input;
  to.whole_output = Bytes{tokens * out * region.element};
  to.output = row ? Bytes{outside * out * region.element} : to.whole_output;
  to.products = op.products;
  const std::int64_t each = out / op.products;
  const std::int64_t matrices = op.experts > 0 ? region.experts : op.streams;
  const std::int64_t rows = divide_up(tokens, matrices);
  const Bytes weight_gradient{each * in * matrices *
                              bytes_of(written_gradient_dtype(*region.model, *region.layout))};
  const DType dtype = product_dtype(region, op);
  to.forward =
      gemm(dtype, {rows, each, in}, Bytes{to.whole_output.count() / op.products}, matrices);
  to.input_gradient = gradient_gemm(dtype, {rows, in, each}, to.whole_input, matrices);
  to.weight_gradient =
      gradient_gemm(weight_gradient_dtype(region, op), {each, in, rows},
                    weight_gradient * (region.model->execution.adds_gradients ? 1 : 2), matrices);
  set_kernels_of_products(region, op, to);
  if (op.products > 1) {
    const double elements = 3.0 * static_cast<double>(tokens) * static_cast<double>(in);
    to.add_products = memory_kernel(OpKind::elementwise, region, op, elements * region.element);
  }
  if (gathers_logits(region, op)) shard_logits(region, op, to);
  if (op.gathered_features > 0) shard_gathered_heads(region, op, to);
  shard_casts(region, op, before, {tokens, out, in}, to);
  if (op.backward_elements > 0) {
    // A row's bias is added behind the reduction, to the tokens that the rank holds (Megatron-LM,
    // RowParallelLinear with skip_bias_add), so its gradient is a sum over those.
    const double summed = static_cast<double>(row ? outside : tokens);
    to.backward = memory_kernel(
        OpKind::elementwise, region, op,
        op.backward_elements * summed * region.element / static_cast<double>(column ? t : 1));
  }
  const std::int64_t biases_of_one = op.biases / std::max<std::int64_t>(op.streams, op.experts);
  const std::int64_t biases =
      matrices *
      (biases_of_one == op.out_features && column ? out : biases_of_one / (column ? t : 1));
  to.parameters = (op.weights > 0 ? in * out * matrices : 0) + biases;
  to.tied_parameters = op.tied_to_embedding ? in * out : 0;
  if (t > 1 && region.layout->sequence_parallel && !alone) {
    to.tensor_summed = row ? biases : (column ? 0 : to.parameters);
  }
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
    case ModelOpKind::router:
    case ModelOpKind::dispatch:
    case ModelOpKind::combine:
      return OpKind::elementwise;
    case ModelOpKind::cross_entropy:
      return OpKind::cross_entropy;
    case ModelOpKind::scan:
      return OpKind::scan;
    case ModelOpKind::generic:
      return OpKind::generic;
  }
  return OpKind::generic;
}

// A convolution of a layer list multiplies like a linear (tf32 beside fp32 activations), but eight
// bits are for linears only.
DType arithmetic_dtype(const Region& region, const ModelOp& op) {
  const DType compute = region.layout->compute_dtype;
  const bool multiplies = op.kind == ModelOpKind::generic && !is_quantized(compute);
  return multiplies ? compute : region.layout->activation_dtype;
}

void shard_attention(const Region& region, const ModelOp& op, ShardedOp& to) {
  const Layout& layout = *region.layout;
  if (op.top_keys > 0) {
    to.forward = sparse_attention_kernel(region, op, AttentionPart::forward);
    to.backward = sparse_attention_kernel(region, op, AttentionPart::backward);
    if (layout.context_parallel > 1) to.context = sparse_context(region, op);
    return;
  }
  const bool heads = exchanges_heads(layout);
  const std::int64_t length = attended_sequences(region).length;
  const std::int64_t held = std::max<std::int64_t>(1, length / layout.head_groups());
  const ScoreBlock scores{.m = held,
                          .n = attends_at_once(*region.model, layout) ? length : held,
                          .causal = region.model->attention.causal,
                          .shares = layout.head_ranks()};
  to.forward = attention_kernel(region, op, AttentionPart::forward, scores);
  to.backward = attention_kernel(region, op, AttentionPart::backward, scores);
  if (layout.context_parallel > 1)
    to.context = heads ? head_exchange(region, op) : context_attention(region, op);
  if (to.context && layout.context_exchange == ContextExchange::all_to_all_ring) {
    ContextAttention exchanged = head_exchange(region, op);
    to.context->parts = std::move(exchanged.parts);
    to.context->made = exchanged.made;
  }
  if (copies_attention_output(region)) {
    const Bytes copies = to.output * 4;  // to heads first and back to tokens first
    to.forward->bytes += copies;
    to.backward->bytes += copies;
    to.forward->launches += 2;
    to.backward->launches += 2;
  }
}

int launches_of(const ExpertBiasOperators& bias, const Region& region) {
  return launches_of_plain(bias.all + bias.each * static_cast<int>(region.experts));
}

void launch_for_each_expert(const Region& region, ShardedOp& to) {
  if (to.forward) to.forward->launches = launches_of(expert_bias_forward, region);
  if (to.backward) to.backward->launches = launches_of(expert_bias_backward, region);
}

void shard_special_kernels(const Region& region, const ModelOp& op, ShardedOp& to) {
  if (op.scan) shard_scan(region, op, to);
  if (is_expert_bias(op) && region.model->execution.experts == ExpertForm::megatron)
    launch_for_each_expert(region, to);
}

// The tokens of all images of a micro-batch, which come to the block of the embedding beside the
// words: the gradient that its backward pass hands on is theirs.
Bytes image_tokens_of(const Region& region) {
  const Layout& layout = *region.layout;
  return Bytes{layout.micro_batch * layout.images * tokens_of_image(*region.model, layout) *
               region.model->hidden * region.element};
}

void shard_other(const Region& region, const ModelOp& op, const Block& block, ShardedOp& to) {
  const bool split = op.split == TensorSplit::inner || op.split == TensorSplit::vocabulary;
  const bool embedding = op.kind == ModelOpKind::embedding;
  const double divisor = split && !gathers_logits(region, op) ? region.tensor : 1;
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
    if (runs_vision(*region.model, *region.layout)) to.input = image_tokens_of(region);
  }
  // The traffic of an embedding is that of its output rows, which every rank writes in full.
  const double traffic = embedding ? static_cast<double>(tokens) * region.element : unit;
  const OpKind kind = kernel_kind(op.kind);
  to.splits_loss = op.kind == ModelOpKind::cross_entropy && split && region.tensor > 1 &&
                   !gathers_logits(region, op);
  if (op.kind == ModelOpKind::attention) {
    shard_attention(region, op, to);
  } else {
    if (op.forward_elements > 0 || op.forward_flops.count() > 0) {
      const double elements =
          op.forward_elements + (to.splits_loss ? op.forward_split_elements : 0);
      to.forward = memory_kernel(kind, region, op, elements * traffic);
      to.forward->flops = op.forward_flops * (static_cast<double>(tokens) / divisor);
      to.forward->dtype = arithmetic_dtype(region, op);
      to.forward->launches = op.forward_launches;
      to.forward->beside = bytes_from(op.forward_beside * traffic);
      to.forward->strided = bytes_from(op.forward_strided * traffic);
    }
    if (op.backward_elements > 0 || op.backward_flops.count() > 0) {
      const double elements =
          op.backward_elements + (to.splits_loss ? op.backward_split_elements : 0);
      to.backward = memory_kernel(kind, region, op, elements * traffic);
      to.backward->part = AttentionPart::backward;
      to.backward->flops = op.backward_flops * (static_cast<double>(tokens) / divisor);
      to.backward->dtype = arithmetic_dtype(region, op);
      to.backward->launches = op.backward_launches;
      to.backward->beside = bytes_from(op.backward_beside * traffic);
      to.backward->strided = bytes_from(op.backward_strided * traffic);
    }
  }
  shard_special_kernels(region, op, to);
  to.parameters = (op.weights + op.biases) / (op.splits_parameters ? region.tensor : 1);
  if (embedding && op.weights > 0) {
    to.parameters =
        padded(region, op, op.in_features) / (split ? region.tensor : 1) * op.out_features +
        op.biases;
    // The gradient of the table in a tensor of its own: zeroed, then rows are added to it.
    if (region.model->execution.adds_gradients && to.backward) {
      to.backward->bytes =
          to.backward->bytes +
          Bytes{to.parameters * bytes_of(written_gradient_dtype(*region.model, *region.layout))};
      ++to.backward->launches;
    }
  }
  if (region.tensor > 1 && !embedding && !op.splits_parameters &&
      (op.split == TensorSplit::inner || region.layout->sequence_parallel)) {
    to.tensor_summed = to.parameters;
  }
}

void shard_saved(const Region& region, const ModelOp& op, const ModelOp* before, ShardedOp& to) {
  const bool outside = op.split == TensorSplit::sequence;
  const double tokens =
      static_cast<double>(outside ? sequence_tokens_of(region, op) : tokens_of(region, op));
  const double divisor = outside || gathers_logits(region, op) ? 1 : region.tensor;
  const double padding = op.kind == ModelOpKind::cross_entropy
                             ? static_cast<double>(padded(region, op, op.in_features)) /
                                   static_cast<double>(op.in_features)
                             : 1.0;
  const bool loss = op.kind == ModelOpKind::cross_entropy;
  const double elements = op.saved_elements * region.element;
  if (loss)
    to.backward_scratch =
        bytes_from((elements + op.backward_scratch_bytes) * tokens / divisor * padding);
  const double own = (loss ? 0.0 : elements) + op.saved_fixed_bytes;
  const std::int64_t inputs = region.model->execution.keeps_gathered_inputs && to.gathers_input
                                  ? tokens_of(region, op)
                                  : sequence_tokens_of(region, op);
  const double input = op.saved_input_elements * region.element * static_cast<double>(inputs);
  to.saved = bytes_from(own * tokens / divisor * padding + input);
  if (is_quantized(op, *region.layout)) {
    const EightBitCasts casts =
        eight_bit_casts(region.model->execution, op, before, *region.layout);
    const std::int64_t kept = to.saved.count() / region.element;
    if (casts.saved_element > 0)
      to.saved = bytes_from(static_cast<double>(kept) * casts.saved_element);
  }
  // The outputs of clamps come again with the activation; their inputs are kept.
  if (region.layout->recomputes(RecomputeModule::moe_act) && copies_offset(*region.model, op))
    to.saved = std::min(to.saved, to.input);
  if (op.function == Function::rotary && region.model->execution.copies_attention) {
    // Rows of cosine and sine gathered by position, for queries and for keys: each product keeps
    // its own (Scaling, core/nn/rotary.py, vector_gather).
    to.saved += Bytes{4 * region.model->attention.head_dim * region.element} * region.tokens;
  }
  if (op.kind == ModelOpKind::attention) {
    const bool flash = is_flash(region.layout->attention);
    // Queries, keys, values and output, as the kernel read and wrote them.
    if (flash && attends_in_eight_bits(region.model->execution, *region.layout))
      to.saved = bytes_from(static_cast<double>(to.saved.count()) / region.element);
    if (copies_attention_output(region)) to.saved += to.output;
    const std::int64_t seen = op.piece > 0 ? std::min(op.piece, region.row) : region.row;
    const AttentionShape shape = rank_attention(region, op);
    const std::int64_t repeated = exchanged_key_heads(region, shape) - shape.kv_heads;
    to.saved += Bytes{repeated * (shape.head_dim + shape.value_dim) * region.tokens *
                      region.element / region.tensor};
    to.attention_saved =
        bytes_from(attention_kernel_saved_bytes(shape, flash, seen, region.element) *
                   static_cast<double>(region.tokens) / region.tensor);
  }
}

// Two reads and a write of what the rank holds. A norm at the head of a branch adds the gradient in
// its own kernel (sim/model/blocks.cpp).
Kernel gradient_add_kernel(const Region& region, const ModelOp& op, std::int64_t features) {
  const double elements = 3.0 * static_cast<double>(features);
  return memory_kernel(
      OpKind::elementwise, region, op,
      elements * static_cast<double>(sequence_tokens_of(region, op)) * region.element);
}

void shard_op(const Region& region, const Block& block, const ModelOp& op, ShardedOp& to) {
  const ModelOp* before = &op == block.ops.data() ? nullptr : &op - 1;
  switch (op.kind) {
    case ModelOpKind::dispatch:
    case ModelOpKind::combine:
      return shard_exchange(region, op, to);
    case ModelOpKind::router:
      shard_router(region, op, to);
      break;
    case ModelOpKind::linear:
      shard_linear(region, op, before, to);
      split_products(region, op, to);
      break;
    default:
      shard_other(region, op, block, to);
  }
  to.scatters = region.layout->sequence_parallel;
  shard_saved(region, op, before, to);
  keep_gate_input(region, to);
  if (is_indexer(op) && region.tensor > 1) shard_indexer(region, to);
  shard_scratch(region, op, to);
}

bool sums_behind_linear(const Block& block, const ModelOp& op) {
  if (op.residual_of < 0) return false;
  const ModelOp& first = block.ops[static_cast<std::size_t>(op.residual_of)];
  return first.kind == ModelOpKind::linear && first.starts_from < 0;
}

// Another branch starts from what it reads. A router's tokens go on besides.
bool lends_input(const Block& block, const ModelOp& op) {
  return op.kind == ModelOpKind::router ||
         std::any_of(block.ops.begin(), block.ops.end(), [&](const ModelOp& other) {
           return other.starts_from >= 0 &&
                  &block.ops[static_cast<std::size_t>(other.starts_from)] == &op;
         });
}

// Whether other tokens come to the rank that holds most than to the one that paces.
bool holds_otherwise(const Region& region, const ModelOp& op) {
  const bool exchange = op.kind == ModelOpKind::dispatch || op.kind == ModelOpKind::combine;
  return (exchange || op.experts > 0) && region.layout->has_uneven_experts();
}

ShardedOp shard_held(Region region, const Block& block, const ModelOp& op) {
  region.share = &region.shares->held;
  ShardedOp held;
  held.op = &op;
  shard_op(op.experts > 0 ? region_of_experts(region, op) : region, block, op, held);
  return held;
}

}  // namespace

namespace {

// Operators that have the parameters of an earlier one: these are there, cast and summed, once.
void share_parameters(ShardedBlock& sharded) {
  for (ShardedOp& op : sharded.ops) {
    if (op.op->shares_with < 0) continue;
    op.tied_parameters = sharded.ops[static_cast<std::size_t>(op.op->shares_with)].parameters;
    op.tensor_summed = 0;
    if (!op.encodes_weight_each_time) op.encode_weight.reset();
  }
}

}  // namespace

ShardedBlock shard_block(const Region& region, const Block& block) {
  ShardedBlock sharded;
  sharded.block = &block;
  sharded.ops.reserve(block.ops.size());
  for (const ModelOp& op : block.ops) {
    ShardedOp& to = sharded.ops.emplace_back();
    to.op = &op;
    Region own = op.experts > 0 ? region_of_experts(region, op) : region;
    if (op.piece > 0) own.attended = static_cast<double>(std::min(op.piece, region.row));
    shard_op(own, block, op, to);
    if (holds_otherwise(region, op)) hold(shard_held(region, block, op), to);
    if (sums_behind_linear(block, op))
      to.add_gradient = gradient_add_kernel(region, op, op.out_features);
    if (lends_input(block, op)) to.add_gradient = gradient_add_kernel(region, op, op.in_features);
    shard_reorders(region, to);
    separate_products(region, block, sharded.ops.size() - 1, to);
    rescale_gradients(region, block, sharded.ops.size() - 1, to);
    if (region.layout->trains_adapters()) freeze(own, block, to);
  }
  share_parameters(sharded);
  if (region.model->execution.chunks_logits) chunk_logits(region, sharded);
  fuse_activations(region, sharded);
  sharded.kept = kept_set(block, *region.model, *region.layout);
  sharded.kept_left_out = kept_set(block, *region.model, *region.layout, false);
  keep_outputs(region, block, sharded);
  for (std::size_t i = 0; i < sharded.ops.size(); ++i)
    if (sharded.kept.makes_input_again(i)) cast_input_again(region, sharded.ops[i]);
  slice_products(region, block, sharded);
  for (ShardedOp& op : sharded.ops) {
    if (op.experts) shard_ways(region, op);
    if (op.context) shard_context(region, op);
  }
  sharded.output = Bytes{region.sequence_tokens * block.output_elements * region.element};
  sharded.whole_output = Bytes{region.tokens * block.output_elements * region.element};
  return sharded;
}

std::int64_t padded_vocabulary(std::int64_t vocabulary, int tensor_parallel) {
  if (tensor_parallel == 1) return vocabulary;
  const std::int64_t multiple = std::int64_t{128} * tensor_parallel;
  return round_up(vocabulary, multiple);
}

std::vector<int> layers_of_chunks(const Layout& layout, std::size_t layers) {
  if (!layout.layers_per_chunk.empty()) return layout.layers_per_chunk;
  const auto chunks = static_cast<std::size_t>(layout.chunks());
  SIM_CHECK(layers % chunks == 0, layers, chunks);
  return std::vector<int>(chunks, static_cast<int>(layers / chunks));
}

bool converts_gradients(const Model& model, const Layout& layout) {
  return model.execution.adds_gradients && layout.zero_stage < 2 &&
         layout.gradient_dtype != layout.activation_dtype;
}

DType written_gradient_dtype(const Model& model, const Layout& layout) {
  const bool apart = converts_gradients(model, layout) || holds_units(model, layout);
  return apart ? layout.activation_dtype : layout.gradient_dtype;
}

bool holds_units(const Model& model, const Layout& layout) {
  const Execution& runs = model.execution;
  if (layout.zero_stage != 3 || layout.shard_ranks() == 1) return false;
  if (layout.pipeline_parallel > 1) return runs.holds_units;
  return runs.accumulates_whole && layout.micro_batches() > 1 && !layout.offloads_parameters();
}

DType summed_gradient_dtype(const Model& model, const Layout& layout) {
  const bool widens = bytes_of(layout.reduce_dtype) > bytes_of(layout.gradient_dtype);
  return holds_units(model, layout) && widens ? layout.reduce_dtype : layout.gradient_dtype;
}

}  // namespace sim
