// The problems of an error as lines that a test can compare.
#pragma once

#include <string>
#include <vector>

#include "sim/base/input_error.hpp"

namespace sim::test {

// "line:column: what" of each.
inline std::vector<std::string> lines_of(const InputError& error) {
  std::vector<std::string> lines;
  for (const Problem& problem : error.problems())
    lines.push_back(std::to_string(problem.where.line) + ":" +
                    std::to_string(problem.where.column) + ": " + problem.what);
  return lines;
}

}  // namespace sim::test
