// Suites of schemes of synchronisation: any text is an InputError or a suite that can be trained:
// names for files, a baseline without a warm-up, an odd window.
#include <cstdint>
#include <string_view>

#include "sim/convergence/suite.hpp"
#include "tests/fuzz/support/require.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  try {
    const sim::ConvergenceSuite suite = sim::parse_convergence_suite(text, "fuzzed");
    require(!suite.seeds.empty() && !suite.targets.empty() && suite.steps >= 2);
    require(suite.smoothing % 2 == 1 && suite.smoothing <= suite.steps);
    require(suite.baseline < suite.schemes.size());
    require(suite.schemes[suite.baseline].warm_up == 0);
    for (const sim::SyncScheme& scheme : suite.schemes) {
      require(scheme.name.find('/') == std::string::npos && scheme.name.front() != '.');
      require(scheme.warm_up < suite.steps);
      for (const sim::SchemeKey& key : scheme.set)
        require(key.key.find('.') != std::string::npos && !key.value.empty());
    }
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
