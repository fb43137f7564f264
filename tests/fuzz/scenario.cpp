// A whole scenario: its layout against a real model and cluster (given by name, as --set gives
// them: the text must not choose which files are read). Beside not crashing: what loads is planned,
// and the plan would not hang a cluster.
#include "sim/scenario/scenario.hpp"

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/plan/plan.hpp"
#include "tests/fuzz/support/scratch_file.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/support/source_dir.hpp"

namespace {

using fuzz::require;

// A plan of this size takes milliseconds; larger ones are the business of the bench.
bool is_small(const sim::Layout& layout) {
  return layout.world_size() <= 64 && layout.micro_batches() <= 64;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::ScratchFile file;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const std::string root = sim::test::source_dir();
  try {
    const sim::Scenario scenario = sim::load_scenario(
        file.write(text), {"model=" + root + "/models/gpt2.yaml",
                           "cluster.path=" + root + "/topologies/dgx-h100.yaml"});
    require(sim::layout_problems(scenario.layout, scenario.model).empty());
    if (!is_small(scenario.layout)) return 0;
    const sim::Plan plan = sim::make_plan(scenario.model, scenario.layout);
    require(plan.world_size() == scenario.layout.world_size());
    require(plan.tokens > 0 && plan.parameters > 0);
    sim::check_plan(plan);
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
