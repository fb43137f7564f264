// The words of a row that set nothing.
#pragma once

#include <string>
#include <vector>

#include "sim/rows/words.hpp"

namespace sim {

// silent_words() are the phrases of a row as it is written, between commas and semicolons, without
// which it would be the same framework and layout: "optimizer: paged AdamW". Those of `notes` are
// left out where the row names its framework, since nothing reads them there.
std::vector<std::string> silent_words(const RunCells& written, const std::vector<WordRule>& rules);

}  // namespace sim
