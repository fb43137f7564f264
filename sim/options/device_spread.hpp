// How much the slowest of many like devices is behind the average one.
//
// Devices of one part number differ by their silicon and their power limit: 8% between the whiskers
// of a box plot over a cluster (Sinha et al. 2022, "Not All GPUs Are Created Equal", SC22,
// arXiv:2208.11035: five clusters, compute-bound kernels). Whiskers of a normal distribution
// are 5.4 standard deviations apart, hence 1.5%. A step waits for its slowest device.
#pragma once

namespace sim {

inline constexpr double published_device_spread = 0.08 / 5.4;

// 1 + spread * E[max of `devices` standard normals]. 1 for one device.
// REQUIRES: spread >= 0, devices >= 1.
double slowest_of(int devices, double spread);

}  // namespace sim
