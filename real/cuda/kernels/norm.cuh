// LayerNorm (Ba et al. 2016) and RMSNorm (Zhang & Sennrich 2019): what the kernels over rows and
// over heads share, and the kinds of the former.
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
  float* sums = nullptr;
  std::int64_t parts = 0, width = 0;
};
void reduce_partials(const Partials& partials, sim::DType dtype, bool accumulate, void* gradient,
                     StreamHandle stream);

// A backward pass over rows; `partials` is [parts, vectors * width].
template <class T>
struct NormRows {
  std::int64_t rows, width;
  float epsilon;
  const T* input;
  const T* parameters;
  const T* gradient;
  const T* residual;  // or null
  T* input_gradient;
  float* partials;
};
template <class T>
NormRows<T> norm_rows(const NormShape& shape, const NormBackward& o, const Partials& partials) {
  return {shape.rows,
          shape.width,
          shape.epsilon,
          as<T>(o.input),
          as<T>(o.parameters),
          as<T>(o.gradient),
          as<T>(o.residual_gradient),
          as<T>(o.input_gradient),
          partials.sums};
}

void require_norm_width(const char* kernel, std::int64_t width);
// Rows of any width and alignment (norm_plain.cu); `partials.parts` blocks share the rows.
void norm_forward_plain(const NormShape& shape, const void* input, const void* parameters,
                        void* output, StreamHandle stream);
void norm_backward_plain(const NormShape& shape, const NormBackward& operands, bool is_aligned,
                         const Partials& partials, StreamHandle stream);

}  // namespace real::kernels
