#include "sim/plan/parameters/compression_work.hpp"

#include <algorithm>

#include "sim/base/check.hpp"
#include "sim/base/rounding.hpp"

namespace sim::lowering {
namespace {

constexpr std::int64_t value_bytes = 4;  // bytes of fp32, in which all of this is computed

Kernel moving(OpKind kind, std::int64_t bytes, int launches) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.dtype = DType::fp32;
  kernel.bytes = Bytes{bytes};
  kernel.launches = launches;
  return kernel;
}

// Bytes per element of a gradient as it is stored: it is read and added to the residual, which is
// read and written.
std::int64_t with_residual(const Layout& layout) {
  return bytes_of(layout.gradient_dtype) + 2 * value_bytes;
}

// torch.topk of one long row (pytorch/pytorch, ATen/native/cuda/TensorTopK.cu, mbtopk): a radix
// select by digits of 8 bits reads an fp32 row four times, the gather reads it once more. What was
// sent is set to zero in the residual. Behind: zeros, then the sum of what came from all ranks.
CompressionPlan top_k(const Layout& layout, const CompressedBucket& bucket) {
  constexpr int reads = 5;
  const std::int64_t selected = selected_elements(layout, bucket.elements);
  const std::int64_t pair = value_bytes + value_bytes;  // a value and its place
  CompressionPlan plan;
  plan.residual = Bytes{bucket.padded * value_bytes};
  plan.compress = moving(OpKind::encode,
                         bucket.elements * (with_residual(layout) + reads * value_bytes) +
                             selected * (pair + value_bytes),
                         8);
  plan.exchanges = {{CollectiveKind::all_gather, GroupRole::data, DType::fp32,
                     Bytes{selected * pair}, Bytes{selected * pair * bucket.ranks}}};
  plan.decompress = moving(OpKind::decode,
                           bucket.elements * bytes_of(layout.gradient_dtype) +
                               selected * bucket.ranks * (pair + 2 * value_bytes),
                           1 + bucket.ranks);
  return plan;
}

// The same places on all ranks, from a common seed: only values travel, and they are reduced.
CompressionPlan random_k(const Layout& layout, const CompressedBucket& bucket) {
  const std::int64_t selected = selected_elements(layout, bucket.elements);
  CompressionPlan plan;
  plan.residual = Bytes{bucket.padded * value_bytes};
  plan.compress = moving(OpKind::encode,
                         bucket.elements * with_residual(layout) + selected * (4 * value_bytes), 4);
  plan.exchanges = {{CollectiveKind::all_reduce, GroupRole::data, DType::fp32,
                     Bytes{selected * value_bytes}, Bytes{selected * value_bytes}}};
  plan.decompress =
      moving(OpKind::decode,
             bucket.elements * bytes_of(layout.gradient_dtype) + selected * 3 * value_bytes, 2);
  return plan;
}

// PyTorch, powerSGD_hook.py, powerSGD_hook: input + error (3 numbers an element) and its copy (2),
// P = M Q (M once), P orthogonalised column by column, Q = M^T P (M once), M = P Q^T (1), error =
// copy - M (3). Matrices of one shape go in one batch: a launch each pass. Tensors that are not
// worth factors go whole, with the first factor.
CompressionPlan power_sgd(const Layout& layout, const CompressedBucket& bucket) {
  const std::int64_t stored = bytes_of(layout.gradient_dtype), rank = layout.compression_rank;
  std::int64_t rows = 0, columns = 0, compressed = 0;
  for (const MatrixPlace& matrix : bucket.matrices) {
    rows += matrix.rows;
    columns += matrix.columns;
    compressed += matrix.rows * matrix.columns;
  }
  const std::int64_t whole = bucket.elements - compressed;
  const auto count = static_cast<int>(bucket.matrices.size());
  const Bytes first{(rows * rank + whole) * value_bytes}, second{columns * rank * value_bytes};
  const double product = 2.0 * static_cast<double>(compressed) * static_cast<double>(rank);
  CompressionPlan plan;
  plan.residual = Bytes{(bucket.padded + columns * rank) * value_bytes};
  plan.compress = moving(OpKind::generic,
                         bucket.elements * with_residual(layout) + compressed * 3 * value_bytes +
                             first.count() + second.count(),
                         4 + count);
  plan.compress.flops = Flops{product};
  plan.exchanges = {{CollectiveKind::all_reduce, GroupRole::data, DType::fp32, first, first}};
  plan.decompress = moving(
      OpKind::generic,
      compressed * (stored + 3 * value_bytes) + first.count() + second.count() + whole * stored,
      2 + 2 * count);
  plan.decompress.flops = Flops{product};
  if (count == 0) return plan;
  // Each column is normalised, and then taken out of those behind it: 3 and 5 passes over them.
  const std::int64_t orthogonal = rows * (3 * rank + 5 * rank * (rank - 1) / 2) * value_bytes;
  plan.recompress = moving(OpKind::generic, orthogonal + compressed * value_bytes + second.count(),
                           count * static_cast<int>(5 * rank + 1));
  plan.recompress.flops = Flops{product};
  plan.exchanges.push_back(
      {CollectiveKind::all_reduce, GroupRole::data, DType::fp32, second, second});
  plan.reads_gradient_again = plan.keeps_first = true;
  return plan;
}

// deepspeedai/DeepSpeed, runtime/comm/nccl.py, compressed_allreduce, and runtime/fp16/onebit/
// adam.py, step: passes of PyTorch's and CuPy's operations, in numbers of 4 bytes per element.
//  moment      mul_ 2, add_ 3
//  compress    add_ of the error 3, norm 1; sign 2, add_ 2, bool and float 1.25 each, add_ 2, mul_
//              2, mul 2, difference 3; sign_ 2, add_ 2, bool 1.25, packbits 0.28
//  recompress  of what came from all ranks: unpackbits 0.28, float 1.25, add_, mul_, mul_ 2 each,
//              sum 1; of the part of this rank as `compress`
//  decompress  unpackbits 0.28, float 1.25, add_, mul_, mul_ 2 each, copy_ 2
// The scales go with the bits here, in a collective of their own there.
// 1-bit LAMB (runtime/fp16/onebit/lamb.py, step) scales each momentum before it is sent (mul_ 2)
// and behind it (div_ 2), and keeps a copy of the one before (clone 2).
CompressionPlan one_bit(const Layout& layout, const CompressedBucket& bucket) {
  const bool lamb = layout.compression == GradientCompression::one_bit_lamb;
  const double moment = lamb ? 9 : 5, decompress = lamb ? 11.5 : 9.5;
  constexpr double compress = 25, received = 8.5;
  const std::int64_t part = one_bit_part(bucket.elements, bucket.ranks);
  const auto all = static_cast<double>(part * bucket.ranks * value_bytes);
  const Bytes piece{part / 8 + value_bytes};
  CompressionPlan plan;
  plan.residual =
      Bytes{(bucket.padded + part + (lamb ? bucket.tensors * lamb_numbers : 0)) * value_bytes};
  plan.compress = moving(OpKind::encode, static_cast<std::int64_t>(all * (moment + compress)), 18);
  plan.recompress = moving(
      OpKind::encode, static_cast<std::int64_t>(all * (received + compress / bucket.ranks)), 22);
  plan.decompress = moving(OpKind::decode, static_cast<std::int64_t>(all * decompress), 6);
  plan.exchanges = {
      {CollectiveKind::all_to_all, GroupRole::data, DType::fp32, piece * bucket.ranks,
       piece * bucket.ranks},
      {CollectiveKind::all_gather, GroupRole::data, DType::fp32, piece, piece * bucket.ranks}};
  return plan;
}

// deepspeedai/DeepSpeed, runtime/comm/coalesced_collectives.py, all_to_all_quant_reduce: integers
// to the ranks of the node, their sum as integers to the same rank of every node, the sum of those.
CompressionPlan quantized(const Layout& layout, const CompressedBucket& bucket) {
  const int bits = layout.compression == GradientCompression::int8 ? 8 : 4;
  const int stored = bytes_of(layout.gradient_dtype);
  const std::int64_t part = bucket.padded / bucket.ranks;
  const Bytes piece = quantized_bytes(part, bits);
  CompressionPlan plan;
  plan.compress = quantize_kernel(bucket.padded, bits, stored);
  const Bytes all = piece * bucket.ranks;
  if (bucket.inner == 0) {
    plan.exchanges = {{CollectiveKind::all_to_all, GroupRole::data, DType::fp32, all, all}};
    plan.decompress = moving(OpKind::decode, all.count() + part * bytes_of(layout.reduce_dtype), 1);
    return plan;
  }
  const int nodes = bucket.ranks / bucket.inner;
  const Bytes between = piece * nodes;
  plan.exchanges = {
      {CollectiveKind::all_to_all, GroupRole::shard, DType::fp32, all, all},
      {CollectiveKind::all_to_all, GroupRole::replicate, DType::fp32, between, between}};
  plan.recompress = moving(OpKind::encode, all.count() + between.count(), 1);
  plan.decompress =
      moving(OpKind::decode, between.count() + part * bytes_of(layout.reduce_dtype), 1);
  return plan;
}

}  // namespace

