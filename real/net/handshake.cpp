#include "real/net/handshake.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <stdexcept>
#include <string_view>
#include <vector>

#include "sim/base/check.hpp"

namespace real {
namespace {

Nonce random_nonce() {
  Nonce nonce;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), nonce.size()) != 1)
    throw std::runtime_error{"the system has no random numbers for a connection"};
  return nonce;
}

// The numbers have one size each, so no two lists of parts are the same bytes.
Proof proof_of(std::string_view role, const Nonce& guest, const Nonce& host,
               std::span<const std::byte> said, const std::string& secret) {
  std::vector<std::byte> message;
  for (const std::span<const std::byte> part :
       {std::as_bytes(std::span{role}), std::span<const std::byte>{guest},
        std::span<const std::byte>{host}, said})
    message.insert(message.end(), part.begin(), part.end());
  Proof proof;
  SIM_CHECK(HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                 reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                 reinterpret_cast<unsigned char*>(proof.data()), nullptr) != nullptr);
  return proof;
}

}  // namespace

Greeting greeting() {
  return {.nonce = random_nonce()};
}

Challenge challenge_to(const Greeting& guest, const std::string& secret) {
  Challenge challenge{.nonce = random_nonce()};
  challenge.proof = proof_of("stepcast host", guest.nonce, challenge.nonce, {}, secret);
  return challenge;
}

bool is_proven(const Challenge& host, const Greeting& guest, const std::string& secret) {
  return is_equal(host.proof, proof_of("stepcast host", guest.nonce, host.nonce, {}, secret));
}

Proof guest_proof(const Greeting& guest, const Challenge& host, std::span<const std::byte> said,
                  const std::string& secret) {
  return proof_of("stepcast guest", guest.nonce, host.nonce, said, secret);
}

bool is_equal(const Proof& a, const Proof& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace real
