// Traces as runs: any text, plain or in gzip, is an InputError or a run whose numbers lie in its
// tables.
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/config/gzip.hpp"
#include "sim/trace/read_trace.hpp"
#include "tests/fuzz/support/require.hpp"
#include "tests/fuzz/support/traced_run_laws.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t most_unpacked = std::size_t{1} << 20;
  const std::string_view content{reinterpret_cast<const char*>(data), size};
  try {
    const std::string text = sim::is_gzip(content)
                                 ? sim::unpack_gzip(content, "fuzzed", most_unpacked)
                                 : std::string{content};
    fuzz::check_run(sim::read_trace(*sim::open_text(text, "fuzzed")));
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
