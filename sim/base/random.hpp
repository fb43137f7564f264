// Counter-based random numbers: a pure function of (seed, stream, index), so that a draw depends
// neither on the order of draws nor on the platform. The mixing function is SplitMix64 (Steele,
// Lea & Flood 2014). Distributions are our own: the standard library's differ between vendors.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace sim {

constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr std::uint64_t hash_combine(std::uint64_t seed, std::uint64_t value) {
  return mix64(seed ^ mix64(value));
}

// Uniform in (0, 1): never 0, so that its logarithm is finite.
constexpr double uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const std::uint64_t bits = hash_combine(hash_combine(seed, stream), index) >> 11;
  return (static_cast<double>(bits) + 0.5) * 0x1.0p-53;
}

// Standard normal by Box and Muller (1958).
inline double standard_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const double radius = std::sqrt(-2.0 * std::log(uniform(seed, stream, 2 * index)));
  return radius * std::cos(2.0 * std::numbers::pi * uniform(seed, stream, 2 * index + 1));
}

}  // namespace sim
