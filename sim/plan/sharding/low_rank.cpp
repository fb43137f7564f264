#include "sim/plan/sharding/low_rank.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sim/base/rounding.hpp"
#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/selective_operators.hpp"

namespace sim {
namespace {

Kernel pass(const Region& region, const ModelOp& op, Bytes tensor, int passes) {
  return memory_kernel(OpKind::elementwise, region, op,
                       static_cast<double>(passes) * static_cast<double>(tensor.count()));
}

// Factors are fp32 under autocast: the input is cast to fp32 and back, its gradient, too, and the
// factors to 16 bits; backward their gradients to fp32. Per linear, in 16-bit passes of the input:
// 1 + 2, 2 + 1 (PEFT at 00336949, tuners/lora/layer.py, _cast_input_dtype; tuners/tuners_utils.py,
// cast_adapter_dtype).
void cast_in_adapter(LowRankAdapter& adapter, Bytes input, int apart) {
  constexpr int passes = 6, launches = 4;
  for (std::optional<Kernel>* kernel : {&adapter.add, &adapter.add_gradient}) {
    if (!*kernel) continue;  // the operation fuser's adapters are not cast
    (*kernel)->bytes += input * passes * apart;
    (*kernel)->launches += launches;
  }
}

// PEFT casts around linears that are kept as trained alone (PEFT at 5d602fdb, tuners/lora/bnb.py:
// no conversion under autocast).
bool casts_around_adapters(const Region& region) {
  return region.model->execution.casts_adapters &&
         region.layout->frozen_format == FrozenFormat::as_trained;
}

// Transformer Engine's operation fuser, without tensor parallelism (NVIDIA/NeMo,
// branch 25.09-alpha, collections/llm/peft/lora.py, TEFusedLoRALinear): alpha / r and the sums are
// arguments of the products (TransformerEngine, release 2.8, pytorch/ops/fused:
// ForwardLinearScaleAdd, BackwardLinearScale, BackwardLinearAdd).
bool adds_in_products(const Region& region) {
  return region.model->execution.operation_fuser && region.tensor == 1;
}

// Reads what it drops, writes it and a mask: a byte of each element (torch, native_dropout), or a
// bit (Transformer Engine, csrc/extensions/dropout.cpp).
void drop_inputs(const Region& region, const ModelOp& op, Bytes input, LowRankAdapter& adapter) {
  const std::int64_t elements = input.count() / region.element;
  adapter.mask = Bytes{adds_in_products(region) ? (elements + 7) / 8 : elements};
  adapter.drop = pass(region, op, input, 2);
  adapter.drop->bytes += adapter.mask;
  adapter.drop_gradient = adapter.drop;
}

// DoRA as PEFT has it (PEFT at 5d602fdb, tuners/lora/dora.py, DoraLinearLayer; variants.py,
// DoraLinearVariant), for each linear. B A is made by the adapter from an identity; the norms of
// W + s B A are taken in the format of the input, fp32 where PEFT casts it. Magnitudes are fp32,
// and so is what is multiplied by a quotient of one. Bytes of an element:
//   of the identity: written in fp32, cast: 4 + 4 + 2;
//   of the weight, in 16 bits: s B A 2 + 2, the sum 4 + 2, the norm 2; in fp32 both are cast first,
//   2 + 4 each: s B A 4 + 4, the sum 8 + 4, the norm 4; kept in 4 or 8 bits it is turned into 16;
//   of the output, forward: (m - 1) W x 2 + 4, m B A x 2 + 4, s of it 4 + 4, their sum 8 + 4, the
//   sum with W x 6 + 4, a cast 4 + 2, in place of the scale and the sum of an adapter without;
//   backward: casts 2 + 4, 3 (4 + 2), products 3 (4 + 4), gradients of m 2 (6 + 4) and their sums
//   2 4, the sum of gradients of W x 6.
void scale_by_magnitudes(const Region& region, const ShardedOp& to, int apart,
                         LowRankAdapter& adapter) {
  const ModelOp& op = *to.op;
  const DType dtype = region.layout->activation_dtype;
  const std::int64_t rank = region.layout->lora_rank, in = op.in_features, out = op.out_features;
  const bool full = casts_around_adapters(region);
  adapter.weight_down = gemm(dtype, {in, rank, in}, Bytes{in * rank * region.element}, apart);
  adapter.weight_up = gemm(dtype, {in, out, rank}, Bytes{in * out * region.element});
  adapter.weight_up->launches = apart;
  const FrozenFormat kept = region.layout->frozen_format;
  const std::int64_t widened = kept == FrozenFormat::int8  ? 1 + 4 + 4 + 2
                               : kept == FrozenFormat::nf4 ? 3
                                                           : 0;
  const std::int64_t of_weight = full ? 36 : 12 + widened;
  adapter.weight_norm = pass(region, op, Bytes{in * out * of_weight + in * in * 10 * apart}, 1);
  adapter.weight_norm->launches = (full ? 8 : 7) * apart;
  const std::int64_t outputs = to.whole_output.count() / region.element;
  adapter.add->bytes = Bytes{outputs * (48 - 2 * region.element)};
  adapter.add->launches = 5;
  adapter.magnitude_gradient = pass(region, op, Bytes{outputs}, 82 - 2 * region.element);
  adapter.magnitude_gradient->launches = 11 * apart;
  adapter.mixed = to.whole_output * 2;
  adapter.matrices = Bytes{in * out / apart * (full ? 4 * 4 : 4 * region.element)};
  adapter.parameters += out;
}

// Of a column-split linear each tensor rank has a part of A's outputs, of a row-split one a part of
// its inputs; of B always a part of the outputs.
// `apart`: linears that are one here, each with an adapter of its own (Hugging Face PEFT,
// tuners/lora/layer.py, Linear.forward).
LowRankAdapter adapter_of(const Region& region, const ShardedOp& to, int apart) {
  const ModelOp& op = *to.op;
  const std::int64_t t = region.tensor, rank = region.layout->lora_rank;
  const bool row = op.split == TensorSplit::row;
  const std::int64_t tokens = tokens_of(region, op);
  const std::int64_t in = op.in_features / (row ? t : 1);
  const std::int64_t narrow = (row ? rank : rank / t) * apart;
  const std::int64_t out = op.out_features / t;
  const DType dtype = region.layout->activation_dtype;
  const auto bytes = [&](std::int64_t features) {
    return Bytes{tokens * features * region.element};
  };
  const Bytes written{bytes_of(written_gradient_dtype(*region.model, *region.layout))};
  const int touches = region.model->execution.adds_gradients ? 1 : 2;
  LowRankAdapter adapter;
  adapter.narrow = bytes(rank * apart);
  adapter.down = gemm(dtype, {tokens, narrow, in}, bytes(narrow));
  adapter.up = gemm(dtype, {tokens, out, rank}, bytes(out));
  adapter.up_gradient = gradient_gemm(dtype, {tokens, rank, out}, bytes(rank));
  adapter.down_gradient = gradient_gemm(dtype, {tokens, in, narrow}, bytes(in));
  if (adds_in_products(region)) {
    adapter.up.bytes += bytes(out);
  } else {
    adapter.scale = pass(region, op, bytes(out), 2);
    adapter.add = pass(region, op, row ? to.output : to.whole_output, 3);
    adapter.add_gradient = pass(region, op, bytes(in), 3 * apart);
  }
  if (region.layout->lora_dropout > 0) drop_inputs(region, op, bytes(in * apart), adapter);
  adapter.up_weight = gradient_gemm(dtype, {out, rank, tokens}, written * (out * rank * touches));
  adapter.down_weight =
      gradient_gemm(dtype, {narrow, in, tokens}, written * (in * narrow * touches));
  if (casts_around_adapters(region)) cast_in_adapter(adapter, bytes(in), apart);
  adapter.sums_narrow = row && t > 1;
  adapter.gathers_narrow = !row && t > 1;
  // linear_out gathers its outputs, of which a rank goes on with those of its tokens.
  if (row && t > 1) adapter.gathered = bytes(op.out_features);
  adapter.parameters = in * narrow + rank * out;
  if (region.layout->lora_magnitudes) scale_by_magnitudes(region, to, apart, adapter);
  for (Kernel* kernel : {&adapter.down, &adapter.up, &adapter.up_gradient, &adapter.down_gradient,
                         &adapter.up_weight, &adapter.down_weight})
    kernel->launches *= apart;
  for (std::optional<Kernel>* kernel :
       {&adapter.scale, &adapter.add, &adapter.add_gradient, &adapter.drop, &adapter.drop_gradient})
    if (*kernel) (*kernel)->launches *= apart;
  return adapter;
}

// One for each of the experts that a rank holds, in grouped products; their tokens are put together
// again before, and the backward pass of that writes the gradient of each part into zeros of all
// tokens and adds it to the others (Megatron-Bridge at 067f987d, peft/utils.py,
// GroupedExpertLinearAdapter.forward: narrow, cat, grouped_mm). A loop over experts where 16 bytes
// do not divide a dimension (_can_use_grouped_mm).
LowRankAdapter adapters_of_experts(const Region& region, const ShardedOp& to) {
  const ModelOp& op = *to.op;
  const std::int64_t rank = region.layout->lora_rank, experts = region.experts;
  const std::int64_t in = op.in_features, out = op.out_features;
  const std::int64_t tokens = tokens_of(region, op), rows = divide_up(tokens, experts);
  const DType dtype = region.layout->activation_dtype;
  const auto bytes = [&](std::int64_t features) {
    return Bytes{tokens * features * region.element};
  };
  const Bytes written{bytes_of(written_gradient_dtype(*region.model, *region.layout))};
  const Bytes weights = written * (2 * rank * experts);
  LowRankAdapter adapter;
  adapter.narrow = bytes(rank);
  adapter.down = gemm(dtype, {rows, rank, in}, bytes(rank), experts);
  adapter.up = gemm(dtype, {rows, out, rank}, bytes(out), experts);
  adapter.up_gradient = gradient_gemm(dtype, {rows, rank, out}, bytes(rank), experts);
  adapter.down_gradient = gradient_gemm(dtype, {rows, in, rank}, bytes(in), experts);
  adapter.up_weight = gradient_gemm(dtype, {out, rank, rows}, weights * out, experts);
  adapter.down_weight = gradient_gemm(dtype, {rank, in, rows}, weights * in, experts);
  const bool grouped = rank % 8 == 0 && in % 8 == 0 && out % 8 == 0;
  if (grouped)
    for (Kernel* kernel : {&adapter.down, &adapter.up, &adapter.up_gradient, &adapter.down_gradient,
                           &adapter.up_weight, &adapter.down_weight})
      kernel->launches = 1;
  const int parts = static_cast<int>(experts);
  adapter.scale = pass(region, op, bytes(out), 2);
  adapter.add = pass(region, op, bytes(out), 3);
  adapter.add_gradient = pass(region, op, bytes(in), 3);
  if (region.layout->lora_dropout > 0) drop_inputs(region, op, bytes(in), adapter);
  if (parts > 1) {
    adapter.add->bytes += bytes(in) * 2;
    adapter.add_gradient->bytes += bytes(in) * (parts + 2 + 3 * (parts - 1));
    adapter.add->launches += 1;
    adapter.add_gradient->launches += 3 * parts - 1;
  }
  adapter.parameters = experts * rank * (in + out);
  return adapter;
}

// One that all experts share has the gradients of its own tokens on each rank.
LowRankAdapter shared_adapter(const Region& region, const ShardedOp& to) {
  LowRankAdapter adapter = adapter_of(region, to, 1);
  if (region.layout->expert_parallel == 1) return adapter;
  const std::int64_t each = std::int64_t{region.layout->lora_rank} * region.element;
  adapter.up_sum = Bytes{each * to.op->out_features};
  adapter.down_sum = Bytes{each * to.op->in_features};
  return adapter;
}

int linears_apart(const Model& model, const Block& block, const ModelOp& op) {
  if (!model.execution.separate_products) return 1;
  const auto i = static_cast<std::size_t>(&op - block.ops.data());
  return static_cast<int>(products_of(block, i, model.attention).size());
}

// LLM.int8 (bitsandbytes at 95f9af30, autograd/_functions.py, MatMul8bitLt; backends/cuda/ops.py,
// int8_vectorwise_quant, int8_mm_dequant; backends/default/ops.py, int8_mixed_scaled_mm).
// The input: cast to fp16 (2 + 2 bytes), its magnitudes (2 + 2), which are outliers (2 + 1),
// whether there are any (1), in which features (1), 8 bits and a scale for each row (2 + 1).
Kernel quantize_input(const Region& region, const ModelOp& op, Bytes input, int apart) {
  const bool half = region.layout->activation_dtype == DType::fp16;
  const std::int64_t elements = input.count() / region.element;
  Kernel kernel = pass(region, op, Bytes{elements * apart}, half ? 12 : 14 + region.element);
  kernel.launches = (half ? 9 : 10) * apart;
  return kernel;
}

// Tensor cores multiply 8 bits at twice the rate of 16: a product of half the depth in 16 bits
// takes the same time and reads the same bytes. It writes 32 bits, which a kernel turns into fp16,
// and another one into the format of activations. Features with outliers: gathered, of the weight
// turned into 16 bits, and added by a product in 16 bits.
std::vector<Kernel> int8_product(const Region& region, const ModelOp& op, const Kernel& product) {
  const DType dtype = region.layout->activation_dtype;
  const std::int64_t result = product.m * product.n;
  const bool half = dtype == DType::fp16;
  std::vector<Kernel> kernels{
      gemm(dtype, {product.m, product.n, (product.k + 1) / 2}, Bytes{4 * result})};
  Kernel dequantize = pass(region, op, Bytes{result}, 4 + 2 + (half ? 0 : 2 + region.element));
  dequantize.launches = half ? 1 : 2;
  kernels.push_back(dequantize);
  const auto outliers = static_cast<std::int64_t>(
      std::ceil(region.layout->outlier_share * static_cast<double>(product.k)));
  if (outliers == 0) return kernels;
  Kernel gather = pass(region, op, Bytes{outliers}, 1);
  gather.bytes = Bytes{outliers * (product.m * 2 * region.element +
                                   product.n * (1 + 1 + 1 + 4 + 4 + region.element))};
  gather.launches = 4;
  kernels.push_back(gather);
  kernels.push_back(
      gemm(dtype, {product.m, product.n, outliers}, Bytes{2 * result * region.element}));
  return kernels;
}

// For the input gradient: a cast (1 + 2 bytes), a product with the scales in place (2 + 2). The
// input stays referenced, though no gradient needs it (ctx.tensors).
void keep_in_int8(const Region& region, int apart, ShardedOp& to) {
  to.encode_input = quantize_input(region, *to.op, to.whole_input, apart);
  const std::vector<Kernel> products =
      to.forward_apart.empty() ? std::vector{*to.forward} : to.forward_apart;
  if (to.forward_apart.empty()) to.input_gradient_apart = {*to.input_gradient};
  to.forward_apart.clear();
  for (const Kernel& product : products)
    std::ranges::move(int8_product(region, *to.op, product), std::back_inserter(to.forward_apart));
  Kernel dequantize =
      memory_kernel(OpKind::elementwise, region, *to.op,
                    static_cast<double>(to.frozen_parameters) * (1 + 3 * region.element));
  dequantize.launches = 2 * apart;
  to.encode_saved_weight = dequantize;
  to.encodes_weight_each_time = true;
  to.saved = to.whole_input;
}

// A kernel reads 4 bits and writes 16, before the forward product and before the input gradient.
void keep_in_nf4(const Region& region, ShardedOp& to) {
  const std::int64_t elements = to.frozen_parameters;
  Kernel dequantize = memory_kernel(OpKind::elementwise, region, *to.op,
                                    static_cast<double>(elements) * (nf4_bytes + region.element));
  to.encode_weight = to.encode_saved_weight = dequantize;
  to.encodes_weight_each_time = true;
}

// Weights in the format of the products: nothing changes them, so none is cast in a step
// (Transformer Engine, fp8_model_init; pytorch/tensor/float8_tensor.py, update_usage, which keeps a
// transpose until the data change). FrozenOrders::transposed: one kernel for each input gradient.
void keep_in_format_of_products(const Region& region, ShardedOp& to) {
  to.encode_weight.reset();
  if (region.layout->frozen_orders != FrozenOrders::transposed) return;
  Kernel transpose = memory_kernel(OpKind::elementwise, region, *to.op,
                                   2 * static_cast<double>(to.encoded_elements));
  to.encode_saved_weight = transpose;
  to.encodes_weight_each_time = true;
}

bool holds_format_of_products(const Region& region, const ShardedOp& op) {
  return op.encoded_elements > 0 && stores_format_of_products(*op.op, *region.layout) &&
         !op.encodes_weight_each_time;
}

}  // namespace

std::optional<LoraModule> lora_module(const Block& block, const ModelOp& op) {
  if (!is_linear_of_layer(op)) return std::nullopt;
  const auto attention = std::find_if(block.ops.begin(), block.ops.end(), [](const ModelOp& one) {
    return one.kind == ModelOpKind::attention;
  });
  const bool before = attention != block.ops.end() && &op < &*attention;
  const bool column = op.split == TensorSplit::column;
  if (op.experts > 0) return column ? LoraModule::linear_fc1 : LoraModule::linear_fc2;
  if (before) return column ? std::optional{LoraModule::linear_qkv} : std::nullopt;
  const bool behind_attention =
      attention != block.ops.end() &&
      std::none_of(attention + 1, block.ops.end(),
                   [&](const ModelOp& one) { return &one < &op && is_linear_of_layer(one); });
  if (behind_attention) return LoraModule::linear_proj;
  return column ? LoraModule::linear_fc1 : LoraModule::linear_fc2;
}

bool has_adapter(const Block& block, const ModelOp& op, const Layout& layout) {
  const std::optional<LoraModule> module = lora_module(block, op);
  if (op.experts > 0 && layout.expert_adapters == ExpertAdapters::none) return false;
  return layout.trains_adapters() && module &&
         std::ranges::find(layout.lora_modules, *module) != layout.lora_modules.end();
}

std::int64_t adapter_parameters(const Model& model, const Block& block, const ModelOp& op,
                                const Layout& layout) {
  if (!has_adapter(block, op, layout)) return 0;
  const std::int64_t magnitudes = layout.lora_magnitudes ? op.out_features : 0;
  return layout.lora_rank * (op.in_features * linears_apart(model, block, op) + op.out_features) +
         magnitudes;
}

std::int64_t adapter_parameters(const Model& model, const Layout& layout) {
  std::int64_t parameters = 0;
  for (const Block& layer : model.layers)
    for (const ModelOp& op : layer.ops)
      parameters +=
          adapter_parameters(model, layer, op, layout) *
          (layout.expert_adapters == ExpertAdapters::each && op.experts > 0 ? op.experts : 1);
  return parameters;
}

bool trains_whole(const Block& block, const ModelOp& op, const Layout& layout) {
  if (op.kind == ModelOpKind::embedding) return layout.trains_embedding;
  const bool head = op.kind == ModelOpKind::linear && block.name == "head";
  return head && !is_linear_of_layer(op) && layout.trains_head;
}

void freeze(const Region& region, const Block& block, ShardedOp& to) {
  const ModelOp& op = *to.op;
  to.frozen_parameters = to.parameters;
  // PEFT trains a copy, and keeps what it was (utils/other.py, ModulesToSaveWrapper).
  if (trains_whole(block, op, *region.layout)) return;
  to.parameters = to.tensor_summed = 0;
  to.ends_gradient =
      op.kind == ModelOpKind::norm && to.frozen_parameters > 0 && !region.layout->trains_embedding;
  const bool table = op.kind == ModelOpKind::elementwise && op.weights > 0;
  if (op.kind == ModelOpKind::embedding || table) return to.backward.reset();
  if (op.kind == ModelOpKind::router) return to.weight_gradient.reset();
  if (op.kind != ModelOpKind::linear) return;
  to.weight_gradient.reset();
  to.weight_gradient_apart.clear();
  to.rescale_weight_gradient.reset();
  to.encode_saved.reset();
  to.backward.reset();
  to.saved = {};  // its input was for the weight gradient
  if (region.layout->frozen_format == FrozenFormat::nf4 && is_linear_of_layer(op))
    keep_in_nf4(region, to);
  if (region.layout->frozen_format == FrozenFormat::int8 && is_linear_of_layer(op))
    keep_in_int8(region, linears_apart(*region.model, block, op), to);
  if (holds_format_of_products(region, to)) keep_in_format_of_products(region, to);
  if (!has_adapter(block, op, *region.layout)) return;
  if (op.experts == 0)
    to.adapter = adapter_of(region, to, linears_apart(*region.model, block, op));
  else
    to.adapter = region.layout->expert_adapters == ExpertAdapters::each
                     ? adapters_of_experts(region, to)
                     : shared_adapter(region, to);
  to.parameters = to.adapter->parameters;
  // Each linear keeps its own cast of the input.
  const int copies = casts_around_adapters(region) && op.experts == 0
                         ? linears_apart(*region.model, block, op)
                         : 1;
  to.saved = to.whole_input * copies + to.adapter->narrow + to.adapter->mask + to.adapter->mixed;
  if (!to.adapter->add_gradient) to.input_gradient->bytes += to.whole_input;
}

}  // namespace sim
