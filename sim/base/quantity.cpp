#include "sim/base/quantity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "sim/base/input_error.hpp"

namespace sim {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;  // in the base unit of its table: bytes, bits or bytes per second, ps, ...
};

constexpr std::int64_t kilo = 1'000;
constexpr std::int64_t mega = 1'000'000;
constexpr std::int64_t giga = 1'000'000'000;
constexpr std::int64_t tera = 1'000'000'000'000;
constexpr std::int64_t peta = 1'000'000'000'000'000;
constexpr std::int64_t exa = 1'000'000'000'000'000'000;

constexpr std::array byte_units{
    Unit{"B", 1},
    Unit{"KB", kilo},
    Unit{"MB", mega},
    Unit{"GB", giga},
    Unit{"TB", tera},
    Unit{"PB", peta},
    Unit{"KiB", std::int64_t{1} << 10},
    Unit{"MiB", std::int64_t{1} << 20},
    Unit{"GiB", std::int64_t{1} << 30},
    Unit{"TiB", std::int64_t{1} << 40},
    Unit{"PiB", std::int64_t{1} << 50},
};
// In bits per second, so that every factor is an integer.
constexpr std::array bandwidth_units{
    Unit{"bps", 1},
    Unit{"Kbps", kilo},
    Unit{"Mbps", mega},
    Unit{"Gbps", giga},
    Unit{"Tbps", tera},
    Unit{"B/s", 8},
    Unit{"KB/s", 8 * kilo},
    Unit{"MB/s", 8 * mega},
    Unit{"GB/s", 8 * giga},
    Unit{"TB/s", 8 * tera},
    Unit{"KiB/s", std::int64_t{8} << 10},
    Unit{"MiB/s", std::int64_t{8} << 20},
    Unit{"GiB/s", std::int64_t{8} << 30},
    Unit{"TiB/s", std::int64_t{8} << 40},
};
constexpr std::array duration_units{
    Unit{"ps", 1},   Unit{"ns", kilo},       Unit{"us", mega},       Unit{"ms", giga},
    Unit{"s", tera}, Unit{"min", 60 * tera}, Unit{"h", 3600 * tera},
};
constexpr std::array flop_rate_units{
    Unit{"FLOP/s", 1},     Unit{"MFLOP/s", mega}, Unit{"GFLOP/s", giga},
    Unit{"TFLOP/s", tera}, Unit{"PFLOP/s", peta}, Unit{"EFLOP/s", exa},
};
constexpr std::array flop_units{
    Unit{"FLOP", 1},     Unit{"MFLOP", mega}, Unit{"GFLOP", giga},
    Unit{"TFLOP", tera}, Unit{"PFLOP", peta}, Unit{"EFLOP", exa},
};

// How other programs write the same units. Case carries meaning (Gb is not GB), so none of these is
// taken silently: the error names what was probably meant.
struct Spelling {
  std::string_view foreign;
  std::string_view ours;
};
constexpr std::array spellings{
    Spelling{"kB", "KB"},
    Spelling{"Gb/s", "Gbps"},
    Spelling{"Mb/s", "Mbps"},
    Spelling{"Tb/s", "Tbps"},
    Spelling{"Gbit/s", "Gbps"},
    Spelling{"Mbit/s", "Mbps"},
    Spelling{"GBps", "GB/s"},
    Spelling{"MBps", "MB/s"},
    Spelling{"TBps", "TB/s"},
    Spelling{"\u00b5s", "us"},
    Spelling{"\u03bcs", "us"},
    Spelling{"sec", "s"},
    Spelling{"TFLOPS", "TFLOP/s"},
    Spelling{"TFLOPs", "TFLOP/s"},
    Spelling{"TFlops", "TFLOP/s"},
    Spelling{"PFLOPS", "PFLOP/s"},
    Spelling{"GFLOPS", "GFLOP/s"},
    Spelling{"TFLOPS/s", "TFLOP/s"},
    Spelling{"TFLOPs/s", "TFLOP/s"},
    Spelling{"GFLOPs/s", "GFLOP/s"},
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

// For messages: bounded, because the text may be a whole file by mistake.
std::string shown(std::string_view text) {
  constexpr std::size_t limit = 40;
  if (text.size() <= limit) return fmt::format("'{}'", text);
  std::size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
    --end;
  return fmt::format("'{}...'", text.substr(0, end));
}

std::string allowed_units(std::span<const Unit> units) {
  std::string text = "allowed: ";
  for (const Unit& unit : units) {
    if (&unit != &units.front()) text += ", ";
    text += unit.name;
  }
  return text;
}

// The unit that was probably meant, empty if none comes to mind.
std::string_view meant_unit(std::string_view name, std::span<const Unit> units) {
  const auto known = [&](std::string_view wanted) {
    return std::ranges::any_of(units, [&](const Unit& unit) { return unit.name == wanted; });
  };
  for (const Spelling& spelling : spellings)
    if (spelling.foreign == name && known(spelling.ours)) return spelling.ours;
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  for (const Unit& unit : units)
    if (std::ranges::equal(unit.name, name, {}, lower, lower)) return unit.name;
  return {};
}

// A decimal number as written: digits * 10^exponent, exactly.
struct Decimal {
  std::uint64_t digits = 0;
  int exponent = 0;
};

struct Amount {
  Decimal decimal;
  double number = 0;
  std::int64_t factor = 1;
};

// Splits "12.5" out of the front of `text`; the grammar is digits [. digits] [e [sign] digits].
std::size_t number_length(std::string_view text) {
  std::size_t at = 0;
  const auto skip_digits = [&] {
    while (at < text.size() && is_digit(text[at]))
      ++at;
  };
  skip_digits();
  if (at == 0) return 0;
  if (at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1])) {
    ++at;
    skip_digits();
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    std::size_t digits = at + 1;
    if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
    if (digits < text.size() && is_digit(text[digits])) {
      at = digits;
      skip_digits();
    }
  }
  return at;
}

