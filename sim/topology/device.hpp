// A GPU (or a core of a host) as the cost models see it: data-sheet figures, each with its source
// in the device file, and the parameters of the kernel-time model (sim/cost/kernel_cost.hpp), each
// with its origin.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/attention_kernel.hpp"
#include "sim/base/dtype.hpp"
#include "sim/base/units.hpp"
#include "sim/base/words.hpp"
#include "sim/config/change.hpp"

namespace sim {

// cdna2 to cdna4: AMD Instinct, whose collectives are RCCL's. cpu: a core that runs one rank. It
// has no NCCL: its collectives are messages between ranks.
enum class Generation : std::uint8_t {
  volta,
  ampere,
  ada,
  hopper,
  blackwell,
  cdna2,
  cdna3,
  cdna4,
  cpu
};
constexpr auto words_of(Generation) {
  return std::array{Word{Generation::volta, "volta"},
                    Word{Generation::ampere, "ampere"},
                    Word{Generation::ada, "ada"},
                    Word{Generation::hopper, "hopper"},
                    Word{Generation::blackwell, "blackwell"},
                    Word{Generation::cdna2, "cdna2"},
                    Word{Generation::cdna3, "cdna3"},
                    Word{Generation::cdna4, "cdna4"},
                    Word{Generation::cpu, "cpu"}};
}
constexpr bool is_cdna(Generation generation) {
  return generation == Generation::cdna2 || generation == Generation::cdna3 ||
         generation == Generation::cdna4;
}

// The tile-and-wave model of a matrix product in one dtype (sim/cost/MODEL.md has the formula).
struct GemmModel {
  FlopRate peak{};            // dense data-sheet rate
  double attained = 0;        // share of it that the SMs reach on an infinitely large tile and K
  double gradient_share = 1;  // of `attained`, in 8-bit products for gradients (sim/cost/MODEL.md)
  // Products with scales of blocks reach these shares of `attained`, in the place of
  // gradient_share: sums are scaled every 128 steps of K, or, micro, in the tensor cores.
  double block_share = 1, row_share = 1, micro_share = 1;  // ProductScales
  // 8-bit products with scales of tensors: either operand may have either dimension innermost.
  bool either_order = false;
  double sustained = 0;  // share of it that the power limit allows in a step, on the whole device
  double ramp_k = 0;     // steps of K that filling and draining a tile's pipeline cost
  Duration fixed{};      // launch and tail of one kernel on the device
};

// Products of experts in one kernel (Kernel::grouping): tiles of one size, clusters of which take
// whole waves of the SMs (sim/cost/MODEL.md). In 16 bits.
struct GroupedModel {
  double attained = 0;   // share of the peak that the SMs reach in a tile
  double ramp_k = 0;     // steps of K that a tile costs beyond its own
  Duration per_group{};  // of an SM that turns to the next expert: its descriptors are made anew
  Duration fixed{};
};

// Flash attention. Shares are of the bf16 (fp16) peak, long sequences, head dimension 128.
struct AttentionModel {
  std::string kernels;  // which implementation: "FlashAttention-2", "cuDNN 9", ...
  double forward_attained = 0;
  double backward_attained = 0;
  double ramp_tokens = 0;        // keys per query at which half of it is reached
  double ramp_head_dim = 0;      // head dimension d reaches (d / (d + this)) / (128 / (128 + this))
  double causal_efficiency = 1;  // of causal against full, beyond the halved work
  Duration fixed{};
  // Kernels whose products have 8 bits: their rate over that of 16, with K keys per query and heads
  // of D features, gain K / (K + ramp_tokens) (D / 128)^width, by pass; with scales of tensors and
  // of 32 elements. Absent: the device has none.
  struct EightBitPass {
    double gain = 0, ramp_tokens = 0, width = 0;
  };
  struct EightBit {
    EightBitPass forward, backward;
  };
  std::optional<EightBit> fp8{}, mxfp8{};
};

// Memory-bound kernels: the share of the data-sheet bandwidth that each kind reaches, counting the
// bytes that it must move at least.
struct MemoryModel {
  double elementwise = 0;
  // Element by element: one tensor is broadcast, or its rows lie apart. Absent: as elementwise.
  std::optional<double> strided{};
  // A compiler's kernels that write a transposed tensor. Absent: as elementwise.
  std::optional<double> transposed{};
  double norm_forward = 0;
  double norm_backward = 0;
  double softmax = 0;         // of unfused attention
  double scan_forward = 0.5;  // of a scan in chunks, whose products are too small to bound it
  double scan_backward = 0.5;
  double optimizer = 0;
  double gemm = 0;     // a matrix product that is bound by reading its operands
  Duration fixed{};    // launch and tail of one kernel on the device
  Bandwidth per_sm{};  // bandwidth of one SM: the bound where too few take part
};

// A kernel whose time was measured on the very device: it beats the formula. All that tells kernels
// of a plan apart but their FLOPs, which follow.
struct KernelShape {
  std::string kind;  // word of the plan's OpKind, which this room does not know
  DType dtype = DType::bf16;
  bool backward = false, causal = false;
  AttentionKernel attention = AttentionKernel::flash;
  std::int64_t m = 0, n = 0, k = 0, batch = 1, heads = 0, kv_heads = 0, bytes = 0;
  auto operator<=>(const KernelShape&) const = default;
};
struct KernelTime {
  KernelShape shape;
  Duration time{};
};

// A host slower than this per kernel is a mistake of units.
inline constexpr Duration most_host_issue = std::chrono::milliseconds{1};
// Either way.
inline constexpr Duration most_kernel_gap = std::chrono::milliseconds{1};

struct Device {
  std::string name;
  // aliases: what the driver's name of the GPU begins with; unlike: longer names of other parts.
  std::vector<std::string> aliases, unlike;
  std::string origin;  // how its model parameters were obtained: printed with every report
  // The basis of its parameters where no measurement of a training step on this device stands
  // behind them. Empty: validated.
  std::string not_validated;
  Generation generation = Generation::hopper;
  int sms = 0;
  Bytes memory{};      // as the driver reports it to a process, before reservations
  Bytes reserved{};    // CUDA context, NCCL and library workspaces
  Bytes workspaces{};  // the last of these, which are tensors of PyTorch
  Bytes l2{};
  Bandwidth memory_bandwidth{};  // data sheet
  Duration host_issue{};         // host time to issue one kernel, eager
  // Device time from one kernel to the next beyond their own times, issued one by one and replayed
  // by a CUDA graph: below 0 where the start of one overlaps the end of the one before it.
  Duration issued_gap{}, replayed_gap{};
  double tdp_watts = 0;
  // A loop of one short product runs above the sustained clock until the power limit acts: by
  // `burst` at most, half of it for a kernel of `burst_half`. Only comparisons with such loops
  // (Load::loop) use these two and the L2 bandwidth.
  double burst = 0;
  Duration burst_half{};
  Bandwidth l2_bandwidth{};
  // The rate at which operands reach the SMs, from L2 through shared memory and with the savings of
  // multicast: one SM, and all together. Small output tiles are bound by it.
  Bandwidth operand_feed_sm{};
  Bandwidth operand_feed{};
  std::array<std::optional<GemmModel>, words_of(DType{}).size()> gemm;  // by DType
  std::optional<GroupedModel> grouped_rows, grouped_depth;  // Grouping; absent: as `gemm` has them
  AttentionModel attention;                                 // the fastest flash kernels
  std::optional<AttentionModel> flash_attention_1, flash_attention_2;
  MemoryModel memory_kernels;
  // The share of the device that a collective holds while it moves data, in [0, 1]. Absent: the SMs
  // of its channels. On a core 1: the thread that runs kernels also moves messages, so kernels
  // wait.
  std::optional<double> communication_share;
  std::vector<KernelTime> measured_kernels;  // ascending shape, each once
  // For a device with what-ifs: the device that the times were measured on, as the file has it. The
  // times are then scaled by the formula's ratio of this device to that one (sim/cost).
  std::shared_ptr<const Device> measured_on;

