#pragma once

#include <cstdint>
#include <cstdlib>

namespace sim::test {

// chosen() is the whole number that an environment variable has, or else `otherwise`.
inline std::uint64_t chosen(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace sim::test
