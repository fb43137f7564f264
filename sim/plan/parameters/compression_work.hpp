// How the gradients of a bucket travel under each scheme of compression: sizes of messages, what
// the kernels around them cost, what is kept from step to step. sim/plan/rules/compression.md has
// the rules.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/layout/layout.hpp"
#include "sim/program/buffers.hpp"
#include "sim/program/op_work.hpp"

namespace sim::lowering {

// CompressedBucket is the part of a bucket on one rank that is to be compressed.
struct CompressedBucket {
  std::int64_t elements = 0, padded = 0;
  int ranks = 1;                      // that reduce it together
  int inner = 0;                      // ranks on a node, where there are two levels; else 0
  int tensors = 0;                    // one_bit_lamb: at most
  std::vector<MatrixPlace> matrices;  // power_sgd: those that are sent as factors
};

// One collective. In place where both sizes are the same and it is an all-reduce.
struct CompressedExchange {
  CollectiveKind kind = CollectiveKind::all_gather;
  GroupRole group = GroupRole::data;
  DType dtype = DType::fp32;
  Bytes message{};  // made by the kernel before
  Bytes came{};     // read by the kernel behind
};

struct CompressionPlan {
  Kernel compress, recompress, decompress;  // recompress: with two exchanges
  std::vector<CompressedExchange> exchanges;
  Bytes residual{};
  bool reads_gradient_again = false;  // recompress works on the gradients, too
  bool keeps_first = false;           // `decompress` reads the first message once more
};
CompressionPlan compression_plan(const Layout& layout, const CompressedBucket& bucket);

// Elements that share a scale when they are integers.
inline constexpr std::int64_t quantization_group = 2048;
// Bytes of so many integers of `bits` with their scales, in whole words of 4 bytes.
Bytes quantized_bytes(std::int64_t elements, int bits);
// Kernels that write integers, and that write numbers from those of so many ranks (Kernel::batch).
Kernel quantize_kernel(std::int64_t elements, int bits, int bytes_each);
Kernel dequantize_kernel(std::int64_t elements, int ranks, int bits, int bytes_each);

// Elements that top_k and random_k send of a bucket.
std::int64_t selected_elements(const Layout& layout, std::int64_t elements);
// Numbers that 1-bit LAMB keeps of each tensor, in fp32 behind the residuals: the scale of its
// momentum, the coefficient of the warm-up, the factor of the last step.
inline constexpr std::int64_t lamb_numbers = 3;

// Elements of a part of a bucket that one rank averages (one_bit, one_bit_lamb): whole words of
// bits.
std::int64_t one_bit_part(std::int64_t elements, int ranks);
// Whether two factors of the matrix have fewer than half as many numbers (PyTorch,
// torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py, min_compression_rate 2).
bool is_worth_factors(std::int64_t rows, std::int64_t columns, int rank);

}  // namespace sim::lowering