// nullopt when there are more digits than any measured quantity has (18), or a wild exponent.
std::optional<Decimal> to_decimal(std::string_view number) {
  Decimal decimal;
  bool fraction = false;
  int significant = 0;
  for (std::size_t at = 0; at < number.size(); ++at) {
    const char c = number[at];
    if (c == '.') {
      fraction = true;
    } else if (is_digit(c)) {
      if (significant > 0 || c != '0') ++significant;
      if (significant > 18) return std::nullopt;
      decimal.digits = decimal.digits * 10 + static_cast<std::uint64_t>(c - '0');
      if (fraction) --decimal.exponent;
    } else {
      const std::string_view rest = number.substr(number[at + 1] == '+' ? at + 2 : at + 1);
      int exponent = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), exponent);
      if (error != std::errc{} || exponent > 400 || exponent < -400) return std::nullopt;
      decimal.exponent += exponent;
      break;
    }
  }
  return decimal;
}

std::variant<Amount, QuantityError> parse_amount(std::string_view text,
                                                 std::span<const Unit> units) {
  std::string_view rest = text;
  while (!rest.empty() && is_blank(rest.front()))
    rest.remove_prefix(1);
  while (!rest.empty() && is_blank(rest.back()))
    rest.remove_suffix(1);
  if (!rest.empty() && rest.front() == '-' && number_length(rest.substr(1)) > 0)
    return QuantityError{fmt::format("{} is negative", shown(text))};
  const std::size_t length = number_length(rest);
  if (length == 0)
    return QuantityError{
        fmt::format("{} is not a number with a unit; {}", shown(text), allowed_units(units))};
  const std::string_view number = rest.substr(0, length);
  rest.remove_prefix(length);
  while (!rest.empty() && is_blank(rest.front()))
    rest.remove_prefix(1);
  if (rest.empty())
    return QuantityError{fmt::format("{} has no unit; {}", shown(text), allowed_units(units))};

  const auto unit = std::ranges::find(units, rest, &Unit::name);
  if (unit == units.end()) {
    const std::string_view meant = meant_unit(rest, units);
    return QuantityError{fmt::format(
        "{} has the unknown unit {}; {}", shown(text), shown(rest),
        meant.empty() ? allowed_units(units) : fmt::format("did you mean '{}'?", meant))};
  }
  const std::optional<Decimal> decimal = to_decimal(number);
  Amount amount;
  amount.factor = unit->factor;
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), amount.number);
  if (!decimal || error != std::errc{} || !std::isfinite(amount.number))
    return QuantityError{
        fmt::format("{} is beyond what can be represented (at most 18 digits)", shown(text))};
  amount.decimal = *decimal;
  return amount;
}

// Exact: "1.001 KB" is 1001 bytes, where double arithmetic could give 1000.9999999999999.
struct Whole {
  std::int64_t value = 0;
  bool exact = true;  // false: `value` is the nearest whole number
};

std::optional<Whole> to_whole(const Amount& amount) {
  // digits < 10^18 and factor <= 3.6 * 10^15 (an hour in ps): the product is below 2^127.
  __extension__ using Wide = unsigned __int128;
  Wide wide = Wide{amount.decimal.digits} * static_cast<std::uint64_t>(amount.factor);
  if (wide == 0) return Whole{};
  constexpr Wide limit = 9'200'000'000'000'000'000ULL;  // as duration_from_seconds
  int exponent = amount.decimal.exponent;
  for (; exponent > 0; --exponent) {
    wide *= 10;
    if (wide > limit) return std::nullopt;
  }
  bool exact = true;
  bool round_up = false;
  for (; exponent < 0 && wide > 0; ++exponent) {
    // Only the last digit dropped decides the rounding; half goes up.
    round_up = wide % 10 >= 5;
    exact = exact && wide % 10 == 0;
    wide /= 10;
  }
  if (exponent < 0) round_up = false;  // far below one half
  if (round_up) ++wide;
  if (wide > limit) return std::nullopt;
  return Whole{.value = static_cast<std::int64_t>(wide), .exact = exact};
}

