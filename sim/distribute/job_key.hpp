// The key of a job: all that its results depend on, so that records of one job are never taken for
// those of another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/input_log.hpp"

namespace sim {

struct JobKey {
  std::string command;                   // of stepcast: "search", "sweep"
  std::string version;                   // of stepcast
  std::string scenario;                  // its path; empty: given by arguments alone
  std::vector<std::string> arguments{};  // the others that matter to the answers
  std::vector<InputFile> files{};        // all that were read
  std::uint64_t units = 0;               // layouts, points; numbered from 0
  bool operator==(const JobKey&) const = default;
};

// difference() is what tells two jobs apart, naming both; empty if nothing does. Where a file lies
// does not matter, only what it says.
std::string difference(const JobKey& recorded, const JobKey& asked);

// The command that asks it, quoted for a shell, with `more` behind it.
std::string command_line(const JobKey& question, const std::vector<std::string>& more = {});

// digest_of() is over all that difference() looks at.
std::string digest_of(const JobKey& question);

}  // namespace sim
