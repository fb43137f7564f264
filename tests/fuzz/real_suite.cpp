// Suites of real runs: any text is an InputError or scenarios that can be named and overridden.
#include "sim/scores/real/real_suite.hpp"

#include <cstdint>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "tests/fuzz/support/require.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  try {
    const sim::RealSuite suite = sim::parse_real_suite(text, "fuzzed");
    require(!suite.scenarios.empty() && suite.ranks >= 1);
    for (const sim::SuiteScenario& scenario : suite.scenarios) {
      require(scenario.name.find('/') == std::string::npos && scenario.name.front() != '.');
      for (const std::string& set : sim::overrides_of(suite, scenario))
        require(set.find('=') != std::string::npos);
    }
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
