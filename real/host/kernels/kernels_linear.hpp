// A linear layer: Y[tokens, out] = X[tokens, in] W^T + b with W stored [out, in], as PyTorch's
// nn.Linear stores it. All matrices are row-major and packed, but that rows of Y and dY may lie
// further apart: the span of such a matrix ends with its last row.
#pragma once

#include <cstdint>
#include <span>

namespace real {

struct LinearShape {
  std::int64_t tokens = 0, in = 0, out = 0;
  std::int64_t stride = 0;  // of Y and dY; 0: out
  std::int64_t row() const { return stride > 0 ? stride : out; }
};

// An empty bias: none.
void linear_forward(const LinearShape& shape, std::span<const float> x, std::span<const float> w,
                    std::span<const float> bias, std::span<float> y);
// dX (+)= dY W
void linear_input_gradient(const LinearShape& shape, std::span<const float> dy,
                           std::span<const float> w, std::span<float> dx, bool accumulate = false);
// dW (+)= scale dY^T X
struct GradientSum {
  float scale = 1;
  bool accumulate = true;
};
void linear_weight_gradient(const LinearShape& shape, std::span<const float> x,
                            std::span<const float> dy, std::span<float> dw, const GradientSum& sum);
// db (+)= sum of dY over its rows, in their order
void bias_gradient(std::span<const float> dy, std::span<float> db, bool accumulate);

}  // namespace real
