// A device with round figures, so that a test can derive every number.
#pragma once

#include "sim/cost/kernel_cost.hpp"

namespace sim {

// 10 SMs of 10 TFLOP/s each; products have no fixed cost, no ramp, and operands for nothing.
inline Device round_device() {
  Device device;
  device.name = "round";
  device.sms = 10;
  device.l2 = Bytes{100};
  device.memory_bandwidth = Bandwidth::bytes_per_second(1e12);
  device.l2_bandwidth = device.operand_feed_sm = device.operand_feed =
      Bandwidth::bytes_per_second(1e30);
  device.memory_kernels = {.elementwise = 0.5,
                           .norm_forward = 0.5,
                           .norm_backward = 0.25,
                           .softmax = 0.2,
                           .optimizer = 1.0,
                           .gemm = 1.0,
                           .fixed = std::chrono::microseconds(2),
                           .per_sm = Bandwidth::bytes_per_second(1e12)};
  for (const DType dtype : {DType::bf16, DType::fp32})
    device.gemm[static_cast<std::size_t>(dtype)] =
        GemmModel{.peak = FlopRate::per_second(100e12), .attained = 1, .sustained = 1, .ramp_k = 0};
  device.attention = {.kernels = "round",
                      .forward_attained = 0.5,
                      .backward_attained = 0.25,
                      .ramp_tokens = 0,
                      .ramp_head_dim = 0,
                      .causal_efficiency = 1,
                      .fixed = Duration{0}};
  return device;
}

inline Kernel product(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype = DType::bf16) {
  Kernel kernel;
  kernel.kind = OpKind::gemm;
  kernel.dtype = dtype;
  kernel.m = m;
  kernel.n = n;
  kernel.k = k;
  return kernel;
}

inline Kernel streaming(OpKind kind, std::int64_t bytes) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.bytes = Bytes{bytes};
  return kernel;
}

}  // namespace sim
