// How far a search is, in a line for people.
#pragma once

#include <string>

#include "sim/search/search.hpp"

namespace sim {

// "12,345 of 67,890 layouts decided, 210 simulated, 1,234/s, at most 45 s left, best 5.634 s".
std::string progress_line(const SearchProgress& progress);

// stopped_line() is the best layout so far of a search that was stopped. Nothing is simulated for
// it.
std::string stopped_line(const Search& search);

// "67,890 layouts in 12.3 s: 5,520 layouts/s".
std::string rate_line(const SearchCounts& counts, double seconds);

}  // namespace sim
