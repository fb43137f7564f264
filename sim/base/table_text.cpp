#include "sim/base/table_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sim {

std::string grouped(std::uint64_t value) {
  const std::string digits = std::to_string(value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string grouped(std::int64_t value) {
  std::string text = value < 0 ? "-" : "";
  text += grouped(static_cast<std::uint64_t>(value < 0 ? -value : value));
  return text;
}

namespace {

struct TimeUnit {
  std::int64_t ticks;
  const char* name;
};
// The largest of which `value` has one.
TimeUnit unit_of(Duration value) {
  for (const TimeUnit& unit : {TimeUnit{1'000'000'000'000, "s"}, TimeUnit{1'000'000'000, "ms"},
                               TimeUnit{1'000'000, "us"}, TimeUnit{1'000, "ns"}})
    if (value.count() >= unit.ticks) return unit;
  return {1, "ps"};
}
double amount_of(Duration value, const TimeUnit& unit) {
  return static_cast<double>(value.count()) / static_cast<double>(unit.ticks);
}

// The value in so many digits, zeros at the end too: 5.630, 45.51. Whole numbers have all of
// theirs, in groups: 1,287. REQUIRES: `value` is 0, or at least 0.1.
std::string digits_of(double value, int count) {
  const std::string rounded = fmt::format("{:.{}e}", value, count - 1);
  const int exponent = value > 0 ? std::stoi(rounded.substr(rounded.find('e') + 1)) : 0;
  if (exponent >= count - 1) return grouped(static_cast<std::int64_t>(std::llround(value)));
  return fmt::format("{:.{}f}", value, count - 1 - exponent);
}

}  // namespace

std::string precise(Duration value) {
  if (value == Duration{}) return "0 s";
  const TimeUnit unit = unit_of(value);
  if (unit.ticks == 1) return fmt::format("{} ps", value.count());
  return fmt::format("{} {}", digits_of(amount_of(value, unit), 4), unit.name);
}

std::string range_text(Duration low, Duration high) {
  const TimeUnit unit = unit_of(high);
  return fmt::format("{} to {} {}", digits_of(amount_of(low, unit), 3),
                     digits_of(amount_of(high, unit), 3), unit.name);
}

std::string significant(double value) {
  if (value >= 1e15) return fmt::format("{:.3e}", value);
  if (value >= 1e12) return fmt::format("{:.4g} trillion", value / 1e12);
  if (value >= 1e9) return fmt::format("{:.4g} billion", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.4g} million", value / 1e6);
  if (value >= 9999.5) return grouped(static_cast<std::int64_t>(std::llround(value)));
  return fmt::format("{:.4g}", value);
}

std::string scaled_count(std::int64_t value) {
  if (value >= 1'000'000'000)
    return fmt::format("{:.2f} billion", static_cast<double>(value) / 1e9);
  if (value >= 1'000'000) return fmt::format("{:.2f} million", static_cast<double>(value) / 1e6);
  return grouped(value);
}

std::string title_of(std::string_view word) {
  std::string text{word};
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  while (text.size() > width) {
    std::size_t cut = text.rfind(' ', width);
    if (cut == std::string_view::npos || text.find_first_not_of(' ') > cut)
      cut = text.find(' ', width);
    if (cut == std::string_view::npos) break;
    lines.emplace_back(text.substr(0, cut));
    text.remove_prefix(std::min(text.find_first_not_of(' ', cut), text.size()));
  }
  if (!text.empty()) lines.emplace_back(text);
  return lines;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text)
    quoted += c == '"' ? std::string{"\"\""} : std::string{c};
  return quoted + '"';
}

std::string markdown_field(const std::string& text) {
  std::string safe;
  for (const char c : text)
    safe += c == '|' ? std::string{"\\|"} : std::string{c};
  return safe;
}

}  // namespace sim
