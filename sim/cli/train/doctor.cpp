// stepcast doctor: what this program was built with, what it finds on this machine, and what each
// missing part costs the user.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "sim/base/input_error.hpp"
#include "sim/cli/train/engine.hpp"
#include "sim/distribute/communicator.hpp"

namespace sim {
namespace {

Finding data_finding() {
  const char* const cost =
      "models and clusters by name; set STEPCAST_DATA to the folder that has them";
  try {
    const std::size_t models = data_files("models").size();
    const std::size_t clusters = data_files("topologies").size();
    return {"data", fmt::format("{}: {} models, {} clusters", data_folder(), models, clusters),
            models > 0 && clusters > 0 ? "" : cost};
  } catch (const InputError& error) {
    return {"data", error.what(), cost};
  }
}

// A part that a later version, or another configuration, builds: found by its target in the build.
Finding part_finding(const char* part, bool built, const char* cost) {
  return {part, built ? "built" : "not part of this build", built ? "" : cost};
}

std::vector<Finding> examine() {
  std::vector<Finding> findings{
      {"compiler", fmt::format("{} {}, C++ {}", STEPCAST_COMPILER, __VERSION__, __cplusplus), ""},
      {"build", STEPCAST_BUILD_TYPE, ""},
      {"threads", std::to_string(std::thread::hardware_concurrency()), ""},
      data_finding()};
  for (Finding& finding : engine_findings())
    findings.push_back(std::move(finding));
  const std::optional<std::string> mpi = mpi_library();
  findings.push_back({"MPI", mpi.value_or("not part of this build"),
                      mpi ? "" : "`mpirun stepcast search` and `sweep`; use --shard"});
  findings.push_back(
      part_finding("window", STEPCAST_HAS_WINDOW,
                   "`stepcast ui`; `simulate --picture` and `--trace` draw the step"));
  findings.push_back(part_finding("Python", STEPCAST_HAS_PYTHON,
                                  "`import stepcast`; every command has `-o json`"));
  return findings;
}

ExitCode report_findings() {
  std::string text = fmt::format("stepcast {}\n", STEPCAST_VERSION);
  bool has_data = true;
  for (const Finding& finding : examine()) {
    if (finding.part == "data") has_data = finding.cost.empty();
    text += fmt::format("{:<12} {}\n", finding.part, finding.state);
    if (!finding.cost.empty()) text += fmt::format("{:<12} not available: {}\n", "", finding.cost);
  }
  print_result(text);
  return has_data ? ExitCode::done : ExitCode::failed;
}

}  // namespace

Command doctor_command() {
  return {.name = "doctor",
          .help = "what this program was built with, and what this machine has",
          .footer = "Example: stepcast doctor",
          .run = report_findings};
}

}  // namespace sim
