// Traces as timelines: any text, plain or in gzip, is an InputError or kernels in order.
#include "sim/calibration/read_traces.hpp"

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/config/gzip.hpp"
#include "tests/fuzz/support/require.hpp"

using fuzz::require;

namespace {

constexpr std::size_t most_unpacked = std::size_t{1} << 20;

void check(const sim::TracedTimeline& timeline) {
  require(!timeline.ranks.empty());
  for (std::size_t i = 0; i < timeline.ranks.size(); ++i) {
    const sim::TracedRank& rank = timeline.ranks[i];
    require(!rank.kernels.empty());
    require(i == 0 || timeline.ranks[i - 1].rank < rank.rank);
    sim::TimePoint before{};
    for (const sim::TracedKernel& kernel : rank.kernels) {
      require(kernel.begin >= before && kernel.end >= kernel.begin && kernel.end <= timeline.end);
      require(kernel.bytes >= sim::Bytes{});
      before = kernel.begin;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view content{reinterpret_cast<const char*>(data), size};
  try {
    const std::string text = sim::is_gzip(content)
                                 ? sim::unpack_gzip(content, "fuzzed", most_unpacked)
                                 : std::string{content};
    check(sim::parse_traces({{"fuzzed", text}}));
    check(sim::parse_traces({{"fuzzed", text}}, 5));
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
