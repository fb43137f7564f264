// The commands of `stepcast validate` (validate_real.cpp has one more).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/cli/command.hpp"
#include "sim/scores/score.hpp"

namespace sim {

// PublishedRequest is about the shipped sets (validate_published.cpp).
struct PublishedRequest {
  std::vector<std::string> sets;  // none: all
  std::string picture;            // SVG to write; empty: none
  int anchor_runs = 1;
  bool unnamed = false;  // as if no run named its framework
  OutputFormat output = OutputFormat::table;
};
Options published_options(PublishedRequest& request);
ExitCode show_published(const PublishedRequest& request);
std::vector<Command> published_commands();

// table_commands() are for anybody's tables (validate_tables.cpp).
std::vector<Command> table_commands();

// round_command() is about a round of MLPerf Training (validate_mlperf.cpp).
Command round_command();

// print_validation() prints the results, and writes the file of --picture where `picture` is not
// empty.
void print_validation(OutputFormat format, const std::vector<SetResult>& results,
                      const std::string& picture);

}  // namespace sim
