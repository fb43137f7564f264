// The program `stepcast`: reads the command line, runs one command, turns what goes wrong into a
// message and an exit code.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>

#include "sim/cli/command.hpp"
#include "sim/cli/failure.hpp"
#include "sim/cli/usage.hpp"

namespace {

extern "C" void end_at_once(int) {
  _exit(static_cast<int>(sim::ExitCode::interrupted));
}

void add_commands(CLI::App& app, sim::ChosenCommand& action) {
  sim::add_simulate(app, action);
  sim::add_memory(app, action);
  sim::add_search(app, action);
  sim::add_budget(app, action);
  sim::add_topo(app, action);
  sim::add_models(app, action);
  sim::add_sweep(app, action);
  sim::add_sensitivity(app, action);
  sim::add_scaling(app, action);
  sim::add_merge(app, action);
  sim::add_run(app, action);
  sim::add_tokens(app, action);
  sim::add_validate(app, action);
  sim::add_import(app, action);
  sim::add_export(app, action);
  sim::add_compare(app, action);
  sim::add_calibrate(app, action, sim::measure_here);
  sim::add_doctor(app, action);
  sim::add_completion(app, action);
}

int run(const sim::ChosenCommand& action) {
  try {
    return static_cast<int>(action());
  } catch (const std::exception&) {
    const sim::Failure failure = sim::current_failure();
    sim::print_note(failure.text);
    return static_cast<int>(failure.code);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGINT, end_at_once);
  CLI::App app{"Stepcast forecasts the time and memory of a distributed training step.",
               "stepcast"};
  app.set_version_flag("--version", "stepcast " STEPCAST_VERSION);
  app.require_subcommand(1);
  app.footer("Example: stepcast simulate scenarios/llama-3.1-405b-16384-h100.yaml");
  sim::ChosenCommand action;
  add_commands(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
    std::cerr << sim::usage_error_text(app, error, {argv + 1, argv + argc});
    return static_cast<int>(sim::ExitCode::usage);
  }
  return run(action);
}
