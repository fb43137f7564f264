// Philox 4x32-10, a counter-based generator (Salmon et al. 2011, "Parallel random numbers: as easy
// as 1, 2, 3", section 3.3): four random words as a pure function of a counter and a key.
#pragma once

#include <array>
#include <cstdint>

namespace real {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxCounter philox_round(const PhiloxCounter& counter, const PhiloxKey& key) {
  const std::uint64_t first = std::uint64_t{0xD2511F53} * counter[0];
  const std::uint64_t second = std::uint64_t{0xCD9E8D57} * counter[2];
  return {static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0],
          static_cast<std::uint32_t>(second),
          static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1],
          static_cast<std::uint32_t>(first)};
}

constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    counter = philox_round(counter, key);
    key[0] += 0x9E3779B9;  // Weyl sequences: the golden ratio, sqrt(3) - 1
    key[1] += 0xBB67AE85;
  }
  return counter;
}

}  // namespace real
