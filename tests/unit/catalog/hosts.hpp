// Files that together make the readers ask for every key, so that the catalogue can be held against
// what they ask for and what they refuse.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "sim/base/input_error.hpp"

namespace sim::test {

struct Answer {
  std::set<std::string> asked;    // keys by their path in the catalogue
  std::vector<Problem> problems;  // of reading
};

// A file that one of the readers reads, with `value` at `key` (a path of the catalogue) where it is
// not empty.
struct Host {
  std::string name;
  std::function<Answer(const std::string& key, const std::string& value)> read;
};

std::vector<Host> hosts();

}  // namespace sim::test
