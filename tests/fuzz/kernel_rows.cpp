// Tables of kernels: any text is an InputError or rows that can be forecast.
#include "sim/calibration/kernel_rows.hpp"

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/calibration/fit.hpp"
#include "tests/fuzz/support/require.hpp"

using fuzz::require;

namespace {

// A device with rates for all formats and more SMs than any.
sim::Device device() {
  sim::Device made = sim::host_base_device();
  made.sms = 1024;
  for (auto& model : made.gemm)
    model = made.require_gemm(sim::DType::fp32);
  made.flash_attention_2 = made.attention;
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream text{std::string{reinterpret_cast<const char*>(data), size}};
  try {
    sim::KernelRowsOfFiles rows;
    rows.all = sim::parse_kernel_file(text, "fuzzed").rows;
    for (const sim::KernelMeasurement& row : rows.all)
      require(row.sms > 0 && row.median >= sim::Duration{} && row.kernel.bytes >= sim::Bytes{});
    require(!sim::forecast_csv(rows, device(), 1).empty());
    require(!sim::forecast_table(rows, device()).empty());
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
