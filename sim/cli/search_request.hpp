// What `stepcast search` was asked.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/cli/command.hpp"
#include "sim/cli/job_runner.hpp"
#include "sim/interop/handover.hpp"
#include "sim/scenario/sources.hpp"

namespace sim {

struct SearchRequest {
  std::string scenario;
  OutputFormat output = OutputFormat::table;
  std::vector<std::string> overrides;
  std::string model, cluster;
  int gpus = 0;
  std::int64_t batch = 0, sequence = 0;
  WorkOptions work;
  bool no_progress = false;
  std::optional<Target> emit;
  std::string emit_to;
};

// The command, with which a recorded question is read again too.
Command search_command_of(const std::shared_ptr<SearchRequest>& request);
// --emit and --emit-to.
Options emit_options(std::optional<Target>& emit, std::string& emit_to);

ScenarioSources sources_of(const SearchRequest& request);
// Those that the answers depend on, but for the scenario file.
std::vector<std::string> arguments_of(const SearchRequest& request);

ExitCode run_search_request(const SearchRequest& request);
// From records that were merged.
ExitCode run_search_request(const SearchRequest& request, ResultCache& book,
                            const JobKey& recorded);

}  // namespace sim
