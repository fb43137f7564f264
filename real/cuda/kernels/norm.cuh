// LayerNorm (Ba et al. 2016) and RMSNorm (Zhang & Sennrich 2019): what the kernels over rows and
// over heads share.
//
// With n = (x - mean) / deviation, y = n scale + shift and g = dy scale:
//   dx = (g - mean(g) - n mean(g n)) / deviation,
// without mean(g) where nothing is centred; d scale = sum of dy n, d shift = sum of dy.
#pragma once

#include "real/cuda/kernels/launch.cuh"

namespace real::kernels {

template <bool centred_, bool shifted_>
struct NormTraits {
  static constexpr bool centred = centred_;
  static constexpr bool shifted = shifted_;
  static constexpr int vectors = shifted ? 2 : 1;  // of parameters
};

template <class Visit>
void with_norm(const char* kernel, sim::Function function, Visit visit) {
  if (function == sim::Function::layer_norm) return visit(NormTraits<true, true>{});
  if (function == sim::Function::layer_norm_no_bias) return visit(NormTraits<true, false>{});
  if (function == sim::Function::rms_norm) return visit(NormTraits<false, false>{});
  refuse(kernel, "is not a norm");
}

// Sums of columns that blocks left behind as [parts, width], added in their order to the gradient
// of the parameters.
struct Partials {
  const float* sums = nullptr;
  std::int64_t parts = 0, width = 0;
};
void reduce_partials(const Partials& partials, sim::DType dtype, bool accumulate, void* gradient,
                     StreamHandle stream);

// Blocks that share the rows of a backward pass, and so the partial sums: two for every SM of an
// H100, a number of its own so that results do not depend on the device.
inline constexpr std::int64_t partial_blocks = 264;
inline std::int64_t parts_of(std::int64_t rows) {
  return rows < partial_blocks ? rows : partial_blocks;
}

}  // namespace real::kernels
