// Logs of nccl-tests: any text is an InputError or points that make curves.
#include "sim/calibration/nccl_tests.hpp"

#include <cstdint>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/calibration/cluster_file.hpp"
#include "tests/fuzz/support/require.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  try {
    const sim::NcclTestsLog log = sim::parse_nccl_tests(
        text, "fuzzed", {.collective = "all_reduce", .ranks = {}, .nodes = {}});
    for (const sim::MeasuredCurve& curve : sim::measured_curves(log.points))
      require(!curve.points.empty() && curve.ranks >= 2);
    sim::fit_links(log.points);
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