Bytes quantized_bytes(std::int64_t elements, int bits) {
  const std::int64_t groups = divide_up(elements, quantization_group);
  return Bytes{round_up((elements * bits + 7) / 8, value_bytes) + groups * value_bytes};
}

Kernel quantize_kernel(std::int64_t elements, int bits, int bytes_each) {
  return moving(OpKind::encode, elements * bytes_each + quantized_bytes(elements, bits).count(), 1);
}

Kernel dequantize_kernel(std::int64_t elements, int ranks, int bits, int bytes_each) {
  Kernel kernel =
      moving(OpKind::decode, elements * bytes_each + quantized_bytes(elements, bits).count(), 1);
  kernel.batch = ranks;
  return kernel;
}

std::int64_t selected_elements(const Layout& layout, std::int64_t elements) {
  const auto share =
      static_cast<std::int64_t>(layout.compression_density * static_cast<double>(elements));
  return std::clamp<std::int64_t>(share, 1, elements);
}

std::int64_t one_bit_part(std::int64_t elements, int ranks) {
  constexpr std::int64_t word_bits = 32;
  return round_up(divide_up(elements, ranks), word_bits);
}

bool is_worth_factors(std::int64_t rows, std::int64_t columns, int rank) {
  return (rows + columns) * rank * 2 < rows * columns;
}

CompressionPlan compression_plan(const Layout& layout, const CompressedBucket& bucket) {
  switch (layout.compression) {
    case GradientCompression::top_k:
      return top_k(layout, bucket);
    case GradientCompression::random_k:
      return random_k(layout, bucket);
    case GradientCompression::power_sgd:
      return power_sgd(layout, bucket);
    case GradientCompression::one_bit:
    case GradientCompression::one_bit_lamb:
      return one_bit(layout, bucket);
    case GradientCompression::int8:
    case GradientCompression::int4:
      return quantized(layout, bucket);
    case GradientCompression::none:
      break;
  }
  SIM_CHECK(false, static_cast<int>(layout.compression));
}

}  // namespace sim::lowering
