// Files of factors: any text is an InputError, or factors of each scheme and target, which can be
// written.
#include <cstdint>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/convergence/factors.hpp"
#include "tests/fuzz/support/require.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  try {
    const sim::ConvergenceFactors factors = sim::parse_factors(text, "fuzzed");
    require(factors.baseline < factors.schemes.size());
    for (std::size_t i = 0; i < factors.schemes.size(); ++i) {
      require(factors.schemes[i].seeds.size() == factors.setting.seeds.size());
      for (std::size_t target = 0; target < factors.targets.size(); ++target)
        require(sim::factor_of(factors, i, target).reached <=
                static_cast<int>(factors.setting.seeds.size()));
    }
    require(!sim::factors_yaml(factors).empty());
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
