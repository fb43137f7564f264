// The casts that bring the operands of a matrix product into 8 bits, or 4: passes over 16-bit
// tensors that cost memory traffic and launches; which of them a framework runs, and which it has
// fused into the kernel before.
//
// Hopper multiplies 8-bit matrices in one orientation only (both operands with k innermost), so the
// input- and weight-gradient products read transposed copies. Scales of rows are those of rows of
// the operand as the product reads it, so that a transposed copy has scales of its own.
#pragma once

#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"

namespace sim {

struct CastPass {
  double bytes = 0;       // read + written, per element of the operand; 0: no kernel
  double transposed = 0;  // part of `bytes`: compiled kernels that write the transposed order
  int launches = 0;
};

struct EightBitCasts {
  CastPass input;                 // before the forward product
  CastPass saved_input;           // before the weight gradient
  CastPass gradient;              // of the output, before its two products
  CastPass weight;                // before the forward product
  CastPass saved_weight;          // before the input gradient
  bool weight_each_time = false;  // else once per step, for the first micro-batch
  double saved_element = 0;       // bytes in which the input is kept, scales included; 0: as it is
  double gathered_element = 0;  // bytes in which sequence parallelism gathers it; 0: no cast before
  double weight_element = 1;    // of a weight in one order
  double weight_scale_bytes = 0;  // beside each element of it
};

// The format of an operator's products. In 8 bits or fewer are the linears of layers. Embedding,
// head and classifiers stay in 16 bits (Megatron-LM's output layer is no Transformer Engine module;
// torchtitan filters "output"), but where Layout::fp8_modules names them.
DType format_of(const ModelOp& op, const Layout& layout);
bool is_quantized(const ModelOp& op, const Layout& layout);

// Whether the parameters of a linear are in the format of its products themselves
// (Layout::eight_bit_parameters). Those with a format of their own are made outside of
// fp8_model_init() (Megatron-LM at d98e8a64, core/extensions/transformer_engine.py,
// TEQuantizationRecipe.fp8_param; core/models/gpt/gpt_model.py, output_layer).
// REQUIRES: is_quantized(op, layout).
bool stores_format_of_products(const ModelOp& op, const Layout& layout);

// The same, with a scale for every row.
bool multiplies_by_rows(const ModelOp& op, const Execution& execution, const Layout& layout);

// With a scale for blocks of 128 elements: weights have square ones, so that their transpose has
// the same; inputs and gradients have those of rows, so that products of the two, which give the
// gradients of weights, have none that are square (Transformer Engine, Float8BlockScaling).
bool scales_by_blocks(const ModelOp& op, const Execution& execution, const Layout& layout);

// With a scale for each 32 elements of a row, which the tensor cores multiply by (MXFP8).
bool scales_in_tensor_cores(const ModelOp& op, const Execution& execution, const Layout& layout);

// Transformer Engine's attention in 8 bits, of layers whose linears are not left in 16.
bool attends_in_eight_bits(const Execution& execution, const Layout& layout);

// AttentionCasts: the casts of attention in 8 bits beside its kernels, in bytes per element.
// Forward: of the queries, keys and values before, of its output behind. Backward: of the output's
// gradient before, of the gradients of queries, keys and values behind. Delayed scaling: casts of
// known scale, and from 8 bits back to 16. Scales of tensors as they are: their maxima before, and
// the kernels write 16 bits. MXFP8: both orders, likewise. (Transformer Engine at d0067d0d,
// pytorch/attention/dot_product_attention/backends.py, FusedAttnFunc.)
struct AttentionCasts {
  double inputs = 0, output = 0, output_gradient = 0, input_gradients = 0;
  int launches = 0;  // of each pass
};
AttentionCasts attention_casts(const Execution& execution);

// Weights in 8 bits have no transposed copy beside them (Execution::reads_either_order).
bool keeps_one_order(const Execution& execution, DType format);

// Delayed scaling alone: what the scales follow from, the maxima of tensors, is shared among the
// ranks of a stage (Transformer Engine; current and dynamic scaling take them over the tensor
// alone).
bool shares_maxima(const Execution& execution, const Layout& layout);

// Parameters that are 8 bits themselves, with scales along both dimensions, are gathered in 16
// bits, in the buffer of the gradients, and cast then in both orders (Megatron-LM,
// core/distributed/param_and_grad_buffer.py, reuse_grad_buf_for_mxfp8_param_ag).
bool gathers_sixteen_bits(const Execution& execution, DType format);

// Whether parameters can be 8 bits themselves (Layout::eight_bit_parameters): torchao's are those
// that FSDP gathers, with one scale each; Transformer Engine's those that persist.
bool can_have_eight_bit_parameters(const Execution& execution, int zero_stage, int shard_ranks);

// `before`: the operator whose output is the linear's input, or null.
// REQUIRES: is_quantized(op, layout).
EightBitCasts eight_bit_casts(const Execution& execution, const ModelOp& op, const ModelOp* before,
                              const Layout& layout);

// Bytes of an element that a fused dispatcher sends in 8 bits, with a scale of a byte for each 32
// (Megatron-LM at d98e8a64, moe_dispatch_fwd_dtype mxfp8) or of four for each 128 (DeepEP,
// README.md): as many.
inline constexpr double dispatched_element = 1 + 1.0 / 32;

// The cast of an input in 16 bits that is made again for the weight gradient, along its columns
// (Megatron-LM, core/extensions/transformer_engine.py, set_save_original_input).
CastPass cast_of_input_again(EightBit software, DType compute);

}  // namespace sim
