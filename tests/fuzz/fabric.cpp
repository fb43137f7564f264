// Files of fabrics: any text is an InputError or fabrics that can be described.
#include <cstdint>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/topology/survey/survey.hpp"
#include "tests/fuzz/support/require.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  try {
    for (const sim::FabricSurvey& survey : sim::survey_fabric(text, "fuzzed")) {
      for (const sim::SurveyedSwitch& one : survey.switches)
        for (const auto& [other, links] : one.links)
          require(other < survey.switches.size() && links > 0);
      require(!sim::describe(survey).empty());
    }
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
