// The base of a host's cores.
#include "sim/calibration/fit.hpp"

namespace sim {

Device host_base_device() {
  const auto gigabytes = [](double value) { return Bandwidth::bytes_per_second(value * 1e9); };
  const Duration call = std::chrono::microseconds(1);
  Device device;
  device.name = "one core of a host";
  device.generation = Generation::cpu;
  device.sms = 1;
  device.memory = Bytes{std::int64_t{4} << 30};
  device.l2 = Bytes{std::int64_t{1} << 20};
  device.memory_bandwidth = device.memory_kernels.per_sm = gigabytes(10);
  device.tdp_watts = 10;
  device.burst_half = call;
  device.l2_bandwidth = gigabytes(100);
  // No shared memory to feed: the tile term alone counts.
  device.operand_feed_sm = device.operand_feed = gigabytes(1e6);
  device.gemm[static_cast<std::size_t>(DType::fp32)] = GemmModel{.peak = FlopRate::per_second(20e9),
                                                                 .attained = 1,
                                                                 .sustained = 1,
                                                                 .ramp_k = 8,
                                                                 .fixed = call};
  device.attention = {.kernels = "Eigen",
                      .forward_attained = 0.3,
                      .backward_attained = 0.3,
                      .ramp_tokens = 16,
                      .ramp_head_dim = 16,
                      .causal_efficiency = 1,
                      .fixed = call};
  device.memory_kernels.elementwise = device.memory_kernels.norm_forward =
      device.memory_kernels.norm_backward = device.memory_kernels.softmax =
          device.memory_kernels.optimizer = 0.3;
  device.memory_kernels.gemm = 1;
  device.memory_kernels.fixed = call;
  device.communication_share = 1;
  device.origin =
      "round figures of one core, to be calibrated; messages are moved by the thread that runs the "
      "kernels (compute_share 1)";
  return device;
}

}  // namespace sim
