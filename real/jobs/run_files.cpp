#include "real/jobs/run_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <filesystem>
#include <ostream>

#include "real/calibrate/machine_facts.hpp"
#include "sim/base/complete_file.hpp"
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

// A line for each layer of each step.
std::string write_loads(const std::string& path, const TrainingRun& run) {
  if (run.expert_loads.empty())
    return fmt::format("no file {}: every expert got as many tokens, or none was trained", path);
  sim::write_complete_file(path, [&](std::ostream& out) {
    out << "step,layer";
    for (std::size_t i = 0; i < run.expert_loads.front().layers.front().tokens.size(); ++i)
      out << ",expert_" << i;
    out << '\n';
    for (const StepLoads& step : run.expert_loads)
      for (const LayerLoad& layer : step.layers)
        out << fmt::format("{},{},{}\n", step.step, layer.layer, fmt::join(layer.tokens, ","));
  });
  return fmt::format("tokens of experts: {}: stepcast simulate ... --set layout.moe.load={}", path,
                     path);
}

}  // namespace

void require_writable(const RunFiles& files, const std::string& checkpoint) {
  for (const std::string& file : {files.trace, files.record, files.loads}) {
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
  std::vector<std::string> lines;
  if (!files.loads.empty()) lines.push_back(write_loads(files.loads, run));
  if (files.trace.empty() && files.record.empty()) return lines;
  if (run.timeline.tracks.empty())
    return {run.lost.empty()
                ? "no trace and no record: the run was interrupted before the recorded step"
                : "no trace and no record: a rank was lost, and no step is recorded behind that"};
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
