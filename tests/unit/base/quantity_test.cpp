#include "sim/base/quantity.hpp"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/random.hpp"
#include "tests/catch.hpp"

namespace {

template <class Quantity>
Quantity value_of(const sim::Parsed<Quantity>& parsed) {
  if (const auto* error = std::get_if<sim::QuantityError>(&parsed)) FAIL(error->problem);
  return std::get<Quantity>(parsed);
}
template <class Quantity>
std::string error_of(const sim::Parsed<Quantity>& parsed) {
  const auto* error = std::get_if<sim::QuantityError>(&parsed);
  return error == nullptr ? "no error" : error->problem;
}

TEST_CASE("sizes are exact: GB is decimal, GiB binary", "[quantity]") {
  const std::vector<std::pair<std::string, std::int64_t>> cases{
      {"1 B", 1},
      {"25 MiB", 26'214'400},
      {"80 GB", 80'000'000'000},
      {"80GiB", 85'899'345'920},
      {"  1e9 B ", 1'000'000'000},
      {"1.001 KB", 1001},
      {"0.5 KiB", 512},
      {"1.5e3 B", 1500},
      {"0 B", 0},
      {"1000000000e-9 B", 1},
  };
  for (const auto& [text, bytes] : cases) {
    CAPTURE(text);
    CHECK(value_of(sim::parse_bytes(text)).count() == bytes);
  }
}

TEST_CASE("rates, times and work are read in their units", "[quantity]") {
  CHECK(value_of(sim::parse_bandwidth("400 Gbps")).in_bytes_per_second() == 50e9);
  CHECK(value_of(sim::parse_bandwidth("3.35 TB/s")).in_bytes_per_second() == 3.35e12);
  CHECK(value_of(sim::parse_bandwidth("1 GiB/s")).in_bytes_per_second() == 1073741824.0);
  CHECK(value_of(sim::parse_duration("2.5 us")) == sim::Duration{2'500'000});
  CHECK(value_of(sim::parse_duration("1 h")) == sim::Duration{3'600'000'000'000'000});
  CHECK(value_of(sim::parse_duration("0.1 ps")) == sim::Duration{1});  // never to zero
  CHECK(value_of(sim::parse_duration("1.5 ps")) == sim::Duration{2});
  CHECK(value_of(sim::parse_duration("0 s")) == sim::Duration{0});
  CHECK(value_of(sim::parse_flop_rate("989 TFLOP/s")).in_flops_per_second() == 989e12);
  CHECK(value_of(sim::parse_flops("6.5 TFLOP")).count() == 6.5e12);
}

TEST_CASE("what is wrong with a quantity is said with the allowed units", "[quantity]") {
  const std::string bytes = "allowed: B, KB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB";
  const std::string rates =
      "allowed: bps, Kbps, Mbps, Gbps, Tbps, B/s, KB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, "
      "TiB/s";
  CHECK(error_of(sim::parse_bandwidth("400")) == "'400' has no unit; " + rates);
  CHECK(error_of(sim::parse_bandwidth("0")) == "'0' has no unit; " + rates);
  CHECK(error_of(sim::parse_bandwidth("400 Gb/s")) ==
        "'400 Gb/s' has the unknown unit 'Gb/s'; did you mean 'Gbps'?");
  CHECK(error_of(sim::parse_bandwidth("400 gbps")) ==
        "'400 gbps' has the unknown unit 'gbps'; did you mean 'Gbps'?");
  CHECK(error_of(sim::parse_bandwidth("0 Gbps")) ==
        "'0 Gbps' is too small; allowed: at least 1 B/s");
  CHECK(error_of(sim::parse_bandwidth("1e12 TB/s")) ==
        "'1e12 TB/s' is too large; allowed: at most 1000000 TB/s");
  CHECK(error_of(sim::parse_bytes("12 parsecs")) ==
        "'12 parsecs' has the unknown unit 'parsecs'; " + bytes);
  CHECK(error_of(sim::parse_bytes("0.1 B")) == "'0.1 B' is not a whole number of bytes");
  CHECK(error_of(sim::parse_bytes("1e30 B")) == "'1e30 B' is too large; allowed: at most 4000 PB");
  CHECK(error_of(sim::parse_bytes("-5 MB")) == "'-5 MB' is negative");
  CHECK(error_of(sim::parse_bytes("big")) == "'big' is not a number with a unit; " + bytes);
  CHECK(error_of(sim::parse_bytes("")) == "'' is not a number with a unit; " + bytes);
  CHECK(error_of(sim::parse_bytes("nan B")) == "'nan B' is not a number with a unit; " + bytes);
  CHECK(error_of(sim::parse_bytes("0x10 B")).find("'0x10 B' has the unknown unit 'x10 B'") == 0);
  CHECK(error_of(sim::parse_bytes("1e999 B")) ==
        "'1e999 B' is beyond what can be represented (at most 18 digits)");
  CHECK(error_of(sim::parse_duration("3000 h")) ==
        "'3000 h' is too large; allowed: at most 2500 h");
  CHECK(error_of(sim::parse_duration("5 sec")) ==
        "'5 sec' has the unknown unit 'sec'; did you mean 's'?");
  CHECK(error_of(sim::parse_flop_rate("989 TFLOPS")) ==
        "'989 TFLOPS' has the unknown unit 'TFLOPS'; did you mean 'TFLOP/s'?");
}

TEST_CASE("quantities print with three digits and the unit that suits them", "[quantity]") {
  CHECK(sim::to_text(sim::Duration{12'345'678'901}) == "12.3 ms");
  CHECK(sim::to_text(sim::Duration{4'050'000'000'000}) == "4.05 s");
  CHECK(sim::to_text(sim::Duration{75'000'000'000'000}) == "75 s");
  CHECK(sim::to_text(sim::Duration{7'200'000'000'000'000}) == "2 h");
  CHECK(sim::to_text(sim::Duration{999'600}) == "1 us");
  CHECK(sim::to_text(sim::Duration{0}) == "0 s");
  CHECK(sim::to_text(sim::Duration{-1500}) == "-1.5 ns");
  CHECK(sim::to_text(sim::Bytes{1'610'612'736}) == "1.5 GiB");
  CHECK(sim::to_text(sim::Bytes{1023}) == "1023 B");
  CHECK(sim::to_text(sim::Bytes{0}) == "0 B");
  CHECK(sim::to_text(sim::Bandwidth::bytes_per_second(371e9)) == "371 GB/s");
  CHECK(sim::to_text(sim::Bandwidth::bytes_per_second(3.35e12)) == "3.35 TB/s");
  CHECK(sim::to_text(sim::FlopRate::per_second(989e12)) == "989 TFLOP/s");
  CHECK(sim::to_text(sim::FlopRate::per_second(1.979e15)) == "1.98 PFLOP/s");
}

// Three digits: a relative error of at most 0.5 in 100.
TEST_CASE("a printed quantity reads back to the printed precision", "[quantity]") {
  constexpr std::uint64_t seed = 7;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const auto ticks = static_cast<std::int64_t>(std::pow(10.0, 18.9 * sim::uniform(seed, 0, i)));
    const sim::Duration duration{ticks};
    CAPTURE(i, ticks, sim::to_text(duration));
    const auto again = value_of(sim::parse_duration(sim::to_text(duration)));
    CHECK_THAT(static_cast<double>(again.count()), WithinRel(static_cast<double>(ticks), 0.0051));
    const auto rate =
        sim::Bandwidth::bytes_per_second(1.0 + static_cast<double>(ticks % (1LL << 50)));
    CHECK_THAT(value_of(sim::parse_bandwidth(sim::to_text(rate))).in_bytes_per_second(),
               WithinRel(rate.in_bytes_per_second(), 0.0051));
    const auto flops = sim::FlopRate::per_second(rate.in_bytes_per_second());
    CHECK_THAT(value_of(sim::parse_flop_rate(sim::to_text(flops))).in_flops_per_second(),
               WithinRel(flops.in_flops_per_second(), 0.0051));
  }
}

}  // namespace
