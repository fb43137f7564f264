#include "sim/config/scalars.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "sim/config/characters.hpp"

namespace sim {
namespace {

std::string_view without_sign(std::string_view text) {
  return !text.empty() && (text.front() == '-' || text.front() == '+') ? text.substr(1) : text;
}

// from_chars knows no plus sign.
std::string_view without_plus(std::string_view text) {
  return text.starts_with('+') ? text.substr(1) : text;
}

bool looks_octal(std::string_view unsigned_text) {
  return unsigned_text.size() > 1 && unsigned_text[0] == '0' && is_digit(unsigned_text[1]);
}

bool names_no_number(std::string_view unsigned_text) {
  std::string lower{unsigned_text};
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  constexpr std::array<std::string_view, 6> names{".nan", ".inf", "nan", "inf", "infinity", "-inf"};
  return std::ranges::find(names, lower) != names.end();
}

}  // namespace

ParsedNumber<double> parse_real(std::string_view text) {
  const std::string_view digits = without_sign(text);
  if (names_no_number(digits)) return NumberProblem::not_finite;
  if (digits.empty() || !is_digit(digits.front())) return NumberProblem::not_a_number;
  double value = 0;
  const std::string_view number = without_plus(text);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (end != number.data() + number.size()) return NumberProblem::not_a_number;
  if (looks_octal(digits)) return NumberProblem::octal_looking;
  if (error == std::errc::result_out_of_range) return NumberProblem::too_large;
  if (error != std::errc{}) return NumberProblem::not_a_number;
  return value;
}

ParsedNumber<std::int64_t> parse_integer(std::string_view text, bool allow_exponent) {
  const std::string_view digits = without_sign(text);
  if (names_no_number(digits)) return NumberProblem::not_finite;
  if (digits.empty()) return NumberProblem::not_a_number;
  if (!std::ranges::all_of(digits, is_digit)) {
    if (!allow_exponent) return NumberProblem::not_a_number;
    const ParsedNumber<double> real = parse_real(text);
    const double* value = std::get_if<double>(&real);
    if (value == nullptr) return std::get<NumberProblem>(real);
    if (*value != std::trunc(*value)) return NumberProblem::not_a_number;
    // Beyond 2^53 a double no longer holds every integer.
    if (std::abs(*value) > 0x1p53) return NumberProblem::too_large;
    return static_cast<std::int64_t>(*value);
  }
  if (looks_octal(digits)) return NumberProblem::octal_looking;
  std::int64_t value = 0;
  const std::string_view number = without_plus(text);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc{}) return NumberProblem::too_large;
  return value;
}

}  // namespace sim
