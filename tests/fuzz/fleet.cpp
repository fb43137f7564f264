// A fleet file: jobs with names of their own.
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/fleet/fleet_file.hpp"
#include "tests/fuzz/support/require.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  try {
    const sim::FleetText fleet = sim::read_fleet(sim::Document::parse_yaml(text, "fuzzed.yaml"));
    std::set<std::string> names;
    for (const sim::JobText& job : fleet.jobs)
      names.insert(job.name);
    require(!names.empty() && names.size() == fleet.jobs.size());
    require(fleet.phases > 0);
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
