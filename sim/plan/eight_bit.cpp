#include "sim/plan/eight_bit.hpp"

namespace sim {
namespace {

constexpr CastPass transpose{.bytes = 2, .launches = 1};

// Transformer Engine 1.11 to 2.1, delayed scaling: scales are known before the tensor is, so a cast
// is one pass, 2 bytes read, 1 written, and 1 for the transpose where that is made beside
// (pytorch/module/linear.py, layernorm_linear.py, base.py: grad_output_preprocess).
//  - behind a norm, the norm's own kernel writes 8 bits (layernorm_fwd_fp8);
//  - with sequence parallelism nothing is transposed before it has been gathered: the input in the
//    backward pass (fp8_transpose, 1 + 1), the gradient of a row-split linear behind its gather,
//    which moves what each rank has cast of its own tokens.
// Weights are cast and transposed once per step (is_first_microbatch); parameters that are 8 bits
// themselves are only transposed.
EightBitCasts transformer_engine(const ModelOp& op, const ModelOp* before, const Layout& layout) {
  const bool scattered = layout.sequence_parallel && layout.tensor_parallel > 1 && op.experts == 0;
  const bool behind_norm = before != nullptr && before->kind == ModelOpKind::norm;
  constexpr CastPass cast{.bytes = 3, .launches = 1};
  constexpr CastPass cast_transpose{.bytes = 4, .launches = 1};
  EightBitCasts casts;
  casts.saves_eight_bits = casts.gathers_eight_bits = true;
  if (!behind_norm) casts.input = scattered ? cast : cast_transpose;
  if (behind_norm || scattered) casts.saved_input = transpose;
  casts.gradient = cast_transpose;
  if (scattered && op.split == TensorSplit::row)
    casts.gradient = {.bytes = cast.bytes / layout.tensor_parallel + transpose.bytes,
                      .launches = 2};
  casts.weight = layout.eight_bit_parameters ? transpose : cast_transpose;
  return casts;
}

// torchao, dynamic tensorwise scaling under torch.compile (torchao/float8/roofline_utils.py): a
// maximum over the tensor, fused with the kernel before where that is element-wise or a norm (else
// 2 bytes more), a kernel for the rest of the maximum, and the cast, 2 bytes read, 1 written in
// each of two orders. The gradient of an output always comes from such a kernel, a weight never.
// What is kept is the 16-bit input; weights are cast whenever they are used. What is gathered over
// the tensor group each rank casts of its own tokens, in one order; the other one, for the weight
// gradient, is a transposition of what has come (float8_tensor_parallel.py). Weights that FSDP
// gathers in 8 bits (fsdp_utils.py, enable_fsdp_float8_all_gather) are cast as shards, with scales
// that are computed once per step: what remains is their transposition for the input gradient.
EightBitCasts torchao(const ModelOp& op, const ModelOp* before, const Layout& layout) {
  const bool fused = before != nullptr && (before->kind == ModelOpKind::norm ||
                                           before->kind == ModelOpKind::elementwise);
  constexpr CastPass behind_pointwise{.bytes = 4, .launches = 2};
  constexpr CastPass alone{.bytes = 6, .launches = 3};
  EightBitCasts casts;
  casts.input = fused ? behind_pointwise : alone;
  casts.gradient = behind_pointwise;
  if (layout.gathers_in_eight_bits())
    casts.saved_weight = transpose;
  else
    casts.weight = alone;
  casts.weight_each_time = true;
  casts.gathers_eight_bits = true;
  const bool scattered = layout.sequence_parallel && layout.tensor_parallel > 1 && op.experts == 0;
  if (scattered && op.split == TensorSplit::column) {
    casts.input.bytes = (casts.input.bytes - 1) / layout.tensor_parallel;
    casts.saved_input = transpose;
  }
  if (scattered && op.split == TensorSplit::row)
    casts.gradient = {
        .bytes = (behind_pointwise.bytes - 1) / layout.tensor_parallel + transpose.bytes,
        .launches = behind_pointwise.launches + transpose.launches};
  return casts;
}

}  // namespace

bool multiplies_in_eight_bits(const ModelOp& op, const Layout& layout) {
  return layout.compute_dtype == DType::fp8 && is_linear_of_layer(op);
}

bool shares_maxima(const Execution& execution, const Layout& layout) {
  return layout.compute_dtype == DType::fp8 && execution.eight_bit == EightBit::transformer_engine;
}

bool can_have_eight_bit_parameters(const Execution& execution, int zero_stage, int shard_ranks) {
  if (execution.eight_bit == EightBit::torchao) return zero_stage == 3 && shard_ranks > 1;
  return zero_stage < 3;
}

EightBitCasts eight_bit_casts(EightBit framework, const ModelOp& op, const ModelOp* before,
                              const Layout& layout) {
  switch (framework) {
    case EightBit::transformer_engine:
      return transformer_engine(op, before, layout);
    case EightBit::torchao:
      return torchao(op, before, layout);
  }
  return {};
}

}  // namespace sim
