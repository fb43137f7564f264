// Figures of the memory forecast's error: any text is an InputError or a figure for every framework
// and schedule.
#include "sim/report/memory_error.hpp"

#include <cstdint>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "tests/fuzz/support/require.hpp"
#include "tests/fuzz/support/scratch_file.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::ScratchFile file;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  try {
    const sim::MemoryErrors errors = sim::MemoryErrors::load(file.write(text));
    for (const auto& framework : sim::words_of(sim::FrameworkName{})) {
      for (const auto& schedule : sim::words_of(sim::Schedule{})) {
        const sim::MemoryError& error = errors.of(framework.value, schedule.value);
        require(error.fraction >= 0 && error.rows >= 1);
        const sim::Bytes most = sim::most_within(error.fraction, sim::Bytes{1'000'000});
        require(most >= sim::Bytes{} && most <= sim::Bytes{1'000'000});
      }
    }
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
