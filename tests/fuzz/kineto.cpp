// Traces of the PyTorch profiler: any text is an InputError or measurements that can be fitted.
#include "sim/calibration/kineto.hpp"

#include <cstdint>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/calibration/cluster_file.hpp"
#include "tests/fuzz/support/require.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text{reinterpret_cast<const char*>(data), size};
  try {
    const sim::KinetoResult result = sim::parse_kineto({{"fuzzed", text}}, {.gpus_per_node = 2});
    for (const sim::MeasuredKernel& point : result.machine.kernels)
      require(point.time > sim::Duration{} && point.kernel.bytes >= sim::Bytes{});
    sim::measured_curves(result.machine.collectives);
    sim::fit_links(result.machine.collectives);
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
