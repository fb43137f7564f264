// Chakra execution traces: any bytes are an InputError or a plan; what is read is written as it is.
#include <cstdint>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/chakra/et_plan.hpp"
#include "tests/fuzz/support/require.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text{reinterpret_cast<const char*>(data), size};
  try {
    sim::EtRun run{.name = "fuzzed"};
    const sim::EtFile file = sim::parse_et(text, "fuzzed.0.et");
    require(sim::parse_et(sim::et_text(file), "again").nodes.size() == file.nodes.size());
    run.ranks = {file, file};
    const sim::EtPlan planned = sim::plan_of(run);
    require(planned.plan.world_size() == 2);
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
