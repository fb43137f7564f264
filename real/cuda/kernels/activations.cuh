// Activation functions of one number, and their derivatives.
#pragma once

#include "real/cuda/kernels/device.cuh"

namespace real::kernels {

// GELU in its tanh form (Hendrycks & Gimpel 2016, section 2):
//   x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3).
inline constexpr float gelu_root = 0.7978845608028654f;
inline constexpr float gelu_cubic = 0.044715f;
struct Gelu {
  __device__ static float value(float x) {
    return 0.5f * x * (1.0f + tanhf(gelu_root * (x + gelu_cubic * x * x * x)));
  }
  __device__ static float derivative(float x) {
    const float t = tanhf(gelu_root * (x + gelu_cubic * x * x * x));
    const float inner = gelu_root * (1.0f + 3.0f * gelu_cubic * x * x);
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
  }
};
// A NaN passes both: it must be found where it arose.
struct Relu {
  __device__ static float value(float x) { return x < 0.0f ? 0.0f : x; }
  __device__ static float derivative(float output) { return output > 0.0f ? 1.0f : 0.0f; }
};
struct SquaredRelu {
  __device__ static float value(float x) { return x < 0.0f ? 0.0f : x * x; }
  __device__ static float derivative(float x) { return x < 0.0f ? 0.0f : 2.0f * x; }
};
struct Silu {
  __device__ static float value(float x) { return x / (1.0f + expf(-x)); }
  __device__ static float derivative(float x) {
    const float sigmoid = 1.0f / (1.0f + expf(-x));
    return sigmoid * (1.0f + x * (1.0f - sigmoid));
  }
};

}  // namespace real::kernels
