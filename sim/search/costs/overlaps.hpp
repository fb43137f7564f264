// Collectives within layers that must run beside kernels, and what that costs the kernels at least.
//
// A collective that waits for one kernel and is waited for by another runs between the two. The
// kernels between them give way to it meanwhile (sim/engine: at (S - c) / S of their speed), or
// nobody computes meanwhile, which costs more. So from the end of the first to the start of the
// last the compute stream takes its kernels' times and what they lose at least: as if the
// collective ran beside those that lose least. Its time and its SMs alone count: slowed by others
// it only holds them longer. Its memory traffic does not count: that falls as it is slowed.
//
// A persistent kernel that starts t before the communication beside it ends takes t longer, and
// other communication finds room for those t at its end: it loses half of what runs beside it, at
// least.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/program/program.hpp"

namespace sim {

// A collective at least.
struct LeastCollective {
  std::int64_t time = 0;      // ps, with its latency
  std::int64_t transfer = 0;  // ps of it during which it holds SMs
  std::int64_t sm = 0;        // those, in 1/1024 SM
};

// Data-parallel collectives count beside persistent kernels if they hold so many SMs or more.
inline constexpr std::int64_t least_data_sms = 2;

// DeviceShares is what kernels have beside communication, in 1/1024 SM: the device, and the part
// that is never taken from them.
struct DeviceShares {
  std::int64_t device_sm = 0;
  std::int64_t least_left = 1024;
};

struct LeastKernel {
  std::int64_t time = 0;    // ps
  std::int64_t sm = 0;      // that it would use, in 1/1024 SM
  bool persistent = false;  // and not abreast of others, which gives way (sim/engine/RULES.md)
};

// ForcedOverlap: at least the times of the kernels between them and `loss` pass from the end of
// kernel `after` to the start of kernel `before`.
struct ForcedOverlap {
  std::uint32_t after = 0, before = 0;  // operators
  std::int64_t kernels = 0, loss = 0;   // ps
};

// least_loss() is a lower bound on the time that kernels lose while communication of `transfer` ps
// holds `sm`.
std::int64_t least_loss(std::vector<LeastKernel> kernels, std::int64_t transfer, std::int64_t sm,
                        const DeviceShares& shares);

struct OverlapCosts {
  std::function<LeastKernel(std::uint32_t op)> kernel;
  std::function<LeastCollective(std::uint32_t op)> collective;
  DeviceShares shares;
};

// forced_overlaps() are those among operators first .. last - 1, by `before`. Windows do not
// overlap.
std::vector<ForcedOverlap> forced_overlaps(const Program& program, std::uint32_t first,
                                           std::uint32_t last, const OverlapCosts& costs);

}  // namespace sim
