// The file of prices.
#include <filesystem>
#include <fstream>
#include <string>

#include "sim/base/input_error.hpp"
#include "sim/capacity/wish.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace sim;

namespace {

PriceList prices_of(const std::string& text) {
  const std::filesystem::path file = test::temporary_path("prices.yaml");
  std::ofstream{file} << text;
  try {
    const PriceList prices = load_prices(file.string());
    std::filesystem::remove(file);
    return prices;
  } catch (...) {
    std::filesystem::remove(file);
    throw;
  }
}

}  // namespace

TEST_CASE("prices: of GPU-hours by cluster, and of energy, in one currency") {
  const PriceList prices =
      prices_of("gpu_hour:\n  dgx-h100: 2.50 USD\n  mi300x-8: 2 USD\nkwh: 0.08 USD\n");
  CHECK(prices.currency == "USD");
  CHECK(prices.gpu_hour.at("dgx-h100") == 2.5);
  CHECK(prices.gpu_hour.at("mi300x-8") == 2);
  CHECK(prices.kwh == 0.08);
}

TEST_CASE("prices: mistakes are told") {
  for (const auto& [text, what] :
       {std::pair{"gpu_hour:\n  dgx-h100: 2.50\n", "USD"},
        std::pair{"gpu_hour:\n  a: 2 USD\n  b: 2 EUR\n", "one currency"},
        std::pair{"gpu_hours:\n  a: 2 USD\n", "gpu_hour"}, std::pair{"[]", "object"}}) {
    INFO(text);
    try {
      prices_of(text);
      FAIL("no error");
    } catch (const InputError& error) {
      CHECK_THAT(std::string{error.what()}, contains_text(what));
    }
  }
}
