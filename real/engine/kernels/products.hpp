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

struct GemmShape {
  GemmPass pass = GemmPass::forward;
  sim::DType dtype = sim::DType::bf16;   // of the operands
  sim::DType output = sim::DType::bf16;  // of the result
  std::int64_t tokens = 0, in = 0, out = 0;
  std::int64_t stride = 0;  // elements from a row of Y or dY to the next; 0: out
  bool bias = false;        // forward: b is added
  bool accumulate = false;  // the result is added to what is there
  float scale = 1;          // of the result
  std::int64_t row() const { return stride > 0 ? stride : out; }
  auto operator<=>(const GemmShape&) const = default;
};

struct GemmOperands {
  const void* first = nullptr;   // X, dY, dY
  const void* second = nullptr;  // W, W, X
  const void* bias = nullptr;
  void* result = nullptr;
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
