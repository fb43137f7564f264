// Records of timelines: any text is an InputError or a record that writes, reads back and compares.
#include "sim/timeline/record.hpp"

#include <cstdint>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/timeline/compare.hpp"
#include "tests/fuzz/support/require.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  try {
    const sim::Record record = sim::parse_record(text, "fuzzed");
    const sim::Record again = sim::parse_record(sim::to_text(record), "again");
    require(sim::to_text(again) == sim::to_text(record));
    require(sim::same_work(record, again).same);
    require(!sim::comparison_table(sim::compare(record, again), false).empty());
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
