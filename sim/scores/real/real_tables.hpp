// Results of a suite as text: a table for people, Markdown, CSV with a line per scenario, JSON of
// all. validation/real/README.md lists the fields.
#pragma once

#include <string>

#include "sim/scores/real/run_score.hpp"

namespace sim {

std::string real_table(const RealResult& result);
std::string real_markdown(const RealResult& result);
std::string real_json(const RealResult& result);
// The raw results: every figure of every scenario with date and machine in each line, so that files
// can be laid one behind the other.
std::string real_csv(const RealResult& result);

}  // namespace sim
