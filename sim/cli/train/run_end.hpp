// How the commands that run ranks end: run, validate real, calibrate.
#pragma once

#include <functional>
#include <string>

#include "real/launch/launch.hpp"
#include "sim/cli/command.hpp"

namespace sim {

// Says on stderr what ended a run of ranks, and gives its exit code.
ExitCode report_end(const real::RunResult& result);

// Runs `command`. What it throws of options and launcher that do not fit together is wrong usage;
// of the processes that a launcher has started on a machine, one says what is wrong for all.
ExitCode run_among_ranks(const std::string& name, const real::WorldOptions& world,
                         const std::function<ExitCode()>& command);

}  // namespace sim
