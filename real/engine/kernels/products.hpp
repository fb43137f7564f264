// Matrix products of linear layers, as a backend computes them.
#pragma once

#include <cstdint>

#include "real/engine/kernels.hpp"

namespace real {

// The three products of a linear layer Y = X W^T + b, all row-major: X [tokens, in], W [out, in].
enum class GemmPass : std::uint8_t {
  forward,          // Y [tokens, out] = X W^T (+ b)
  input_gradient,   // dX [tokens, in] = dY W
  weight_gradient,  // dW [out, in] (+)= dY^T X
};

// CodedOperands says that a product reads 8 bits: both operands with the dimension that it sums
// over innermost, so the second of an input gradient is W^T, those of a weight gradient dY^T and
// X^T.
struct CodedOperands {
  bool exist = false;
  Float8 first = Float8::e4m3, second = Float8::e4m3;
  Scaling first_scaling = Scaling::tensor, second_scaling = Scaling::tensor;
  auto operator<=>(const CodedOperands&) const = default;
};

struct GemmShape {
  GemmPass pass = GemmPass::forward;
  sim::DType dtype = sim::DType::bf16;   // of the operands, or of the bias alone
  sim::DType output = sim::DType::bf16;  // of the result
  std::int64_t tokens = 0, in = 0, out = 0;
  std::int64_t stride = 0;  // elements from a row of Y or dY to the next; 0: out
  bool bias = false;        // forward: b is added
  bool accumulate = false;  // the result is added to what is there
  float scale = 1;          // of the result
  CodedOperands coded{};
  std::int64_t row() const { return stride > 0 ? stride : out; }
  auto operator<=>(const GemmShape&) const = default;
};

struct GemmOperands {
  const void* first = nullptr;   // X, dY, dY
  const void* second = nullptr;  // W, W, X
  const void* bias = nullptr;
  void* result = nullptr;
  // Scales of codes, on the device: TensorScale::inverse of a tensor, or the scales of its blocks.
  const void* first_scales = nullptr;
  const void* second_scales = nullptr;
};

class Products {
 public:
  virtual ~Products() = default;
  // A product as a launch. What is measured to choose an algorithm runs on `stream` now, and may
  // overwrite the result.
  virtual kernels::Launch prepare(const GemmShape& shape, const GemmOperands& operands,
                                  kernels::StreamHandle stream) = 0;
};

}  // namespace real
