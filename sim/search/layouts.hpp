// The best layouts in one call, for programs that call the library.
#pragma once

#include <functional>

#include "sim/base/control.hpp"
#include "sim/search/result.hpp"

namespace sim {

// Searches from beginning to end on `control.threads` threads of its own. Told to stop, it returns
// what it has, with SearchResult::complete false, if any layout was evaluated; else it throws
// Stopped. `evaluated` is called after every wave of evaluations, on the calling thread's behalf.
// Throws InputError.
SearchResult search_layouts(const ScenarioSources& sources, const Control& control = {},
                            const std::function<void(const SearchProgress&)>& evaluated = {});

}  // namespace sim
