// Numbers and words as tables and messages for people show them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"

namespace sim {

// One division, so that the double nearest to the exact value comes out: 100 ms are 0.1 s.
inline double in_seconds(Duration value) {
  return static_cast<double>(value.count()) / 1e12;
}

std::string grouped(std::int64_t value);  // 16,384
std::string grouped(std::uint64_t value);
inline std::string grouped(int value) {
  return grouped(std::int64_t{value});
}
inline std::string grouped(std::uint32_t value) {
  return grouped(std::uint64_t{value});
}
std::string precise(Duration value);                  // 4 digits: 5.634 s, 45.51 ms
std::string range_text(Duration low, Duration high);  // 3 digits, one unit: 6.08 to 6.86 s
std::string significant(double value);                // 4 digits: 226.4, 3.708 million
std::string scaled_count(std::int64_t value);         // 405.9 billion

std::string title_of(std::string_view word);  // gathered_parameters -> gathered parameters
std::vector<std::string> wrapped(std::string_view text, std::size_t width);
std::string csv_field(const std::string& text);  // RFC 4180: quoted where needed, quotes doubled
std::string markdown_field(const std::string& text);

}  // namespace sim
