// Quantities from text: a number and a unit, both required. "GB" is 1e9 bytes, "GiB" is 2^30
// bytes, "Gbps" is 1e9 bits per second, "GB/s" is 1e9 bytes per second. A number without a unit is
// refused: every simulator that guessed one got users hurt.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "sim/base/units.hpp"

namespace sim {

struct QuantityError {
  std::string problem;  // the error, and the units that are allowed
};

template <class Quantity>
using Parsed = std::variant<Quantity, QuantityError>;

// "25 MiB", "1e9 B", "80 GB". Fractions of a byte are refused.
Parsed<Bytes> parse_bytes(std::string_view text);
// "400 Gbps", "50 GB/s", "3.35 TB/s".
Parsed<Bandwidth> parse_bandwidth(std::string_view text);
// "2.5 us", "10 ns", "1 s".
Parsed<Duration> parse_duration(std::string_view text);
// "989 TFLOP/s".
Parsed<FlopRate> parse_flop_rate(std::string_view text);
// "6.5 TFLOP", "4.1 GFLOP".
Parsed<Flops> parse_flops(std::string_view text);

// Text with 3-4 significant digits and the unit that suits the size: "12.3 ms", "1.5 GiB",
// "371 GB/s", "4.05 s". For reports; parse(to_text(x)) is x to that precision.
std::string to_text(Duration value);
std::string to_text(Bytes value);
std::string to_text(Bandwidth value);
std::string to_text(FlopRate value);

}  // namespace sim
