#include "real/scenario/run_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "real/calibrate/machine_facts.hpp"
#include "sim/base/input_error.hpp"
#include "sim/timeline/perfetto.hpp"
#include "sim/timeline/record.hpp"

namespace real {
namespace {

namespace fs = std::filesystem;

sim::RecordOrigin origin_of(const sim::Scenario& scenario, const TrainingRun& run) {
  sim::RecordOrigin origin{
      .scenario = scenario.name,
      .date = date_and_time(),
      .machine = machine_name(),
      .provenance = {fmt::format("seed {}", scenario.training.seed), "stepcast " STEPCAST_VERSION},
      .gpus_per_node = scenario.cluster.gpus_per_node(),
      .steps = {}};
  for (std::size_t i = run.warm_up; i < run.steps.size(); ++i)
    origin.steps.push_back(run.steps[i].time);
  return origin;
}

void refuse(const std::string& path, const char* what) {
  throw sim::InputError{sim::SourcePosition{path, 0, 0}, what};
}

}  // namespace

void require_writable(const RunFiles& files, const std::string& checkpoint) {
  for (const std::string& file : {files.trace, files.record}) {
    if (file.empty()) continue;
    const fs::path folder = fs::absolute(file).parent_path();
    if (fs::is_directory(file) || ::access(folder.c_str(), W_OK) != 0)
      refuse(file, "cannot write this file");
  }
  if (checkpoint.empty()) return;
  std::error_code error;
  fs::create_directories(checkpoint, error);
  if (error || ::access(checkpoint.c_str(), W_OK) != 0)
    refuse(checkpoint, "cannot write checkpoints into this folder");
}

std::vector<std::string> write_run_files(const RunFiles& files, const sim::Scenario& scenario,
                                         const sim::Plan& plan, const TrainingRun& run) {
  if (files.trace.empty() && files.record.empty()) return {};
  if (run.timeline.tracks.empty())
    return {"no trace and no record: the run was interrupted before the recorded step"};
  std::vector<std::string> lines;
  if (!files.trace.empty()) {
    sim::write_perfetto_file(
        files.trace, plan, run.timeline,
        {.title = scenario.name, .gpus_per_node = scenario.cluster.gpus_per_node(), .ranks = {}});
    lines.push_back(fmt::format("trace: {}: open it at ui.perfetto.dev", files.trace));
  }
  if (!files.record.empty()) {
    sim::write_record(files.record, sim::make_record(plan, run.timeline, origin_of(scenario, run)));
    lines.push_back(fmt::format("record: {}", files.record));
  }
  return lines;
}

}  // namespace real
