#include <cstdint>
#include <string_view>

#include "tests/fuzz/support/walk.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  try {
    fuzz::walk(sim::Document::parse_yaml(text, "input.yaml"));
  } catch (const sim::InputError& error) {
    if (std::string_view{error.what()}.empty()) __builtin_trap();
  }
  return 0;
}
