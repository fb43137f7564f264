// The request of `stepcast search`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/cli/command.hpp"
#include "sim/cli/train/job_host.hpp"
#include "sim/interop/handover.hpp"
#include "sim/search/workload.hpp"

namespace sim {

struct SearchRequest {
  std::string scenario;
  OutputFormat output = OutputFormat::table;
  Workload workload;  // its overrides are those of the scenario, too
  WorkOptions work;
  bool no_progress = false;
  std::string within;  // how long it may take; empty: to its end
  std::optional<Target> emit;
  std::string emit_to;
};

// The command, with which a recorded question is read again too.
Command search_command_of(const std::shared_ptr<SearchRequest>& request);
// --emit and --emit-to.
Options emit_options(std::optional<Target>& emit, std::string& emit_to);

ExitCode run_search_request(const SearchRequest& request);
// The same from records that were merged.
ExitCode run_search_request(const SearchRequest& request, ResultCache& book,
                            const JobKey& recorded);

}  // namespace sim
