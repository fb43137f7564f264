// Our own invariants. SIM_CHECK stays on in release builds and throws std::logic_error with the
// expression, the place and the values given: a failed check is a bug of this program, never of
// the user's input.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace sim {

template <class... Values>
[[noreturn]] void check_failed(const char* expression, const char* file, int line,
                               const Values&... values) {
  std::ostringstream text;
  text << "internal check failed: " << expression << " at " << file << ':' << line;
  ((text << ' ' << values), ...);
  throw std::logic_error(text.str());
}

}  // namespace sim

#define SIM_CHECK(condition, ...)                                                     \
  do {                                                                                \
    if (!(condition))                                                                 \
      ::sim::check_failed(#condition, __FILE__, __LINE__ __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)
