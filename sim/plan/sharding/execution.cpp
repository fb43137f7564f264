#include <cmath>

#include "sim/model/expert_bias.hpp"
#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/parts.hpp"

namespace sim {
namespace {

std::optional<Kernel> encode_kernel(const Region& region, const ModelOp& op, const CastPass& pass,
                                    std::int64_t rows, std::int64_t columns) {
  if (pass.bytes == 0) return std::nullopt;
  const double elements = static_cast<double>(rows) * static_cast<double>(columns);
  Kernel kernel = memory_kernel(OpKind::elementwise, region, op, elements * pass.bytes);
  kernel.transposed = bytes_from(elements * pass.transposed);
  kernel.m = rows;
  kernel.n = columns;
  kernel.launches = pass.launches;
  return kernel;
}

// Without a compiler the last product is kept as any other, if it counts as an odd one
// (torch/utils/checkpoint.py, _CachingTorchDispatchMode), and what sums it over the group.
Bytes unread_output(const Region& region, const Block& block, const ShardedOp& last) {
  if (!region.model->execution.keeps_unread_outputs) return Bytes{};
  std::size_t products = 0;
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    if (block.ops[i].kind == ModelOpKind::linear)
      products += products_of(block, i, region.model->attention).size();
  }
  const Bytes summed = last.sums_output ? last.output : Bytes{};
  return products % 2 == 1 ? last.whole_output + summed : summed;
}

}  // namespace

std::vector<std::int64_t> products_of(const Block& layer, std::size_t i,
                                      const AttentionShape& attention) {
  const ModelOp& op = layer.ops[i];
  const std::int64_t queries = attention.heads * attention.head_dim;
  const std::int64_t keys = attention.kv_heads * attention.head_dim;
  const bool last = i + 1 == layer.ops.size();
  if (op.split == TensorSplit::column && op.out_features == queries + 2 * keys && !last &&
      layer.ops[i + 1].split == TensorSplit::inner &&
      layer.ops[i + 1].kind != ModelOpKind::linear &&
      layer.ops[i + 1].function != Function::swiglu && layer.ops[i + 1].function != Function::geglu)
    return {queries, keys, keys};
  const bool gated = !last && layer.ops[i + 1].kind == ModelOpKind::elementwise &&
                     layer.ops[i + 1].in_features == 2 * layer.ops[i + 1].out_features;
  if (gated) return {op.out_features / 2, op.out_features / 2};
  return {op.out_features};
}

// Everything of the result is each product's own, but for that of all of a depth.
std::vector<Kernel> products_apart(const Kernel& whole, Along along,
                                   const std::vector<std::int64_t>& widths, std::int64_t all) {
  const Bytes result = result_of(whole);
  std::vector<Kernel> kernels;
  kernels.reserve(widths.size());
  for (const std::int64_t width : widths) {
    Product product{whole.m, whole.n, whole.k};
    std::int64_t& split = along == Along::rows      ? product.m
                          : along == Along::columns ? product.n
                                                    : product.k;
    split = split * width / all;
    const Bytes own = along == Along::depth ? result : Bytes{result.count() * width / all};
    kernels.push_back(gemm(whole.dtype, product, own, whole.batch));
    kernels.back().part = whole.part;
    kernels.back().launches = whole.launches;
  }
  return kernels;
}

DType product_dtype(const Region& region, const ModelOp& op) {
  return format_of(op, *region.layout);
}

DType weight_gradient_dtype(const Region& region, const ModelOp& op) {
  const bool sixteen = region.model->execution.eight_bit == EightBit::torchao_rowwise_with_gw_hp &&
                       is_quantized(op, *region.layout);
  return sixteen ? region.layout->activation_dtype : product_dtype(region, op);
}

namespace {

// The rows of each expert are cast on their own, but for delayed scaling (Transformer Engine 2.14,
// pytorch/csrc/extensions/cast.cpp, multi_tensor_quantize_impl). The operation fuser's grouped
// products take those of all in one (group_quantize).
bool casts_each_expert(const Region& region, const ModelOp& op) {
  const Execution& runs = region.model->execution;
  return op.experts > 0 && runs.experts == ExpertForm::megatron && !runs.operation_fuser &&
         is_transformer_engine(runs.eight_bit) && !delays_scaling(runs.eight_bit) &&
         format_of(op, *region.layout) == DType::fp8;
}

// Launches for the experts behind the first one: kernels of a loop in C++.
int launches_in_loop(int launches, std::int64_t experts) {
  return experts > 1 ? launches_of_plain(launches * static_cast<int>(experts - 1)) : 0;
}

}  // namespace

