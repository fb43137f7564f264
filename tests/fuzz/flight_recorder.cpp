// Dumps of the Flight Recorder: any texts are an InputError or a report that can be told.
#include "sim/trace/flight_recorder.hpp"

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "tests/fuzz/support/require.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text{reinterpret_cast<const char*>(data), size};
  // Two ranks: the lines before and behind "---", or the same text twice.
  const std::size_t cut = text.find("\n---\n");
  const std::string first = text.substr(0, cut);
  const std::string second = cut == std::string::npos ? text : text.substr(cut + 5);
  try {
    const sim::HangReport report =
        sim::parse_hangs({{"fuzzed_rank_0", first}, {"fuzzed_rank_1", second}});
    for (const sim::HangFinding& finding : report.findings)
      require(finding.group < report.groups.size() && !finding.ranks.empty());
    require(!sim::text_of(report).empty());
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