QuantityError too_large(std::string_view text, std::string_view limit) {
  return {fmt::format("{} is too large; allowed: at most {}", shown(text), limit)};
}

// 12.34 -> "12.3": three significant digits, without trailing zeros.
std::string three_digits(double value) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (decimals > 0) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

// `units` ascend. The largest unit is taken in which the value is at least 1 after rounding.
std::string scaled(double value, std::span<const Unit> units) {
  const Unit* best = units.data();
  for (const Unit& unit : units)
    if (std::abs(value) / static_cast<double>(unit.factor) >= 0.9995) best = &unit;
  return fmt::format("{}{} {}", value < 0 ? "-" : "",
                     three_digits(std::abs(value) / static_cast<double>(best->factor)), best->name);
}

// A rate that is zero or tiny would make a transfer last forever, which no report can show.
constexpr double highest_bandwidth = 1e18;  // bytes per second
constexpr double highest_flop_rate = 1e24;
constexpr double highest_flops = 1e30;

}  // namespace

Parsed<Bytes> parse_bytes(std::string_view text) {
  const auto amount = parse_amount(text, byte_units);
  if (const auto* error = std::get_if<QuantityError>(&amount)) return *error;
  const std::optional<Whole> whole = to_whole(std::get<Amount>(amount));
  if (!whole || whole->value > 4'000 * peta) return too_large(text, "4000 PB");
  if (!whole->exact)
    return QuantityError{fmt::format("{} is not a whole number of bytes", shown(text))};
  return Bytes{whole->value};
}

Parsed<Bandwidth> parse_bandwidth(std::string_view text) {
  const auto parsed = parse_amount(text, bandwidth_units);
  if (const auto* error = std::get_if<QuantityError>(&parsed)) return *error;
  const Amount& amount = std::get<Amount>(parsed);
  const auto rate = Bandwidth::bits_per_second(amount.number * static_cast<double>(amount.factor));
  if (rate.in_bytes_per_second() > highest_bandwidth) return too_large(text, "1000000 TB/s");
  if (rate.in_bytes_per_second() < 1)
    return QuantityError{fmt::format("{} is too small; allowed: at least 1 B/s", shown(text))};
  return rate;
}

Parsed<Duration> parse_duration(std::string_view text) {
  const auto amount = parse_amount(text, duration_units);
  if (const auto* error = std::get_if<QuantityError>(&amount)) return *error;
  const std::optional<Whole> whole = to_whole(std::get<Amount>(amount));
  if (!whole) return too_large(text, "2500 h");
  // As duration_from_seconds(): to the nearest picosecond, but never to zero.
  const bool vanished = whole->value == 0 && std::get<Amount>(amount).decimal.digits != 0;
  return Duration{vanished ? 1 : whole->value};
}

Parsed<FlopRate> parse_flop_rate(std::string_view text) {
  const auto parsed = parse_amount(text, flop_rate_units);
  if (const auto* error = std::get_if<QuantityError>(&parsed)) return *error;
  const Amount& amount = std::get<Amount>(parsed);
  const double rate = amount.number * static_cast<double>(amount.factor);
  if (rate > highest_flop_rate) return too_large(text, "1000000 EFLOP/s");
  if (rate < 1)
    return QuantityError{fmt::format("{} is too small; allowed: at least 1 FLOP/s", shown(text))};
  return FlopRate::per_second(rate);
}

Parsed<Flops> parse_flops(std::string_view text) {
  const auto parsed = parse_amount(text, flop_units);
  if (const auto* error = std::get_if<QuantityError>(&parsed)) return *error;
  const Amount& amount = std::get<Amount>(parsed);
  const double work = amount.number * static_cast<double>(amount.factor);
  if (work > highest_flops) return too_large(text, "1e12 EFLOP");
  return Flops{work};
}

std::string to_text(Duration value) {
  if (value.count() == 0) return "0 s";
  // Seconds up to ten minutes: step times are compared in seconds.
  const bool in_seconds = std::abs(value.count()) < 600 * tera;
  return scaled(static_cast<double>(value.count()),
                std::span{duration_units}.first(in_seconds ? 5 : duration_units.size()));
}

std::string to_text(Bytes value) {
  constexpr std::array binary{byte_units[0], byte_units[6], byte_units[7],
                              byte_units[8], byte_units[9], byte_units[10]};
  return scaled(static_cast<double>(value.count()), binary);
}

std::string to_text(Bandwidth value) {
  constexpr auto decimal = std::span{bandwidth_units}.subspan(5, 5);
  return scaled(value.in_bytes_per_second() * 8, decimal);
}

std::string to_text(FlopRate value) {
  return scaled(value.in_flops_per_second(), flop_rate_units);
}

}  // namespace sim
