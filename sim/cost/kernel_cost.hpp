// Time of one kernel on one device. MODEL.md has the formulas and their sources, README.md how the
// parameters were fitted and the errors on held-out shapes.
#pragma once

#include "sim/program/program.hpp"
#include "sim/topology/device.hpp"

namespace sim {

struct KernelCost {
  Duration time{};      // alone on the device, without host issue time
  Bandwidth memory{};   // device memory traffic while it runs: bytes / time
  double sm_share = 1;  // of the SMs while it runs, in (0, 1]
  // Its thread blocks take their SMs at once and keep them until it is done: it cannot give way to
  // what comes later, and blocks that find their SM taken run behind the others (MODEL.md); unless
  // it runs abreast of others, on whose SMs they do.
  bool persistent = false;
  bool abreast = false;
};

// The state of the device around the kernel. A training step runs at the clock that the power limit
// sustains and finds its operands in device memory. A benchmark that repeats one kernel for some
// milliseconds runs at a higher clock and finds small operands in the L2 cache: it must be asked
// for by name, to compare with such measurements.
enum class Load : std::uint8_t { step, loop };

// How the tiles of a kernel count over the SMs: in whole waves, the last of which takes as long as
// a full one, or as a fraction, as if the work divided evenly (an ablation).
enum class Waves : std::uint8_t { whole, fractional };

// A time that was measured for exactly this kernel (Device::measured_kernels) beats the formula in
// a step; on a device with what-ifs it is scaled by the formula's ratio of this device to the one
// it was measured on. Throws InputError (at `device.name`) for a dtype that the device cannot
// compute in. REQUIRES: runs_kernel(kernel.kind); m, n, k and batch (and heads, of attention) at
// least 1.
KernelCost kernel_cost(const Kernel& kernel, const Device& device, Load load = Load::step,
                       Waves waves = Waves::whole);

// The formula alone, whatever was measured.
KernelCost formula_cost(const Kernel& kernel, const Device& device, Load load = Load::step,
                        Waves waves = Waves::whole);

// The kernel as Device::measured_kernels names it.
KernelShape shape_of(const Kernel& kernel);

// The row of Device::measured_kernels for this kernel, or none.
const KernelTime* measured_time(const Kernel& kernel, const Device& device);

// The tiling that the model chooses for a matrix product: the fastest of a few.
struct GemmTiling {
  int tile_m = 0, tile_n = 0;
  int split_k = 1;     // partial products along K, added up afterwards
  double tiles = 0;    // whole number: over the whole output, times split_k
  double waves = 0;    // tiles / SMs, rounded up unless fractional or Kernel::abreast
  double seconds = 0;  // of the tiles and of adding up, at full clock
};
GemmTiling gemm_tiling(const Kernel& kernel, const Device& device, Waves waves = Waves::whole);

}  // namespace sim
