// Fits the parameters of the kernel-time model to measurements: robust least squares on the
// logarithm of the time, so that a short kernel counts as much as a long one.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "sim/cost/kernel_cost.hpp"
#include "sim/program/program.hpp"
#include "sim/topology/device.hpp"

namespace sim {

struct KernelMeasurement {
  std::string kind;   // as the file names it: "gemm_bf16_tn", "flash_fwd", "adamw_fused_fp32", ...
  std::string shape;  // as the file has it
  int sms = 0;        // that the process could use
  Kernel kernel;
  Duration median{};       // 0: not measured (planned, or left out)
  bool eager = false;      // issued one by one from the host, which bounds short kernels
  bool fits = true;        // false: no parameter of a device stands for this kind alone
  Load load = Load::loop;  // how it was measured
  Bytes cast{};  // that a pass before moves, which was timed with it: a cast of an operand
};

// A file of measurements: the rows whose kinds are kernels of the model, also those without a time;
// lines "# key: value" anywhere in it; and of the rest (host time, kernels that have no model) the
// rows by kind, with their time.
struct KernelFile {
  std::vector<KernelMeasurement> rows;
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<std::pair<std::string, Duration>> others;
};

// Reads a file like topologies/devices/measurements/h200_kernels.csv. Behind its nine columns there
// may be `load` (loop or step: how the row was measured), `forecast_us` and `note`; a row without a
// time has empty cells. Throws InputError.
KernelFile read_kernel_file(const std::string& path);
KernelFile parse_kernel_file(std::istream& stream, const std::string& name);
// The rows with a time. Throws InputError.
std::vector<KernelMeasurement> read_kernel_measurements(const std::string& path);

// True for the 30% of the shapes (m, n, k) that no fit sees: those whose SplitMix64 hash, chained
// over m, n and k from `seed`, is below 30% of 2^64. All forms and dtypes of a shape go together.
// A kernel without a shape counts by its bytes.
bool held_out(const Kernel& kernel, std::uint64_t seed = 1);

// Predicted over measured time, of rows under the conditions that they were measured in.
double prediction_ratio(const KernelMeasurement& row, const Device& device);

struct FitError {
  int rows = 0;
  double median = 0;  // of |predicted / measured - 1|
  double p90 = 0;
  double worst = 0;
  double bias = 0;  // geometric mean of predicted / measured, minus 1
};
FitError fit_error(const std::vector<KernelMeasurement>& rows, const Device& device);

// FitScope is the set of parameters that a fit of products may change: the model of the dtype
// alone, or with it the parameters that all dtypes share (operand feed, memory, L2 and burst
// parameters).
enum class FitScope : std::uint8_t { product, product_and_memory };

// The device with the parameters of `dtype`'s products fitted to `rows`, starting from its own.
// REQUIRES: the device has a model of `dtype`; at least as many rows as parameters (11).
Device fit_gemm(const Device& device, DType dtype, FitScope scope,
                const std::vector<KernelMeasurement>& rows);
inline constexpr std::size_t product_parameters = 4;

// The device with the share of 8-bit products that scales of blocks leave (`scales`) fitted to
// `rows`, which are all such; of tensors: gradient_share, and the rows are products that give
// gradients. REQUIRES: a model of fp8; a row.
Device fit_block_share(const Device& device, ProductScales scales,
                       const std::vector<KernelMeasurement>& rows);

// The device with the model of products of experts in one kernel fitted to `rows`, which are all
// of this `grouping`. REQUIRES: it is not none; a model of bf16; product_parameters rows.
Device fit_grouped(const Device& device, Grouping grouping,
                   const std::vector<KernelMeasurement>& rows);

// The rates of `device` with a flash kernel; where it has none, it gets those of its fastest to
// begin with. REQUIRES: is_flash(kernel).
AttentionModel& attention_rates(Device& device, AttentionKernel kernel);

// The same of flash attention (all rows flash, of one implementation): the attained shares of the
// parts that were measured, the ramp over tokens, the fixed cost. Head dimension and causal masks
// keep what the device has: a run that trains sees one of each. REQUIRES: attention_parameters
// rows.
Device fit_attention(const Device& device, const std::vector<KernelMeasurement>& rows);
inline constexpr std::size_t attention_parameters = 4;

// The same of memory-bound kernels: the share of each kind that was measured, and the fixed cost of
// all. REQUIRES: as many rows as kinds, and one more.
Device fit_memory_kernels(const Device& device, const std::vector<KernelMeasurement>& rows);
// "elementwise", "norm_forward", "norm_backward", "softmax", "optimizer": the key of a device file
// that a kernel without products is bound by.
std::string memory_kind(const Kernel& kernel);

}  // namespace sim
