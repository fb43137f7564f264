// Device files: any text is an InputError or a device whose measured kernels are sorted, each once.
#include "sim/topology/device.hpp"

#include <cstdint>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "tests/fuzz/support/require.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  try {
    const sim::Device device = sim::parse_device(text, "fuzzed");
    require(device.sms >= 1 && device.memory > device.reserved);
    for (std::size_t i = 1; i < device.measured_kernels.size(); ++i)
      require(device.measured_kernels[i - 1].shape < device.measured_kernels[i].shape);
    for (const sim::KernelTime& row : device.measured_kernels)
      require(row.time > sim::Duration{});
    require(sim::restricted_to_sms(device, 1).sms == 1);
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
