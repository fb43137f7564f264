// The grammar of numbers in files.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

namespace sim {

enum class NumberProblem : std::uint8_t {
  not_a_number,
  octal_looking,  // 010: 8 for YAML 1.1, 10 for YAML 1.2, a mistake for us
  too_large,      // does not fit into the type
  not_finite,     // .nan, .inf, nan, inf
};

template <class Number>
using ParsedNumber = std::variant<Number, NumberProblem>;

// Decimal digits with an optional sign. `allow_exponent`: also whole numbers written 1e5 or 1.0.
ParsedNumber<std::int64_t> parse_integer(std::string_view text, bool allow_exponent);
// Digits with an optional sign, fraction and exponent.
ParsedNumber<double> parse_real(std::string_view text);

}  // namespace sim
