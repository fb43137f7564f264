// How the played GPUs behave.
#pragma once

#include <cstdint>

namespace fakes {

// How the devices run what is ready, from here on.
struct Behaviour {
  // 0: in the order of issue. Else: any stream next, by this seed; a stream may be held back long.
  std::uint64_t seed = 0;
  std::int64_t memory = std::int64_t{4} << 30;  // bytes of each device
  int capability = 90;                          // 90 for 9.0
  int driver = 13000;                           // takes CUDA up to 13.0
};
void set_behaviour(const Behaviour& behaviour);
Behaviour behaviour();

}  // namespace fakes
