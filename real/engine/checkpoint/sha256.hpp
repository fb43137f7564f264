// SHA-256 (FIPS 180-4): whether a checkpoint is what was written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace real {

class Sha256 {
 public:
  using Digest = std::array<std::uint8_t, 32>;
  void update(std::span<const std::byte> data);
  Digest finish();  // once

 private:
  void block(const std::uint8_t* data);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> pending_{};
  std::uint64_t length_ = 0;  // bytes so far
};

std::string hex(const Sha256::Digest& digest);
std::string sha256_of(std::span<const std::byte> data);

}  // namespace real
