// A transport that drops messages and sends them again: of another one, each message with a chance
// of its own, drawn from a seed. What arrives is the same, in the same order, but later.
#pragma once

#include <chrono>
#include <memory>

#include "real/net/transport.hpp"

namespace real {

struct Drops {
  double rate = 0;  // chance of a message, and of each time that it is sent again; below 1
  std::chrono::nanoseconds timeout{};  // until it is sent again
  std::uint64_t seed = 0;
};

// `inner` outlives it, and nobody else uses it meanwhile.
std::unique_ptr<Transport> make_dropping_transport(Transport& inner, const Drops& drops);

}  // namespace real
