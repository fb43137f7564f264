#include "sim/plan/sharding/low_rank.hpp"

#include <algorithm>

#include "sim/base/rounding.hpp"
#include "sim/plan/sharding/adapter_tapes.hpp"
#include "sim/plan/sharding/frozen_weights.hpp"

namespace sim {
namespace {

// Factors are fp32 under autocast: the input is cast to fp32 and back, its gradient, too, and the
// factors to 16 bits; backward their gradients to fp32. Per linear, in 16-bit passes of the input:
// 1 + 2, 2 + 1 (PEFT at 00336949, tuners/lora/layer.py, _cast_input_dtype; tuners/tuners_utils.py,
// cast_adapter_dtype).
void cast_in_adapter(AdapterKernels& adapter, Bytes input, int apart) {
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
void drop_inputs(const Region& region, const ModelOp& op, Bytes input, AdapterKernels& adapter) {
  const std::int64_t elements = input.count() / region.element;
  adapter.mask = Bytes{adds_in_products(region) ? (elements + 7) / 8 : elements};
  adapter.drop = elementwise_passes(region, op, input, 2);
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
                         AdapterKernels& adapter) {
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
  adapter.weight_norm =
      elementwise_passes(region, op, Bytes{in * out * of_weight + in * in * 10 * apart}, 1);
  adapter.weight_norm->launches = (full ? 8 : 7) * apart;
  const std::int64_t outputs = to.whole_output.count() / region.element;
  adapter.add->bytes = Bytes{outputs * (48 - 2 * region.element)};
  adapter.add->launches = 5;
  adapter.magnitude_gradient =
      elementwise_passes(region, op, Bytes{outputs}, 82 - 2 * region.element);
  adapter.magnitude_gradient->launches = 11 * apart;
  adapter.mixed = to.whole_output * 2;
  adapter.matrices = Bytes{in * out / apart * (full ? 4 * 4 : 4 * region.element)};
  adapter.parameters += out;
}

// Tensor parallelism of an adapter: of a column-split linear each tensor rank has a part of A's
// outputs; of a row-split one a part of A's inputs. It always has a part of B's outputs.
// `apart`: linears that are one here, each with an adapter of its own (Hugging Face PEFT,
// tuners/lora/layer.py, Linear.forward).
AdapterKernels adapter_of(const Region& region, const ShardedOp& to, int apart) {
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
  AdapterKernels adapter;
  adapter.narrow = bytes(rank * apart);
  adapter.down = gemm(dtype, {tokens, narrow, in}, bytes(narrow));
  adapter.up = gemm(dtype, {tokens, out, rank}, bytes(out));
  adapter.up_gradient = gradient_gemm(dtype, {tokens, rank, out}, bytes(rank));
  adapter.down_gradient = gradient_gemm(dtype, {tokens, in, narrow}, bytes(in));
  if (adds_in_products(region)) {
    adapter.up.bytes += bytes(out);
  } else {
    adapter.scale = elementwise_passes(region, op, bytes(out), 2);
    adapter.add = elementwise_passes(region, op, row ? to.output : to.whole_output, 3);
    adapter.add_gradient = elementwise_passes(region, op, bytes(in), 3 * apart);
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
AdapterKernels adapters_of_experts(const Region& region, const ShardedOp& to) {
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
  AdapterKernels adapter;
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
  adapter.scale = elementwise_passes(region, op, bytes(out), 2);
  adapter.add = elementwise_passes(region, op, bytes(out), 3);
  adapter.add_gradient = elementwise_passes(region, op, bytes(in), 3);
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
AdapterKernels shared_adapter(const Region& region, const ShardedOp& to) {
  AdapterKernels adapter = adapter_of(region, to, 1);
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
  const int apart = linears_apart(*region.model, block, op);
  keep_frozen(region, apart, to);
  if (!has_adapter(block, op, *region.layout)) return;
  const bool each = region.layout->expert_adapters == ExpertAdapters::each;
  to.adapter = taped(region, to,
                     op.experts == 0 ? adapter_of(region, to, apart)
                     : each          ? adapters_of_experts(region, to)
                                     : shared_adapter(region, to));
  to.parameters = to.adapter->parameters;
  // Each linear keeps its own cast of the input.
  const int copies = casts_around_adapters(region) && op.experts == 0 ? apart : 1;
  to.saved = to.whole_input * copies + to.adapter->kept;
  if (to.adapter->adds_in_product) to.input_gradient->bytes += to.whole_input;
}

}  // namespace sim
