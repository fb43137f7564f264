#include "sim/forecast/shown_ranks.hpp"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <string_view>

#include "sim/base/input_error.hpp"

namespace sim {

std::vector<RankId> parse_ranks(const std::string& text, int world, const std::string& where) {
  std::vector<RankId> ranks;
  const auto number = [&](std::string_view part) {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc{} || end != part.data() + part.size() ||
        value >= static_cast<std::uint32_t>(world))
      throw InputError{SourcePosition{where, 0, 0},
                       fmt::format("'{}' is no rank of 0 to {}", part, world - 1)};
    return value;
  };
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t dash = part.find('-');
    const std::uint32_t first = number(part.substr(0, dash));
    const std::uint32_t last =
        dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    if (last < first)
      throw InputError{SourcePosition{where, 0, 0},
                       fmt::format("'{}' ends before it begins", part)};
    for (std::uint32_t rank = first; rank <= last; ++rank)
      ranks.push_back(RankId{rank});
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return ranks;
}

TraceRanks parse_trace_ranks(const std::string& text, int world, const std::string& where) {
  if (text == "stages") return {};
  if (text == "representatives") return {.kind = TraceRanks::Kind::representatives};
  if (text == "all") return {.kind = TraceRanks::Kind::all};
  return {.kind = TraceRanks::Kind::listed, .listed = parse_ranks(text, world, where)};
}

std::vector<RankId> one_rank_per_stage(const Scenario& scenario, const Plan& plan,
                                       const Timeline& timeline) {
  std::map<int, const RankTrack*> chosen;
  std::vector<RankId> ranks;
  for (const RankTrack& track : timeline.tracks) {
    const RankTrack*& best = chosen[plan.program(track.rank).stage];
    if (!best || track.represents > best->represents) best = &track;
    for (const Straggler& slow : scenario.options.stragglers)
      if (slow.rank == track.rank) ranks.push_back(track.rank);
  }
  for (const auto& [stage, track] : chosen)
    ranks.push_back(track->rank);
  return ranks;
}

}  // namespace sim
