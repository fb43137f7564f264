// A file of another program, given to a command that reads something else.
#pragma once

#include <string>
#include <vector>

namespace sim {

// Which command reads the first file among the arguments, where it is a training job and another
// command was given; else empty.
std::string job_hint(const std::vector<std::string>& arguments);

}  // namespace sim
