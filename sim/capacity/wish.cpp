#include "sim/capacity/wish.hpp"

#include <cmath>
#include <stdexcept>

namespace sim {

double parse_tokens(const std::string& text) {
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
  }
  if (used != text.size() || !(value >= 1 && value <= 1e18))
    throw std::invalid_argument{"expected a number of tokens from 1 to 1e18, as 2e12"};
  return value;
}

Seconds parse_deadline(const std::string& text) {
  const Parsed<Seconds> parsed = parse_time(text);
  if (const auto* wrong = std::get_if<QuantityError>(&parsed))
    throw std::invalid_argument{wrong->problem};
  const auto deadline = std::get<Seconds>(parsed);
  if (!(deadline.count() > 0) || !std::isfinite(deadline.count()))
    throw std::invalid_argument{"expected a time above 0, as 30d; without a deadline leave it out"};
  return deadline;
}

}  // namespace sim
