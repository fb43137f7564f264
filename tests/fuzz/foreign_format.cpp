// The recogniser of other programs' files: any text has a name or none, and what is told of it is
// one message.
#include "sim/config/foreign/foreign_format.hpp"

#include <cstdint>
#include <string_view>

#include "tests/fuzz/support/require.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  if (const sim::ForeignFormat* format = sim::foreign_format_of(text, true))
    require(sim::foreign_text(*format, "fuzzed", text).starts_with("fuzzed: this is "));
  return 0;
}
