#include "sim/cli/train/run_end.hpp"

#include <optional>
#include <stdexcept>

#include "sim/base/input_error.hpp"

namespace sim {
namespace {

bool speaks(const real::WorldOptions& options) {
  try {
    const std::optional<real::World> world = real::join_world(options, real::process_environment());
    return !world || world->local_rank == 0;
  } catch (const std::invalid_argument&) {
    return true;
  }
}

}  // namespace

ExitCode report_end(const real::RunResult& result) {
  if (!result.message.empty())
    print_note((result.end == real::RunEnd::refused ? "" : "stepcast: ") + result.message);
  switch (result.end) {
    case real::RunEnd::done:
      return ExitCode::done;
    case real::RunEnd::failed:
      return ExitCode::failed;
    case real::RunEnd::refused:
      return ExitCode::invalid_input;
    case real::RunEnd::interrupted:
      break;
  }
  return ExitCode::interrupted;
}

ExitCode run_among_ranks(const std::string& name, const real::WorldOptions& world,
                         const std::function<ExitCode()>& command) {
  try {
    return command();
  } catch (const InputError&) {
    if (speaks(world)) throw;
    return ExitCode::invalid_input;
  } catch (const std::invalid_argument& error) {
    if (speaks(world)) print_note("stepcast " + name + ": " + error.what());
    return ExitCode::usage;
  }
}

}  // namespace sim
