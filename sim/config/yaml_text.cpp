#include "sim/config/yaml_text.hpp"

#include <fmt/format.h>

#include <cmath>

namespace sim {
namespace {

// Six significant digits without an exponent, which quantities in files do not need.
std::string plain(double value) {
  if (value == 0) return "0";
  const int whole = static_cast<int>(std::floor(std::log10(std::abs(value)))) + 1;
  std::string text = fmt::format("{:.{}f}", value, std::max(0, 6 - whole));
  if (text.find('.') == std::string::npos) return text;
  while (text.back() == '0')
    text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

std::string yaml_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      quoted += ' ';
    else
      quoted += c;
  }
  return quoted + '"';
}

std::string yaml_duration(Duration value) {
  const std::int64_t ps = value.count();
  std::string text = fmt::format("{}.{:06}", ps / 1'000'000, ps % 1'000'000);
  while (text.back() == '0')
    text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text + " us";
}

std::string yaml_bandwidth(Bandwidth value) {
  return plain(value.in_bytes_per_second() * 1e-9) + " GB/s";
}

std::string yaml_bytes(Bytes value) {
  constexpr std::int64_t mib = std::int64_t{1} << 20;
  if (value.count() != 0 && value.count() % mib == 0)
    return fmt::format("{} MiB", value.count() / mib);
  return fmt::format("{} B", value.count());
}

std::string yaml_rate(FlopRate value) {
  return plain(value.in_flops_per_second() * 1e-12) + " TFLOP/s";
}

std::string yaml_real(double value) {
  return plain(value);
}

}  // namespace sim
