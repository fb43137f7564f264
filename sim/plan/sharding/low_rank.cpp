#include "sim/plan/sharding/low_rank.hpp"

#include <algorithm>

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
  if (region.model->execution.casts_adapters) cast_in_adapter(adapter, bytes(in), apart);
  adapter.sums_narrow = row && t > 1;
  adapter.gathers_narrow = !row && t > 1;
  // linear_out gathers its outputs, of which a rank goes on with those of its tokens.
  if (row && t > 1) adapter.gathered = bytes(op.out_features);
  adapter.parameters = in * narrow + rank * out;
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
  const std::int64_t tokens = tokens_of(region, op), rows = (tokens + experts - 1) / experts;
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
  return region.layout->eight_bit_parameters && op.encoded_elements > 0 &&
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
  return layout.lora_rank * (op.in_features * linears_apart(model, block, op) + op.out_features);
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

void freeze(const Region& region, const Block& block, ShardedOp& to) {
  const ModelOp& op = *to.op;
  to.frozen_parameters = to.parameters;
  to.parameters = to.tensor_summed = 0;
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
  const int copies = region.model->execution.casts_adapters && op.experts == 0
                         ? linears_apart(*region.model, block, op)
                         : 1;
  to.saved = to.whole_input * copies + to.adapter->narrow + to.adapter->mask;
  if (!to.adapter->add_gradient) to.input_gradient->bytes += to.whole_input;
}

}  // namespace sim
