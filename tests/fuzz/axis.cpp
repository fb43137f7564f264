// The values of a sweep's axis, and values that what-ifs scale: what is accepted is a list without
// doubles, which reads back as itself.
#include "sim/sweep/axis.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sim/config/change.hpp"
#include "tests/fuzz/support/require.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const std::string half = sim::scaled_text(text, 0.5);
  require(!half.starts_with("nan") && !half.starts_with("inf"));
  try {
    const std::vector<std::string> values = sim::axis_values(text);
    require(!values.empty() && values.size() <= sim::most_values);
    require(sim::axis_values(fmt::format("{}", fmt::join(values, ","))) == values);
  } catch (const std::invalid_argument& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
