#include "sim/plan/sharding/user_buffers.hpp"

#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/parts.hpp"

namespace sim {
namespace {

Bytes divided(Bytes whole, std::int64_t parts) {
  return Bytes{whole.count() / parts};
}

// The gradient of a row's output: cast into the buffer of the exchange (8 bits) or copied there;
// what the weight gradient reads is transposed when the slices have come (base.py,
// grad_output_preprocess).
void place_gradient(const Region& region, const ModelOp& op, ShardedOp& to) {
  const bool eight_bits = is_quantized(op, *region.layout);
  const double cast = region.element + 1, copy = 2.0 * region.element;
  to.place_gradient = place(region, op, op.out_features, eight_bits ? cast : copy);
  if (!eight_bits) return;
  to.encode_gradient.reset();
  to.transpose_gradient = gathered_transpose(region, op);
}

}  // namespace

Kernel place(const Region& region, const ModelOp& op, std::int64_t features, double bytes) {
  Kernel kernel = memory_kernel(
      OpKind::elementwise, region, op,
      static_cast<double>(region.sequence_tokens) * static_cast<double>(features) * bytes);
  kernel.m = region.sequence_tokens;
  kernel.n = features;
  return kernel;
}

Kernel gathered_transpose(const Region& region, const ModelOp& op) {
  Kernel kernel = place(region, op, op.out_features, 2.0 * region.tensor);
  kernel.m = region.tokens;
  return kernel;
}

void split_products(const Region& region, const ModelOp& op, ShardedOp& to) {
  const bool column = op.split == TensorSplit::column;
  const bool row = op.split == TensorSplit::row;
  if (!region.layout->cuts_products() || region.model->execution.symmetric_memory ||
      op.once_per_sequence || op.experts > 0 || !(column || row))
    return;
  const int slices = region.tensor;
  const Kernel& forward = *to.forward;
  const std::int64_t tokens = forward.m / slices;
  if (column) {
    to.forward_parts = slices;
    to.forward_part =
        gemm(forward.dtype, {tokens, forward.n, forward.k}, divided(to.whole_output, slices));
    // The saved slice is copied into the buffer that is gathered (layernorm_linear.py,
    // copy_input_to_ubuf).
    const double element = to.gathers_quantized() ? to.gathered_element : region.element;
    to.place_saved = place(region, op, op.in_features, 2.0 * element);
    to.input_gradient->spared_sms = to.weight_gradient->spared_sms = user_buffer_sms;
    return;
  }
  to.forward_parts = reduced_blocks;
  to.forward_part = gemm(forward.dtype, {forward.m, forward.n / reduced_blocks, forward.k},
                         divided(to.whole_output, reduced_blocks));
  to.forward_part->spared_sms = user_buffer_sms;
  const Kernel& gradient = *to.input_gradient;
  to.gradient_part = gradient_gemm(gradient.dtype, {tokens, gradient.n, gradient.k},
                                   divided(to.whole_input, slices));
  place_gradient(region, op, to);
}

}  // namespace sim
