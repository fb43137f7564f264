// The expectations of a fuzz target on every input.
#pragma once

namespace fuzz {

inline void require(bool condition) {
  if (!condition) __builtin_trap();
}

}  // namespace fuzz
