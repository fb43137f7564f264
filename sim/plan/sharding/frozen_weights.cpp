#include "sim/plan/sharding/frozen_weights.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/low_rank.hpp"

namespace sim {
namespace {

// LLM.int8 (bitsandbytes at 95f9af30, autograd/_functions.py, MatMul8bitLt; backends/cuda/ops.py,
// int8_vectorwise_quant, int8_mm_dequant; backends/default/ops.py, int8_mixed_scaled_mm).
// The input: cast to fp16 (2 + 2 bytes), its magnitudes (2 + 2), which are outliers (2 + 1),
// whether there are any (1), in which features (1), 8 bits and a scale for each row (2 + 1).
Kernel quantize_input(const Region& region, const ModelOp& op, Bytes input, int apart) {
  const bool half = region.layout->activation_dtype == DType::fp16;
  const std::int64_t elements = input.count() / region.element;
  Kernel kernel =
      elementwise_passes(region, op, Bytes{elements * apart}, half ? 12 : 14 + region.element);
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
  Kernel dequantize =
      elementwise_passes(region, op, Bytes{result}, 4 + 2 + (half ? 0 : 2 + region.element));
  dequantize.launches = half ? 1 : 2;
  kernels.push_back(dequantize);
  const auto outliers = static_cast<std::int64_t>(
      std::ceil(region.layout->outlier_share * static_cast<double>(product.k)));
  if (outliers == 0) return kernels;
  Kernel gather = elementwise_passes(region, op, Bytes{outliers}, 1);
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

void keep_frozen(const Region& region, int apart, ShardedOp& to) {
  const FrozenFormat format = region.layout->frozen_format;
  const bool of_layer = is_linear_of_layer(*to.op);
  if (format == FrozenFormat::nf4 && of_layer) keep_in_nf4(region, to);
  if (format == FrozenFormat::int8 && of_layer) keep_in_int8(region, apart, to);
  if (holds_format_of_products(region, to)) keep_in_format_of_products(region, to);
}

}  // namespace sim
