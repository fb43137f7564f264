// The message that a rank sends of the parameters that it owns when groups that train apart meet
// (Layout::local_steps).
#pragma once

#include <cstdint>

#include "sim/base/units.hpp"
#include "sim/layout/layout.hpp"

namespace sim {

struct OuterMessage {
  Bytes all{};
  // Quantised: a piece for each group, of so many numbers (the last may have fewer) and their
  // scales.
  Bytes piece{};
  std::int64_t part = 0;
  int pieces = 1;
};

// REQUIRES: layout.trains_apart().
OuterMessage message_of(const Layout& layout, std::int64_t parameters);

constexpr int bits_of(OuterQuantization quantization) {
  return quantization == OuterQuantization::int8 ? 8 : 4;
}

}  // namespace sim
