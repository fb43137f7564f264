// The proof of a connection before it is heard.
#include "real/net/handshake.hpp"

#include "tests/catch.hpp"

using namespace real;  // NOLINT(google-build-using-namespace): a test

namespace {

constexpr const char* secret = "0123456789abcdef0123456789abcdef";

std::span<const std::byte> bytes(const std::string& text) {
  return std::as_bytes(std::span{text});
}

}  // namespace

TEST_CASE("a host is proven by the secret, for this greeting alone", "[net]") {
  const Greeting guest = greeting();
  const Challenge host = challenge_to(guest, secret);
  CHECK(is_proven(host, guest, secret));
  CHECK_FALSE(is_proven(host, guest, "another"));
  CHECK_FALSE(is_proven(host, greeting(), secret));
  Challenge changed = host;
  changed.nonce[31] ^= std::byte{1};
  CHECK_FALSE(is_proven(changed, guest, secret));
}

TEST_CASE("a guest's proof is of what it says, and no host's proof is one", "[net]") {
  const Greeting guest = greeting();
  const Challenge host = challenge_to(guest, secret);
  const Proof proof = guest_proof(guest, host, bytes("rank 1"), secret);
  CHECK(is_equal(proof, guest_proof(guest, host, bytes("rank 1"), secret)));
  CHECK_FALSE(is_equal(proof, guest_proof(guest, host, bytes("rank 2"), secret)));
  CHECK_FALSE(
      is_equal(proof, guest_proof(guest, challenge_to(guest, secret), bytes("rank 1"), secret)));
  CHECK_FALSE(is_equal(host.proof, guest_proof(guest, host, {}, secret)));
}

TEST_CASE("no two numbers are the same", "[net]") {
  CHECK(greeting().nonce != greeting().nonce);
  const Greeting guest = greeting();
  CHECK(challenge_to(guest, secret).nonce != challenge_to(guest, secret).nonce);
}
