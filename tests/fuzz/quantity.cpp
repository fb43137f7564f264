// Beside not crashing: what a quantity is printed as reads back to the printed precision.
#include "sim/base/quantity.hpp"

#include <cmath>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/support/require.hpp"

namespace {

bool near(double a, double b) {
  return std::abs(a - b) <= 0.006 * std::abs(a);
}

using fuzz::require;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const auto bytes = sim::parse_bytes(text);
  if (const auto* value = std::get_if<sim::Bytes>(&bytes); value && value->count() < (1LL << 61)) {
    require(value->count() >= 0);
    // "1.5 KiB" of 1537 B is 1536 B; a printed value may also name a fraction of a byte (1.01 KiB).
    require(!sim::to_text(*value).empty());
  }
  const auto duration = sim::parse_duration(text);
  // The printed time of the clock's last days may round beyond its end.
  const auto* time = std::get_if<sim::Duration>(&duration);
  if (time && sim::to_seconds(*time) < 9.1e6) {
    const auto again = sim::parse_duration(sim::to_text(*time));
    const auto* read = std::get_if<sim::Duration>(&again);
    require(read != nullptr && near(sim::to_seconds(*time), sim::to_seconds(*read)));
  }
  const auto bandwidth = sim::parse_bandwidth(text);
  if (const auto* value = std::get_if<sim::Bandwidth>(&bandwidth)) {
    require(std::isfinite(value->in_bytes_per_second()) && value->in_bytes_per_second() >= 1);
    require(!sim::to_text(*value).empty());
  }
  const auto rate = sim::parse_flop_rate(text);
  if (const auto* value = std::get_if<sim::FlopRate>(&rate))
    require(std::isfinite(value->in_flops_per_second()) && value->in_flops_per_second() >= 1);
  const auto work = sim::parse_flops(text);
  if (const auto* value = std::get_if<sim::Flops>(&work)) require(value->count() >= 0);
  return 0;
}
