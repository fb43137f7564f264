// A whole scenario: its layout against a real model and cluster (given by name, as --set gives
// them: the text must not choose which files are read). Beside not crashing: what loads is planned,
// and the plan would not hang a cluster.
#include "sim/scenario/scenario.hpp"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/plan/plan.hpp"
#include "tests/fuzz/require.hpp"

namespace {

using fuzz::require;

// A plan of this size takes milliseconds; larger ones are the business of the bench.
bool is_small(const sim::Layout& layout) {
  return layout.world_size() <= 64 && layout.micro_batches() <= 64;
}

// A file of this process, gone when it ends.
class ScratchFile {
 public:
  ScratchFile() {
    const int handle = mkstemp(path_.data());
    require(handle >= 0);
    close(handle);
  }
  ~ScratchFile() { unlink(path_.c_str()); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::string& write(const std::uint8_t* data, std::size_t size) const {
    std::ofstream{path_, std::ios::binary | std::ios::trunc}.write(
        reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    return path_;
  }

 private:
  std::string path_ = "/tmp/stepcast-fuzz-XXXXXX";
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ScratchFile file;
  const std::string root = STEPCAST_SOURCE_DIR;
  try {
    const sim::Scenario scenario = sim::load_scenario(
        file.write(data, size), {"model=" + root + "/models/gpt2.yaml",
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
