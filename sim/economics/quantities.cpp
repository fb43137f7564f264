#include "sim/economics/quantities.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>

namespace sim {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
// Largest first.
constexpr std::array time_units{Unit{"y", 365 * 86400.0}, Unit{"d", 86400}, Unit{"h", 3600},
                                Unit{"min", 60}, Unit{"s", 1}};
constexpr std::array power_units{Unit{"MW", 1e6}, Unit{"kW", 1e3}, Unit{"W", 1}};
constexpr std::array bandwidth_units{Unit{"TB/s", 1e12}, Unit{"GB/s", 1e9}, Unit{"MB/s", 1e6},
                                     Unit{"B/s", 1}};
constexpr std::array byte_units{Unit{"TB", 1e12}, Unit{"GB", 1e9}, Unit{"MB", 1e6}, Unit{"B", 1}};

struct Amount {
  double number = 0;
  std::string_view unit;
};

// "2.5 h" as 2.5 and "h"; nothing for text that does not begin with a digit or overflows.
std::optional<Amount> split(std::string_view text) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  Amount amount;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount.number);
  if (error != std::errc{} || !std::isfinite(amount.number)) return std::nullopt;
  amount.unit = text.substr(static_cast<std::size_t>(end - text.data()));
  amount.unit.remove_prefix(std::min(amount.unit.find_first_not_of(' '), amount.unit.size()));
  return amount;
}

QuantityError refusal(std::string_view text, std::string_view what, std::string_view example) {
  constexpr std::size_t longest = 40;
  return {fmt::format("'{}{}' is no {}: write a number and a unit, such as {}",
                      text.substr(0, longest), text.size() > longest ? "..." : "", what, example)};
}

std::optional<double> in_units(std::string_view text, std::span<const Unit> units) {
  const std::optional<Amount> amount = split(text);
  if (!amount) return std::nullopt;
  const auto unit = std::find_if(units.begin(), units.end(),
                                 [&](const Unit& known) { return known.name == amount->unit; });
  if (unit == units.end()) return std::nullopt;
  const double value = amount->number * unit->factor;
  return std::isfinite(value) ? std::optional{value} : std::nullopt;
}

std::string exact(double value, std::span<const Unit> units) {
  constexpr std::size_t short_number = 8;
  for (const Unit& unit : units) {
    const double amount = value / unit.factor;
    std::string number = fmt::format("{}", amount);
    if (amount >= 1 && number.size() <= short_number && amount * unit.factor == value)
      return number + ' ' + std::string{unit.name};
  }
  return fmt::format("{} {}", value, units.back().name);
}

}  // namespace

Parsed<Seconds> parse_time(std::string_view text) {
  if (text == "never") return never;
  if (const auto value = in_units(text, time_units)) return Seconds{*value};
  return refusal(text, "time", "10 min, 500 h or 60 d (allowed: s, min, h, d, y)");
}

Parsed<Power> parse_power(std::string_view text) {
  if (const auto value = in_units(text, power_units)) return Power{*value};
  return refusal(text, "power", "700 W (allowed: W, kW, MW)");
}

Parsed<Money> parse_money(std::string_view text) {
  const std::optional<Amount> amount = split(text);
  const auto capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (amount && amount->unit.size() == 3 && std::ranges::all_of(amount->unit, capital))
    return Money{amount->number, std::string{amount->unit}};
  return refusal(text, "sum of money", "2.50 USD (any currency of three capital letters)");
}

std::string exact_text(Seconds value) {
  return value == never ? "never" : exact(value.count(), time_units);
}
std::string exact_text(Power value) {
  return exact(value.watts, power_units);
}
std::string exact_text(const Money& value) {
  return fmt::format("{} {}", value.amount, value.currency);
}
std::string exact_text(Bandwidth value) {
  return exact(value.in_bytes_per_second(), bandwidth_units);
}
std::string exact_text(Bytes value) {
  return exact(static_cast<double>(value.count()), byte_units);
}

}  // namespace sim
