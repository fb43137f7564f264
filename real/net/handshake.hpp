// How two ends of a new connection prove to each other that they know the secret of the job, before
// anything else that they say is looked at. Room-internal.
//
//   guest -> host   Greeting    a random number
//   host -> guest   Challenge   another one, and the host's proof
//   guest -> host   Answer      the guest's proof, and who it is
//
// A proof is HMAC-SHA256 (RFC 2104, FIPS 180-4) under the secret of the prover's role, of both
// numbers, and of what the guest says of itself: it is worth nothing on another connection.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace real {

// "stepcst" and a version: another byte order or another program does not match.
inline constexpr std::uint64_t wire_magic = 0x7374657063737402;

using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

struct Greeting {
  std::uint64_t magic = wire_magic;
  Nonce nonce{};
};
struct Challenge {
  std::uint64_t magic = wire_magic;
  Nonce nonce{};
  Proof proof{};
};

// greeting and challenge_to draw their numbers. Throw std::runtime_error where the system gives
// none.
Greeting greeting();
Challenge challenge_to(const Greeting& guest, const std::string& secret);

// is_proven tells whether the host knows the secret, in a time that does not depend on its proof.
bool is_proven(const Challenge& host, const Greeting& guest, const std::string& secret);

// guest_proof is the guest's for what it says of itself; is_equal compares in constant time.
Proof guest_proof(const Greeting& guest, const Challenge& host, std::span<const std::byte> said,
                  const std::string& secret);
bool is_equal(const Proof& a, const Proof& b);

}  // namespace real