void shard_casts(const Region& region, const ModelOp& op, const ModelOp* before,
                 const Product& forward, ShardedOp& to) {
  if (!is_quantized(op, *region.layout)) return;
  const EightBitCasts casts = eight_bit_casts(region.model->execution, op, before, *region.layout);
  const auto& [tokens, out, in] = forward;
  const std::int64_t matrices = op.experts > 0 ? region.experts : 1;
  to.encode_input = encode_kernel(region, op, casts.input, tokens, in);
  to.encode_saved = encode_kernel(region, op, casts.saved_input, tokens, in);
  to.encode_gradient = encode_kernel(region, op, casts.gradient, tokens, out);
  to.encode_weight = encode_kernel(region, op, casts.weight, in * matrices, out);
  to.encode_saved_weight = encode_kernel(region, op, casts.saved_weight, in * matrices, out);
  // The head of a depth of multi-token prediction is the head itself, cast before.
  if (op.tied_to_embedding) to.encode_weight.reset();
  if (casts_each_expert(region, op))
    for (std::optional<Kernel>* const pass :
         {&to.encode_input, &to.encode_saved, &to.encode_gradient})
      if (*pass) (*pass)->launches += launches_in_loop((*pass)->launches, region.experts);
  to.encoded_elements = in * matrices * out;
  to.weight_element = casts.weight_element;
  to.weight_scale_bytes = casts.weight_scale_bytes;
  to.encodes_weight_each_time = casts.weight_each_time;
  to.gathered_element = casts.gathered_element;
}

// Transformer Engine's operation fuser (release 2.8, pytorch/ops/basic/activation.py and
// csrc/extensions/activation.cpp; Megatron-LM, TEFusedMLP): the activation writes 8 bits, forward
// for the linear behind it and backward for the one before, where scales are delayed or those of
// MXFP8; with one scale for a tensor, or NVFP4, it takes the maximum. Blocks of 128 are cast apart.
namespace {

enum class ActivationCast : std::uint8_t { apart, takes_maximum, whole };

ActivationCast cast_by_activation(EightBit software, DType compute) {
  if (compute == DType::nvfp4 || software == EightBit::transformer_engine_tensorwise)
    return ActivationCast::takes_maximum;
  if (software == EightBit::transformer_engine || software == EightBit::transformer_engine_mxfp8)
    return ActivationCast::whole;
  return ActivationCast::apart;
}

// `elements`: of the tensor that the activation writes and the cast reads, in 16 bits.
void cast_in_activation(ActivationCast by, std::int64_t elements, std::optional<Kernel>& cast,
                        Kernel& activation) {
  if (!cast || by == ActivationCast::apart) return;
  const Bytes tensor{2 * elements};
  if (by == ActivationCast::takes_maximum) {
    cast->bytes -= tensor;
    cast->launches -= 1;
    return;
  }
  activation.bytes = activation.bytes + cast->bytes - tensor - tensor;
  cast.reset();
}

bool is_activation(const ModelOp& op) {
  return op.kind == ModelOpKind::elementwise &&
         (op.function == Function::swiglu || op.function == Function::geglu ||
          op.function == Function::gelu || op.function == Function::relu ||
          op.function == Function::squared_relu);
}

}  // namespace

void fuse_activations(const Region& region, ShardedBlock& sharded) {
  const Execution& runs = region.model->execution;
  if (!runs.operation_fuser) return;
  if (region.layout->cuts_products() || region.element != 2) return;
  const auto by = [&](const ShardedOp& linear) {
    return cast_by_activation(runs.eight_bit, format_of(*linear.op, *region.layout));
  };
  for (std::size_t i = 1; i + 1 < sharded.ops.size(); ++i) {
    ShardedOp& op = sharded.ops[i];
    ShardedOp& before = sharded.ops[i - 1];
    ShardedOp& behind = sharded.ops[i + 1];
    const bool between = before.encoded_elements > 0 && behind.encoded_elements > 0 &&
                         before.op->experts == 0 && behind.op->experts == 0;
    if (!is_activation(*op.op) || !between || !op.forward || !op.backward) continue;
    cast_in_activation(by(behind), behind.whole_input.count() / region.element, behind.encode_input,
                       *op.forward);
    cast_in_activation(by(before), before.whole_output.count() / region.element,
                       before.encode_gradient, *op.backward);
  }
}

// Megatron-LM at d98e8a64, core/fusions/fused_bias_swiglu.py: one cast each way. Transformer
// Engine's operation fuser (d0067d0d, pytorch/ops/basic/swiglu.py, cache_quantized_input) reads the
// tensor once more, for its maximum.
void keep_gate_input(const Region& region, ShardedOp& to) {
  const Execution& runs = region.model->execution;
  if (!runs.keeps_gate_inputs_in_fp8 || to.op->function != Function::swiglu) return;
  const Bytes whole = to.saved;
  const Bytes narrow{whole.count() / region.element};
  const int reads = runs.operation_fuser ? 2 : 1;
  to.forward->bytes += whole * reads + narrow;
  to.forward->launches += reads;
  to.backward->bytes += narrow + whole;
  to.backward->launches += 1;
  to.scratch_backward = copied(whole);
  // A SwiGLU that runs again keeps what it is made from.
  if (to.op->experts > 0 && region.layout->recomputes(RecomputeModule::moe_act)) return;
  to.saved = narrow;
}

void cast_input_again(const Region& region, ShardedOp& to) {
  if (!is_quantized(*to.op, *region.layout)) return;
  const std::int64_t features = to.op->in_features;
  to.encode_saved = encode_kernel(
      region, *to.op,
      cast_of_input_again(region.model->execution.eight_bit, format_of(*to.op, *region.layout)),
      to.whole_input.count() / region.element / features, features);
  to.saved = to.input;
}

