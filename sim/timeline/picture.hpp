// A Timeline as a picture: one row per rank, time to the right, computation above and communication
// below, as an SVG that a browser or a README shows without further tools.
//
// Each column of the picture shows what took most of its time; detail finer than a column is left
// to the Perfetto trace (perfetto.hpp). Colours: Okabe & Ito 2008, told apart by all kinds of eyes.
#pragma once

#include <string>
#include <vector>

#include "sim/plan/plan.hpp"
#include "sim/timeline/timeline.hpp"

namespace sim {

struct PictureOptions {
  std::string title;
  std::vector<RankId> ranks;  // which of the timeline's tracks, in this order; empty: all of them
};

// Throws std::invalid_argument for a rank that the timeline has no track of.
std::string to_svg(const Plan& plan, const Timeline& timeline, const PictureOptions& options);

}  // namespace sim
