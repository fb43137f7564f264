#include "sim/base/units.hpp"

#include <limits>
#include <stdexcept>

#include "sim/base/check.hpp"
#include "sim/base/dtype.hpp"
#include "tests/catch.hpp"

namespace {

using namespace sim::literals;  // NOLINT(google-build-using-namespace): literals
using sim::Duration;

// 50 B / 50 GB/s is 1 ns, but 50/50e9*1e12 is 1000.0000000000001 in double: rounding up says 1001.
static_assert(sim::Bytes{50} / 50_GBps == Duration{1000});
static_assert(400_Gbps == 50_GBps);
static_assert(2_GiB == 2048_MiB);
static_assert(sim::duration_from_seconds(0) == Duration{0});
static_assert(sim::duration_from_seconds(1e-30) == Duration{1});
static_assert(sim::duration_from_seconds(1.5e-12) == Duration{2});
static_assert(sim::duration_from_seconds(1.4e-12) == Duration{1});

TEST_CASE("a size over a rate is a time", "[units]") {
  // 7.5 GB at 100 Gbit/s = 12.5 GB/s: 0.6 s.
  CHECK(sim::Bytes{7'500'000'000} / 100_Gbps == Duration{600'000'000'000});
  CHECK(sim::Flops{989e12} / sim::FlopRate::per_second(989e12) == 1s);
}

TEST_CASE("what is no length of time is refused", "[units]") {
  CHECK_THROWS_AS(sim::duration_from_seconds(-1e-12), std::overflow_error);
  CHECK_THROWS_AS(sim::duration_from_seconds(1e8), std::overflow_error);
  CHECK_THROWS_AS(sim::duration_from_seconds(std::numeric_limits<double>::quiet_NaN()),
                  std::overflow_error);
  CHECK_THROWS_AS(sim::Bytes{1} / sim::Bandwidth::bytes_per_second(0), std::overflow_error);
}

TEST_CASE("a failed check names expression and values", "[units]") {
  const auto fail = [](int left) { SIM_CHECK(left == 0, "left:", left); };
  CHECK_NOTHROW(fail(0));
  std::string text;
  try {
    fail(3);
  } catch (const std::logic_error& error) {
    text = error.what();
  }
  CHECK(text.find("internal check failed: left == 0") == 0);
  CHECK(text.find("left: 3") != std::string::npos);
}

TEST_CASE("every number format has a word and a size", "[units]") {
  for (const auto& entry : sim::words_of(sim::DType{})) {
    CHECK(sim::from_word<sim::DType>(entry.text) == entry.value);
    CHECK(sim::word(entry.value) == entry.text);
    CHECK(sim::bytes_of(entry.value) >= 1);
  }
  CHECK(!sim::from_word<sim::DType>("float32").has_value());
}

}  // namespace