namespace {

// The outputs of all-to-alls and reduce-scatters are kept (torchtitan,
// distributed/activation_checkpoint.py).
double kept_of_exchange(const Layout& layout, const ShardedOp& op) {
  double kept = 0;
  if (op.experts && layout.expert_parallel > 1) {
    const bool dispatch = op.op->kind == ModelOpKind::dispatch;
    const ExpertExchange& exchange = *op.experts;
    const bool fused = is_fused(layout.token_dispatcher);
    const Bytes there = fused ? exchange.whole : exchange.came;
    const Bytes back = fused ? op.output : exchange.sent;
    kept += static_cast<double>((dispatch ? there : back).count());
  }
  if (op.op->kind == ModelOpKind::combine && layout.expert_tensor() > 1)
    kept += static_cast<double>(op.output.count());
  return kept;
}

}  // namespace

void keep_outputs(const Region& region, const Block& block, ShardedBlock& sharded) {
  const std::vector<KeptOutput>& outputs = sharded.kept.outputs;
  if (outputs.empty() || keeps_tensors(region.model->execution, *region.layout)) return;
  double kept = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    ShardedOp& op = sharded.ops[i];
    const bool linear = op.op->kind == ModelOpKind::linear;
    const KeptOutput& output = outputs[i];
    kept += kept_of_exchange(*region.layout, op);
    if (output.again >= 1 || !op.forward) continue;
    if (output.products.empty()) {
      op.forward_again = {memory_kernel(OpKind::elementwise, region, *op.op, 0)};
    } else {
      op.forward_again = products_apart(*op.forward, Along::columns, output.products,
                                        op.op->out_features / op.products);
    }
    if (linear && ends_products(block, i)) {
      kept += static_cast<double>(unread_output(region, block, op).count());
      continue;
    }
    const Bytes bytes = linear && op.op->split != TensorSplit::row ? op.whole_output : op.output;
    kept += static_cast<double>((bytes + op.attention_saved).count()) * (1 - output.again);
  }
  sharded.kept_outputs = bytes_from(kept);
}

void separate_products(const Region& region, const Block& block, std::size_t i, ShardedOp& op) {
  const Execution& runs = region.model->execution;
  if (!runs.separate_products || op.op->kind != ModelOpKind::linear) return;
  // Automodel keeps gate and up-projection of its experts in one tensor (components/moe/experts.py,
  // gate_and_up_projs).
  if (op.op->experts > 0 && is_of_automodel(runs.experts)) return;
  const std::vector<std::int64_t> widths = products_of(block, i, region.model->attention);
  if (widths.size() == 1 || op.products > 1) return;
  const std::int64_t all = op.op->out_features;
  op.forward_apart = products_apart(*op.forward, Along::columns, widths, all);
  op.input_gradient_apart = products_apart(*op.input_gradient, Along::depth, widths, all);
  op.weight_gradient_apart = products_apart(*op.weight_gradient, Along::rows, widths, all);
  const auto count = static_cast<std::int64_t>(widths.size());
  const bool alone = op.sums_gradient && !runs.copies_tokens;
  op.sum_products = memory_kernel(OpKind::elementwise, region, *op.op,
                                  static_cast<double>(op.whole_input.count()) *
                                      static_cast<double>(alone ? count + 1 : count - 1));
}

void rescale_gradients(const Region& region, const Block& block, std::size_t i, ShardedOp& op) {
  if (!multiplies_by_rows(*op.op, region.model->execution, *region.layout)) return;
  const ModelOp* before = i > 0 ? &block.ops[i - 1] : nullptr;
  const auto in_place = [&](Bytes gradient) {
    return memory_kernel(OpKind::elementwise, region, *op.op,
                         2 * static_cast<double>(gradient.count()));
  };
  const bool read_by_compiled = before == nullptr || before->kind == ModelOpKind::norm ||
                                before->kind == ModelOpKind::elementwise;
  if (!op.sum_products && (op.sums_gradient || !read_by_compiled))
    op.rescale_input_gradient = in_place(op.whole_input);
  if (op.weight_gradient->dtype != DType::fp8) return;
  op.rescale_weight_gradient =
      in_place(Bytes{op.weight_gradient->m * op.weight_gradient->n * op.products *
                     bytes_of(written_gradient_dtype(*region.model, *region.layout))});
  op.rescale_weight_gradient->launches =
      std::max(op.products, static_cast<int>(op.weight_gradient_apart.size()));
}

void shard_reorders(const Region& region, ShardedOp& op) {
  if (!region.model->execution.copies_tokens || !region.layout->sequence_parallel) return;
  const auto copy = [&](Bytes bytes) {
    return memory_kernel(OpKind::elementwise, region, *op.op,
                         2 * static_cast<double>(bytes.count()));
  };
  if (op.gathers_input) op.reorder_input = copy(op.whole_input);
  if (op.sums_output) op.reorder_output = copy(op.whole_output);
}

}  // namespace sim
