#include "sim/sweep/sweep_job.hpp"

#include "sim/sweep/distributed_sweep.hpp"

namespace sim {
namespace {

// As `stepcast sweep` takes them.
std::vector<std::string> arguments_of(const SweepQuestion& question) {
  std::vector<std::string> arguments;
  for (const std::string& text : question.overrides)
    arguments.insert(arguments.end(), {"--set", text});
  for (const std::string& text : question.over)
    arguments.insert(arguments.end(), {"--over", text});
  if (question.best) arguments.emplace_back("--best");
  return arguments;
}

}  // namespace

SweepSpecification load_sweep(const SweepQuestion& question) {
  return load_sweep(question.scenario, question.overrides, question.over, question.best);
}

JobKey SweepJob::load() {
  specification_ = load_sweep(question_);
  forecast_ = forecast_units(specification_);
  return {.command = "sweep",
          .version = STEPCAST_VERSION,
          .scenario = question_.scenario,
          .arguments = arguments_of(question_),
          .files = files_of(specification_),
          .units = point_count(specification_.axes)};
}

}  // namespace sim
