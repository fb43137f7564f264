// Spans of a timeline for the canvas of a page, small enough for a file that is sent.
#pragma once

#include <string>
#include <vector>

#include "sim/plan/plan.hpp"
#include "sim/timeline/timeline.hpp"

namespace sim {

// timeline_json: {"end_ns", "inks": [{"name", "colour"}], "kinds": [[name, ink, duration in ns]],
// "ranks": [{"rank", "represents", "lanes": [{"stream", "spans"}]}]}. `spans` is base64 of varints:
// for each span the gap since the end of the one before, in ns, and its kind. A wait of
// communication for its partners is a span of its own. `ranks`: which of the timeline's tracks.
// Throws std::invalid_argument for a rank that it has no track of.
std::string timeline_json(const Plan& plan, const Timeline& timeline,
                          const std::vector<RankId>& ranks);

}  // namespace sim
