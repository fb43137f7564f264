// The quantities of a budget as text: a number and a unit, both required.
#pragma once

#include <string>
#include <string_view>

#include "sim/base/quantity.hpp"
#include "sim/economics/run_model.hpp"

namespace sim {

struct Power {
  double watts = 0;
};
struct Money {
  double amount = 0;
  std::string currency;  // three capital letters: USD
};

inline double in_days(Seconds time) {
  return time.count() / 86400;
}

// "10 min", "50000 h", "60 d", "5 y" (of 365 days), "never". Beyond what parse_duration can hold.
Parsed<Seconds> parse_time(std::string_view text);
// "700 W", "10.2 kW".
Parsed<Power> parse_power(std::string_view text);
// "2.50 USD".
Parsed<Money> parse_money(std::string_view text);

// Text that parses to exactly the same value, in the largest unit in which it is short.
std::string exact_text(Seconds value);
std::string exact_text(Power value);
std::string exact_text(const Money& value);
std::string exact_text(Bandwidth value);
std::string exact_text(Bytes value);

}  // namespace sim
