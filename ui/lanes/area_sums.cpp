#include "ui/lanes/area_sums.hpp"

#include <algorithm>
#include <map>

namespace ui {
namespace {

using Sums = std::map<std::pair<std::string, sim::Pass>, NameSum>;

// add_strip() sums by (index of the name, pass) first: names are few, operators many.
void add_strip(const sim::Program& program, const Strip& strip, std::int64_t from, std::int64_t to,
               Sums& sums) {
  constexpr std::size_t passes = sim::words_of(sim::Pass{}).size();
  std::vector<NameSum> found(program.names.size() * passes);
  for (std::size_t i = strip.first_ending_after(from); i < strip.size() && strip.begin[i] < to;
       ++i) {
    const std::uint32_t op = strip.op[i];
    NameSum& sum =
        found[program.label[op].name * passes + static_cast<std::size_t>(program.pass[op])];
    ++sum.count;
    sum.time += std::min(to, strip.end[i]) - std::max(from, strip.begin[i]);
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].count == 0) continue;
    const auto pass = static_cast<sim::Pass>(i % passes);
    NameSum& sum = sums[{program.names[i / passes], pass}];
    sum.name = program.names[i / passes];
    sum.pass = sim::word(pass);
    sum.count += found[i].count;
    sum.time += found[i].time;
  }
}

}  // namespace

AreaSums area_sums(const sim::Plan& plan, const Lanes& lanes, std::int64_t from, std::int64_t to) {
  Sums sums;
  AreaSums result;
  for (const LaneGroup& group : lanes.groups) {
    const sim::Program& program = plan.program(group.rank);
    add_strip(program, group.compute, from, to, sums);
    for (const Strip& strip : group.communication)
      add_strip(program, strip, from, to, sums);
    for (const Idle& idle : group.bubbles) {
      const std::int64_t inside = std::min(to, idle.end) - std::max(from, idle.begin);
      if (inside <= 0) continue;
      result.bubbles += inside;
      ++result.bubble_count;
    }
  }
  for (auto& [key, sum] : sums)
    result.names.push_back(std::move(sum));
  std::stable_sort(result.names.begin(), result.names.end(),
                   [](const NameSum& a, const NameSum& b) { return a.time > b.time; });
  return result;
}

}  // namespace ui