  const GemmModel* gemm_model(DType dtype) const {
    const auto& model = gemm[static_cast<std::size_t>(dtype)];
    return model ? &*model : nullptr;
  }
  bool reads_either_order() const {
    const GemmModel* const model = gemm_model(DType::fp8);
    return model != nullptr && model->either_order;
  }
  // Null: the file has no rates of these kernels, or they are unfused.
  const AttentionModel* attention_model(AttentionKernel kernel) const;
  // Dense data-sheet rate. Throws InputError naming the device and what it can compute in.
  FlopRate peak(DType dtype) const;
  // As peak(), for the whole model.
  const GemmModel& require_gemm(DType dtype) const;
  // The formats that it has rates for, as a list for messages.
  std::string gemm_formats() const;
};

// Reads a device file (topologies/devices/*.yaml), with `changes` made to its values.
// Throws InputError.
Device load_device(const std::string& path, std::span<const Change> changes = {});
Device parse_device(std::string_view yaml, const std::string& name);

// The device with only `sms` of its SMs, as CUDA_MPS_ACTIVE_THREAD_PERCENTAGE gives a process: the
// same rate per SM, the same memory, and the whole power budget.
// REQUIRES: 1 <= sms <= device.sms.
Device restricted_to_sms(const Device& device, int sms);

}  // namespace sim
