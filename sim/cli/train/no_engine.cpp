// A build without the engine: its commands are there, and say how to get it.
#include <stdexcept>

#include "sim/cli/train/engine.hpp"

namespace sim {
namespace {

constexpr const char* absent =
    "this program was built without the engine that trains and measures, as `make demo` builds it; "
    "`make build` adds it";

Command absent_command(const char* name, const char* help) {
  const auto refuse = []() -> ExitCode { throw std::runtime_error{absent}; };
  return {.name = name, .help = help, .run = refuse, .any_arguments = true};
}

}  // namespace

Command run_command() {
  return absent_command("run", "train a scenario for real and time its steps (not in this build)");
}

Command tokens_command() {
  return absent_command("tokens", "files of token ids to train on (not in this build)");
}

Command convergence_command() {
  return absent_command("convergence",
                        "what schemes of synchronisation do to learning (not in this build)");
}

Command validate_real_command() {
  return absent_command(
      "real", "run a suite of scenarios for real, beside its forecasts (not in this build)");
}

MeasureMachine machine_measurement() {
  return {};
}

std::vector<Finding> engine_findings() {
  return {{"engine", "not part of this build",
           "`run`, `tokens`, `validate real`, `calibrate` of this machine; `make build` adds it"}};
}

}  // namespace sim
