// The section `framework` of a scenario as text, key by key.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/framework/framework.hpp"

namespace sim {

// framework_values is every key of the section but name and version, with its value as the reader
// of a scenario takes it, in the order of a written file. `host_issue` is there if it is set,
// `max_split_size` if it is not 0.
std::vector<std::pair<std::string, std::string>> framework_values(const Framework& framework);

// other_values is those of `framework` that differ from `base`: "rms_norm eager".
std::vector<std::string> other_values(const Framework& framework, const Framework& base);

}  // namespace sim
