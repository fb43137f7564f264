#include "sim/plan/sharding/eight_bit.hpp"

#include <algorithm>

namespace sim {
namespace {

constexpr CastPass cast_alone{.bytes = 3, .launches = 1};

constexpr CastPass operator+(CastPass a, CastPass b) {
  return {a.bytes + b.bytes, a.transposed + b.transposed, a.launches + b.launches};
}

constexpr CastPass of_own_tokens(CastPass whole, int ranks) {
  return {whole.bytes / ranks, whole.transposed / ranks, whole.launches};
}

bool is_split_by_tokens(const ModelOp& op, const Layout& layout) {
  return layout.sequence_parallel && layout.tensor_parallel > 1 && op.experts == 0 &&
         op.split != TensorSplit::sequence;
}

// Its input is gathered over the tensor ranks.
bool reads_all_features(const ModelOp& op) {
  return op.split == TensorSplit::column || op.split == TensorSplit::vocabulary;
}

// Whether the operator before is one that a compiler can fuse with the sums or maxima of rows.
bool can_be_fused(const ModelOp* before) {
  return before != nullptr &&
         (before->kind == ModelOpKind::norm || before->kind == ModelOpKind::elementwise);
}

// The second order of an operand with a scale of the tensor, alone and with a cast. Where products
// read either order there is none (Transformer Engine at d0067d0d, pytorch/tensor/
// float8_tensor.py, update_usage; csrc/quantizer.cpp, Float8Quantizer::create_tensor;
// is_non_tn_fp8_gemm_supported).
constexpr CastPass transpose_alone{.bytes = 2, .launches = 1};
struct Orders {
  CastPass other = transpose_alone;
  CastPass cast_transpose{.bytes = 4, .launches = 1};
};
Orders orders_of(const Execution& execution) {
  if (execution.reads_either_order) return {.other = {}, .cast_transpose = cast_alone};
  return {};
}

// The order that a weight gradient reads of a gradient that has been gathered. In front of frozen
// weights inputs and gradients are cast in the other order alone (Transformer Engine 2.8,
// pytorch/module/linear.py: the quantizers' set_usage by weight.requires_grad).
CastPass other_order(const Orders& orders, const Layout& layout) {
  return layout.trains_adapters() ? CastPass{} : orders.other;
}

// Transformer Engine 1.11 to 2.1, delayed scaling: scales are known before the tensor is, so a cast
// is one pass, 2 bytes read, 1 written, and 1 for the transpose where that is made beside
// (pytorch/module/linear.py, layernorm_linear.py, base.py: grad_output_preprocess).
//  - behind a norm of its own, the norm's kernel writes 8 bits (layernorm_fwd_fp8);
//  - with sequence parallelism nothing is transposed before it has been gathered: the input in the
//    backward pass (fp8_transpose, 1 + 1), the gradient of a row-split linear behind its gather,
//    which moves what each rank has cast of its own tokens.
// Weights are cast and transposed once per step (is_first_microbatch); parameters that are 8 bits
// themselves are only transposed.
EightBitCasts transformer_engine(const ModelOp& op, bool behind_norm, const Orders& orders,
                                 const Layout& layout) {
  const bool scattered = is_split_by_tokens(op, layout);
  const CastPass whole = layout.trains_adapters() ? cast_alone : orders.cast_transpose;
  EightBitCasts casts;
  casts.saved_element = casts.gathered_element = 1;
  if (!behind_norm) casts.input = scattered ? cast_alone : whole;
  if (behind_norm || scattered) casts.saved_input = orders.other;
  casts.gradient = whole;
  if (scattered && op.split == TensorSplit::row)
    casts.gradient =
        of_own_tokens(cast_alone, layout.tensor_parallel) + other_order(orders, layout);
  casts.weight = stores_format_of_products(op, layout) ? orders.other : orders.cast_transpose;
  return casts;
}

// Current scaling in Transformer Engine (at d0067d0d; Float8CurrentScaling; Megatron-LM,
// --fp8-recipe tensorwise): the maximum of a tensor is a pass over it, then a kernel makes the
// scale (pytorch/csrc/quantizer.cpp, Float8CurrentScalingQuantizer::quantize_impl); then the cast
// as with delayed scaling. A norm of its own takes the maximum as it writes 16 bits
// (extensions/normalization.cpp, FUSED_NORM_AMAX_FP8).
EightBitCasts current_scaling(const ModelOp& op, bool behind_norm, const Orders& orders,
                              const Layout& layout) {
  constexpr CastPass maximum{.bytes = 2, .launches = 1};
  constexpr CastPass scale{.launches = 1};
  const bool scattered = is_split_by_tokens(op, layout);
  const CastPass whole = layout.trains_adapters() ? cast_alone : orders.cast_transpose;
  const auto of_own = [&](bool own, CastPass pass) {
    return own && scattered ? of_own_tokens(pass, layout.tensor_parallel) : pass;
  };
  EightBitCasts casts;
  casts.saved_element = casts.gathered_element = 1;
  const CastPass scaled = behind_norm ? scale : maximum + scale;
  casts.input = of_own(reads_all_features(op), scaled + (scattered ? cast_alone : whole));
  if (scattered) casts.saved_input = orders.other;
  casts.gradient = maximum + scale + whole;
  if (scattered && op.split == TensorSplit::row)
    casts.gradient = of_own(true, maximum + scale + cast_alone) + other_order(orders, layout);
  casts.weight = stores_format_of_products(op, layout) ? orders.other
                                                       : maximum + scale + orders.cast_transpose;
  return casts;
}

// A scale of `bytes` for each block of so many elements.
struct ScaleBlock {
  int elements = 1;
  int bytes = 0;
  constexpr double per_element() const {
    return static_cast<double>(bytes) / static_cast<double>(elements);
  }
};
// E8M0 (OCP Microscaling Formats Specification, version 1.0, table 1).
constexpr ScaleBlock mxfp8_block{.elements = 32, .bytes = 1};

// Scales of blocks in Transformer Engine: one kernel reads 16 bits and writes both orders, each
// with scales of its own along its rows (pytorch/tensor/mxfp8_tensor.py,
// float8_blockwise_tensor.py; Float8BlockScaling has 1 x 128 for activations and gradients, 128 x
// 128 for weights: DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.2). Norms write 16 bits
// (extensions/normalization.cpp, UNFUSED). With sequence parallelism a rank casts its own tokens,
// and the gathered tensor has the order in which it is read (pytorch/distributed.py,
// _all_gather_mxfp8).
EightBitCasts block_scaling(const ModelOp& op, const Layout& layout, ScaleBlock activations,
                            ScaleBlock weights) {
  const auto written = [](ScaleBlock block, int orders) {
    return CastPass{.bytes = 2 + orders * (1 + block.per_element()), .launches = 1};
  };
  const bool scattered = is_split_by_tokens(op, layout);
  const CastPass whole = written(activations, layout.trains_adapters() ? 1 : 2);
  const CastPass own = scattered ? of_own_tokens(whole, layout.tensor_parallel) : whole;
  EightBitCasts casts;
  casts.saved_element = casts.gathered_element = 1;
  casts.input = reads_all_features(op) ? own : whole;
  casts.gradient = op.split == TensorSplit::row ? own : whole;
  // Parameters that are 8 bits themselves in one order are transposed; see gathers_sixteen_bits().
  const bool in_one_order =
      stores_format_of_products(op, layout) && weights.elements > mxfp8_block.elements;
  casts.weight = in_one_order ? transpose_alone : written(weights, 2);
  casts.saved_element = 1 + activations.per_element();
  casts.weight_scale_bytes = weights.per_element();
  return casts;
}

// Transformer Engine, NVFP4BlockScaling (at d0067d0d; NVIDIA 2025, arXiv:2509.25149): all three
// products have 4 bits. A kernel takes the maximum of the tensor, of inputs and gradients also that
// of its columns behind a Hadamard transform; a second one reads 16 bits again and writes both
// orders, transforming what the weight gradient reads (pytorch/csrc/quantizer.cpp,
// NVFP4Quantizer::quantize_impl). Norms write 16 bits (extensions/normalization.cpp, UNFUSED). Of
// the input the order of the weight gradient is kept. With sequence parallelism a rank casts its
// own tokens (distributed.py, _all_gather_nvfp4). Parameters that have 4 bits themselves
// (fp4_param_gather) are gathered in one order and transposed.
EightBitCasts nvfp4(const ModelOp& op, const Layout& layout) {
  constexpr double order = operand_bytes_of(DType::nvfp4);
  constexpr CastPass both{.bytes = 2 + 2 + 2 * order, .launches = 2};
  constexpr CastPass packed_transpose{.bytes = 2 * order, .launches = 1};
  const CastPass whole =
      layout.trains_adapters() ? CastPass{.bytes = 2 + 2 + order, .launches = 2} : both;
  const bool scattered = is_split_by_tokens(op, layout);
  const CastPass own = scattered ? of_own_tokens(whole, layout.tensor_parallel) : whole;
  EightBitCasts casts;
  casts.input = reads_all_features(op) ? own : whole;
  casts.gradient = op.split == TensorSplit::row ? own : whole;
  casts.weight = stores_format_of_products(op, layout) ? packed_transpose : both;
  casts.saved_element = casts.gathered_element = order;
  casts.weight_element = 0.5;
  casts.weight_scale_bytes = order - 0.5;
  return casts;
}

// torchao's NVFP4 (at 36027d82; prototype/moe_training/nvfp4_training/nvfp4_linear.py): the same
// two kernels, the first of which takes the maxima of both orders; a weight takes both whenever it
// is used, for blocks of 16 x 16, and its other order is kept for the input gradient. Tensors that
// tensor ranks gather have 16 bits (pytorch/torchtitan at b5bcd76c,
// components/quantization/nvfp4.py).
EightBitCasts torchao_nvfp4() {
  constexpr double order = operand_bytes_of(DType::nvfp4);
  constexpr CastPass whole{.bytes = 2 + 2 + 2 * order, .launches = 2};
  EightBitCasts casts;
  casts.input = casts.gradient = casts.weight = whole;
  casts.weight_each_time = true;
  casts.saved_element = order;
  return casts;
}

// torchao under torch.compile. Kernels that write the transposed order, alone or beside the other,
// have a rate of their own (Kernel::transposed).
constexpr CastPass transposed_cast{.bytes = 3, .transposed = 3, .launches = 1};
constexpr CastPass cast_in_both_orders{.bytes = 4, .transposed = 4, .launches = 1};
constexpr CastPass compiled_transpose{.bytes = 2, .transposed = 2, .launches = 1};

// Dynamic scaling with one scale for a tensor (torchao/float8/roofline_utils.py): a maximum over
// the tensor, fused with the kernel before where that is element-wise or a norm (else 2 bytes), a
// kernel for the rest of the maximum, and the cast, 2 bytes read and 1 written. The gradient of an
// output always comes from such a kernel, and is cast in both orders at once; a weight never does.
// Inputs and weights are kept in 16 bits, so their other order is cast in the backward pass. What
// is gathered over the tensor group each rank casts of its own tokens, in one order; the other one,
// for the weight gradient, is a transposition of what has come (float8_tensor_parallel.py). Weights
// that FSDP gathers in 8 bits (fsdp_utils.py, enable_fsdp_float8_all_gather) are cast as shards,
// with scales that are computed once per step: what remains is their transposition.
EightBitCasts torchao(const ModelOp& op, const ModelOp* before, const Layout& layout) {
  constexpr CastPass rest_of_maximum{.launches = 1};
  constexpr CastPass maximum{.bytes = 2, .launches = 2};
  EightBitCasts casts;
  casts.input = (can_be_fused(before) ? rest_of_maximum : maximum) + cast_alone;
  casts.saved_input = transposed_cast;
  casts.gradient = rest_of_maximum + cast_in_both_orders;
  if (!layout.gathers_in_eight_bits()) casts.weight = maximum + cast_alone;
  casts.saved_weight = layout.gathers_in_eight_bits() ? compiled_transpose : transposed_cast;
  casts.weight_each_time = true;
  casts.gathered_element = 1;
  if (!is_split_by_tokens(op, layout)) return casts;
  if (op.split == TensorSplit::column) {
    casts.input = of_own_tokens(casts.input, layout.tensor_parallel);
    casts.saved_input = compiled_transpose;
  }
  if (op.split == TensorSplit::row)
    casts.gradient =
        of_own_tokens(rest_of_maximum + cast_alone, layout.tensor_parallel) + compiled_transpose;
  return casts;
}

// torchao with scales of 32 elements (at 36027d82; testing/training/roofline_utils.py,
// mxfp8_cublas; prototype/mx_formats/mx_linear.py): each operand is cast along one dimension for
// the product that reads it, whenever it is used, by a pass of 2 bytes in and 1 out with its
// scales; the kernel before leaves only what is written, along its rows. A kernel then brings the
// scales into the order that the product reads (prototype/moe_training/README.md, "Kernel
// Microbenchmarks"). Inputs are kept, and weights gathered, in 16 bits.
EightBitCasts torchao_mxfp8(const ModelOp* before, const Layout& layout) {
  constexpr double scales = mxfp8_block.per_element();
  constexpr CastPass rearranged{.bytes = 2 * scales, .launches = 1};
  constexpr CastPass by_kernel_before = CastPass{.bytes = 1 + scales, .launches = 1} + rearranged;
  constexpr CastPass along = CastPass{.bytes = 2, .launches = 0} + by_kernel_before;
  const bool whole = layout.tensor_parallel == 1;
  EightBitCasts casts;
  casts.input = can_be_fused(before) && whole ? by_kernel_before : along;
  casts.saved_input = along;
  casts.gradient = (whole ? by_kernel_before : along) + along;
  casts.weight = casts.saved_weight = along;
  casts.weight_each_time = true;
  return casts;
}

// A scale for every row (torchao/float8/float8_linear.py, matmul_with_hp_or_float8_args; config.py,
// from_recipe_name; roofline_utils.py): every operand is cast for the product that reads it,
// whenever it is used, and what is gathered and kept has 16 bits. Along its rows one kernel takes
// the maxima and casts, or the kernel before, if it has whole rows, which leaves the byte that is
// written. Along its columns the maxima are a pass of 2 bytes in two kernels before.
//
// The forward product runs PyTorch's kernel for such scales. Products that give gradients promote
// their sums (use_fast_accum), for which that kernel is slow: they run cuBLAS's without scales, and
// kernels behind multiply by them (float8_ops.py, addmm_float8_unwrapped). With gw_hp the weight
// gradient's operands stay in 16 bits, and the weight has one scale for the input gradient.
EightBitCasts torchao_rowwise(const ModelOp& op, const ModelOp* before, const Layout& layout,
                              bool sixteen_bit_weight_gradient) {
  constexpr CastPass rows_by_kernel_before{.bytes = 1, .launches = 1};
  constexpr CastPass columns = CastPass{.bytes = 2, .launches = 2} + transposed_cast;
  const bool gathered = is_split_by_tokens(op, layout);
  const bool split = layout.tensor_parallel > 1 && op.experts == 0;
  const bool whole_input =
      !(split && op.split == TensorSplit::row) && !(gathered && op.split == TensorSplit::column);
  const bool whole_gradient =
      !(split && op.split == TensorSplit::column) && !(gathered && op.split == TensorSplit::row);
  EightBitCasts casts;
  casts.input = whole_input && can_be_fused(before) ? rows_by_kernel_before : cast_alone;
  casts.gradient = whole_gradient ? rows_by_kernel_before : cast_alone;
  casts.weight = cast_alone;
  casts.saved_weight = columns;
  casts.weight_each_time = true;
  if (sixteen_bit_weight_gradient) return casts;
  casts.saved_input = columns;
  casts.gradient = casts.gradient + columns;
  return casts;
}

}  // namespace

CastPass cast_of_input_again(EightBit software, DType compute) {
  // Its maximum, and one order.
  if (compute == DType::nvfp4) return {.bytes = 4 + operand_bytes_of(compute), .launches = 2};
  CastPass pass = cast_alone;
  if (software == EightBit::transformer_engine_tensorwise)
    pass = CastPass{.bytes = 2, .launches = 2} + pass;  // its maximum, its scale
  if (software == EightBit::transformer_engine_mxfp8) pass.bytes += mxfp8_block.per_element();
  if (software == EightBit::transformer_engine_blockwise) pass.bytes += 4.0 / 128;
  return pass;
}

DType format_of(const ModelOp& op, const Layout& layout) {
  const DType compute = layout.compute_dtype;
  if (!is_quantized(compute)) return compute;
  if (op.kind != ModelOpKind::linear || op.sixteen_bits) return layout.activation_dtype;
  if (!layout.bf16_modules.empty() || !layout.fp8_modules.empty()) {
    const auto lists = [module = linear_module(op.name)](const std::vector<LinearModule>& list) {
      return module && std::ranges::find(list, *module) != list.end();
    };
    if (lists(layout.bf16_modules)) return layout.activation_dtype;
    if (lists(layout.fp8_modules)) return DType::fp8;
  }
  return is_linear_of_layer(op) ? compute : layout.activation_dtype;
}

bool is_quantized(const ModelOp& op, const Layout& layout) {
  return is_quantized(format_of(op, layout)) && is_quantized(layout.compute_dtype);
}

bool stores_format_of_products(const ModelOp& op, const Layout& layout) {
  return layout.eight_bit_parameters && is_linear_of_layer(op) &&
         format_of(op, layout) == layout.compute_dtype;
}

bool multiplies_by_rows(const ModelOp& op, const Execution& execution, const Layout& layout) {
  return is_quantized(op, layout) && scales_rows(execution.eight_bit);
}

bool scales_by_blocks(const ModelOp& op, const Execution& execution, const Layout& layout) {
  return format_of(op, layout) == DType::fp8 &&
         execution.eight_bit == EightBit::transformer_engine_blockwise;
}

bool scales_in_tensor_cores(const ModelOp& op, const Execution& execution, const Layout& layout) {
  return format_of(op, layout) == DType::fp8 &&
         (execution.eight_bit == EightBit::transformer_engine_mxfp8 ||
          execution.eight_bit == EightBit::torchao_mxfp8);
}

bool attends_in_eight_bits(const Execution& execution, const Layout& layout) {
  return execution.eight_bit_attention != EightBitAttention::none &&
         is_quantized(layout.compute_dtype);
}

AttentionCasts attention_casts(const Execution& execution) {
  if (execution.eight_bit_attention == EightBitAttention::multi_head) return {};
  constexpr double one_order = 2 + 1;
  constexpr double both_orders = 2 + 2 * (1 + mxfp8_block.per_element());
  constexpr double maximum = 2;
  if (delays_scaling(execution.eight_bit))
    return {.inputs = one_order,
            .output = one_order,
            .output_gradient = one_order,
            .input_gradients = one_order,
            .launches = 2};
  const double before =
      execution.eight_bit == EightBit::transformer_engine_mxfp8 ? both_orders : maximum + one_order;
  return {.inputs = before, .output_gradient = before, .launches = 3};
}

bool keeps_one_order(const Execution& execution, DType format) {
  return format == DType::fp8 && execution.reads_either_order &&
         is_transformer_engine(execution.eight_bit) && !scales_blocks(execution.eight_bit);
}

bool shares_maxima(const Execution& execution, const Layout& layout) {
  return layout.compute_dtype == DType::fp8 && delays_scaling(execution.eight_bit);
}

bool gathers_sixteen_bits(const Execution& execution, DType format) {
  return format == DType::fp8 && execution.eight_bit == EightBit::transformer_engine_mxfp8;
}

bool can_have_eight_bit_parameters(const Execution& execution, int zero_stage, int shard_ranks) {
  if (is_transformer_engine(execution.eight_bit)) return zero_stage < 3;
  return execution.eight_bit == EightBit::torchao && zero_stage == 3 && shard_ranks > 1;
}

namespace {

EightBitCasts casts_of_software(const Execution& execution, const ModelOp& op,
                                const ModelOp* before, const Layout& layout) {
  const EightBit software = execution.eight_bit;
  const Orders orders = orders_of(execution);
  if (format_of(op, layout) == DType::nvfp4)
    return is_transformer_engine(software) ? nvfp4(op, layout) : torchao_nvfp4();
  const bool behind_norm = before != nullptr && before->kind == ModelOpKind::norm;
  switch (software) {
    case EightBit::transformer_engine:
      return transformer_engine(op, behind_norm, orders, layout);
    case EightBit::transformer_engine_tensorwise:
      return current_scaling(op, behind_norm, orders, layout);
    case EightBit::transformer_engine_blockwise:
      return block_scaling(op, layout, {.elements = 128, .bytes = 4}, {128 * 128, 4});
    case EightBit::transformer_engine_mxfp8:
      return block_scaling(op, layout, mxfp8_block, mxfp8_block);
    case EightBit::torchao_mxfp8:
      return torchao_mxfp8(before, layout);
    case EightBit::transformer_engine_linear:
      return transformer_engine(op, false, orders, layout);
    case EightBit::torchao:
      return torchao(op, before, layout);
    case EightBit::torchao_rowwise:
      return torchao_rowwise(op, before, layout, false);
    case EightBit::torchao_rowwise_with_gw_hp:
      return torchao_rowwise(op, before, layout, true);
  }
  return {};
}

}  // namespace

EightBitCasts eight_bit_casts(const Execution& execution, const ModelOp& op, const ModelOp* before,
                              const Layout& layout) {
  EightBitCasts casts = casts_of_software(execution, op, before, layout);
  // The output of attention comes in 8 bits.
  if (execution.eight_bit_attention == EightBitAttention::multi_head && before != nullptr &&
      before->kind == ModelOpKind::attention && attends_in_eight_bits(execution, layout))
    casts.input = {};
  // Tokens that came in 8 bits are an operand as they are; the other order is made of them.
  constexpr CastPass other_order{.bytes = 2 * dispatched_element, .launches = 1};
  if (layout.eight_bit_dispatch && op.experts > 0) {
    if (before != nullptr && before->kind == ModelOpKind::dispatch) casts.input = other_order;
    if (op.split == TensorSplit::row) casts.gradient = other_order;
  }
  return casts;
}

}  // namespace sim
