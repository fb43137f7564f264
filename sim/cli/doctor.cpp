// stepcast doctor: how the program was built and where it looks for data.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <thread>

#include "sim/cli/command.hpp"
#include "sim/distribute/team.hpp"

namespace sim {
namespace {

ExitCode examine() {
  const std::string folder = data_folder();
  const std::size_t models = data_files("models").size();
  const std::size_t clusters = data_files("topologies").size();
  std::string text = fmt::format("stepcast {}\n", STEPCAST_VERSION);
  text += fmt::format("compiler     {} {}, C++ {}\n", STEPCAST_COMPILER, __VERSION__, __cplusplus);
  text += fmt::format("build        {}\n", STEPCAST_BUILD_TYPE);
  text += fmt::format("threads      {}\n", std::thread::hardware_concurrency());
  text += fmt::format("data         {}: {} models, {} clusters\n", folder, models, clusters);
  text +=
      fmt::format("MPI          {}\n",
                  mpi_library().value_or("not part of this build: search and sweep by --shard"));
  text += "real engine  not part of this build: forecasts only\n";
  print_result(text);
  if (models > 0 && clusters > 0) return ExitCode::done;
  print_note("no models or clusters there: set STEPCAST_DATA to the folder that has them");
  return ExitCode::failed;
}

}  // namespace

void add_doctor(CLI::App& app, ChosenCommand& action) {
  CLI::App* command = app.add_subcommand("doctor", "how this program was built, and its data");
  command->callback([&action] { action = examine; });
}

}  // namespace sim
