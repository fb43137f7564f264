// The page of a search.
#pragma once

#include <string>

#include "sim/search/result.hpp"

namespace sim {

// search_page has the best layout as the headline, the parts of the ranked layouts, step time
// against memory, GPUs and cost, and all figures.
std::string search_page(const SearchResult& result, const std::string& command);

}  // namespace sim
