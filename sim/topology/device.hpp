// A GPU as the cost models see it: data-sheet figures, each with its source in the device file, and
// the parameters of the kernel-time model (sim/cost/kernel_cost.hpp), each with its origin.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "sim/base/dtype.hpp"
#include "sim/base/units.hpp"
#include "sim/config/reader.hpp"

namespace sim {

enum class Generation : std::uint8_t { volta, ampere, hopper, blackwell };
constexpr auto words_of(Generation) {
  return std::array{Word{Generation::volta, "volta"}, Word{Generation::ampere, "ampere"},
                    Word{Generation::hopper, "hopper"}, Word{Generation::blackwell, "blackwell"}};
}

// The tile-and-wave model of a matrix product for one dtype (kernel_cost.hpp has the formula).
struct GemmModel {
  FlopRate peak{};            // dense data-sheet rate
  double attained = 0;        // share of the peak that large products sustain under load
  int tile_m = 0, tile_n = 0; // output tile of one SM
  double ramp_k = 0;          // K at which a tile reaches half its rate
  Duration fixed{};           // launch and epilogue of one kernel on the device
};

struct AttentionModel {
  double forward_attained = 0;   // share of the bf16 peak, long sequences, head dim 128
  double backward_attained = 0;
  double ramp_tokens = 0;        // sequence length at which half of it is reached
  double causal_efficiency = 1;  // of causal against full, beyond the halved work
};

struct Device {
  std::string name;
  std::string origin;       // how its model parameters were obtained: printed with every report
  Generation generation = Generation::hopper;
  int sms = 0;
  Bytes memory{};           // as the driver reports it to a process, before reservations
  Bytes reserved{};         // CUDA context, NCCL and library workspaces
  Bandwidth memory_bandwidth{};        // data sheet
  double memory_attained = 0;          // share that long streaming kernels reach
  Bytes memory_ramp{};                 // traffic at which a kernel reaches half of that
  Duration memory_fixed{};             // launch and tail of a memory-bound kernel
  Duration host_issue{};               // host time to issue one kernel, eager
  std::array<std::optional<GemmModel>, 5> gemm;  // by DType
  AttentionModel attention;
  double tdp_watts = 0;

  const GemmModel* gemm_model(DType dtype) const {
    const auto& model = gemm[static_cast<std::size_t>(dtype)];
    return model ? &*model : nullptr;
  }
  FlopRate peak(DType dtype) const;  // throws std::logic_error for an unsupported dtype
};

// Reads a device file (topologies/devices/*.yaml).
Device load_device(const std::string& path);

}  // namespace sim
