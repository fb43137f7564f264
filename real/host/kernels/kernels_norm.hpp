// LayerNorm (Ba et al. 2016) and RMSNorm (Zhang & Sennrich 2019), over the rows of a matrix or over
// the heads of its queries and keys. The statistics are computed again in the backward pass from
// the saved input, as the plan keeps nothing else.
#pragma once

#include <cstdint>
#include <span>

#include "real/engine/kernels.hpp"

namespace real {

// `function`: layer_norm, layer_norm_no_bias or rms_norm. Parameters lie as scale, then shift.
bool has_shift(sim::Function function);

struct NormShape {
  std::int64_t rows = 0, features = 0;
  sim::Function function = sim::Function::layer_norm;
};

void norm_forward(const NormShape& shape, std::span<const float> x,
                  std::span<const float> parameters, std::span<float> y);
struct NormBackward {
  std::span<const float> x, parameters, dy;
  std::span<const float> residual;       // added to dx: what went past the branch; or empty
  std::span<float> dx;                   // may be `dy` or `residual` itself
  std::span<float> parameter_gradients;  // empty: not wanted
  bool accumulate = true;                // the gradients of the parameters
};
void norm_backward(const NormShape& shape, const NormBackward& operands);

// A norm of its own for the queries and for the keys (Qwen3): each head of each token is a row.
// Parameters: those of the queries' norm, then those of the keys'.
struct HeadNormShape {
  std::int64_t tokens = 0, heads = 0, kv_heads = 0, head_dim = 0;
  sim::Function function = sim::Function::rms_norm;
};

// In place on [queries | keys | values]; `raw` receives the queries and keys as they were, or is
// empty.
void head_norm_forward(const HeadNormShape& shape, std::span<const float> parameters,
                       std::span<float> qkv, std::span<float> raw);
// In place on the gradient of [queries | keys | values].
void head_norm_backward(const HeadNormShape& shape, std::span<const float> raw,
                        std::span<const float> parameters, std::span<float> gradient,
                        std::span<float> parameter_gradients, bool accumulate);

}  // namespace real
