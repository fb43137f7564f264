#include "real/engine/checkpoint/sha256.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace real {
namespace {

// FIPS 180-4, section 4.2.2: fractional parts of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> constants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian(const std::uint8_t* data) {
  return (std::uint32_t{data[0]} << 24) | (std::uint32_t{data[1]} << 16) |
         (std::uint32_t{data[2]} << 8) | std::uint32_t{data[3]};
}

}  // namespace

// Section 6.2.2.
void Sha256::block(const std::uint8_t* data) {
  using std::rotr;
  std::array<std::uint32_t, 64> w{};
  for (std::size_t t = 0; t < 16; ++t)
    w[t] = big_endian(data + 4 * t);
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t s0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    const std::uint32_t s1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t sum1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25);
    const std::uint32_t t1 = h + sum1 + ((e & f) ^ (~e & g)) + constants[t] + w[t];
    const std::uint32_t sum0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22);
    const std::uint32_t t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::array<std::uint32_t, 8> add{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i)
    state_[i] += add[i];
}

void Sha256::update(std::span<const std::byte> data) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(data.data());
  std::size_t left = data.size();
  auto held = static_cast<std::size_t>(length_ % 64);
  length_ += left;
  while (left > 0) {
    if (held == 0 && left >= 64) {
      block(from);
      from += 64;
      left -= 64;
      continue;
    }
    const std::size_t count = std::min<std::size_t>(64 - held, left);
    std::memcpy(pending_.data() + held, from, count);
    from += count;
    left -= count;
    held += count;
    if (held < 64) return;
    block(pending_.data());
    held = 0;
  }
}

// Section 5.1.1: a one bit, zeros, and the length in bits.
Sha256::Digest Sha256::finish() {
  const std::uint64_t bits = length_ * 8;
  const std::size_t held = length_ % 64;
  std::array<std::byte, 72> padding{std::byte{0x80}};
  const std::size_t zeros = (held < 56 ? 56 : 120) - held;
  for (std::size_t i = 0; i < 8; ++i)
    padding.at(zeros + i) = static_cast<std::byte>(bits >> (56 - 8 * i));
  update(std::span{padding}.first(zeros + 8));
  Digest digest{};
  for (std::size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

std::string hex(const Sha256::Digest& digest) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : digest) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::string sha256_of(std::span<const std::byte> data) {
  Sha256 hash;
  hash.update(data);
  return hex(hash.finish());
}

}  // namespace real
