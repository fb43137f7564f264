#include "sim/trace/nvtx_steps.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/base/lower_case.hpp"

namespace sim {
namespace {

using RangesOfName = std::map<std::pair<std::uint32_t, std::string>, std::vector<const NvtxRange*>>;

// In lower case, without numbers.
std::string name_of_kind(const std::string& name) {
  std::string kind = lower_case(name);
  std::erase_if(kind, [](char c) { return c >= '0' && c <= '9'; });
  return kind;
}

bool has_any(const std::string& text, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return text.find(word) != std::string::npos; });
}

bool names_a_step(const std::string& kind) {
  return has_any(kind, {"step", "iteration"});
}
bool is_part_of_a_step(const std::string& kind) {
  return has_any(kind, {"optim", "sched", "data", "load", "scaler"});
}

Duration sum_of(const std::vector<const NvtxRange*>& ranges) {
  Duration sum{};
  for (const NvtxRange* range : ranges)
    sum += range->end - range->begin;
  return sum;
}

bool overlap(const std::vector<const NvtxRange*>& ranges) {
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i]->begin < ranges[i - 1]->end) return true;
  return false;
}

// Those that recur without overlap and last longest together.
std::vector<StepMark> longest(const RangesOfName& named) {
  const std::vector<const NvtxRange*>* best = nullptr;
  Duration most{};
  for (const auto& [name, ranges] : named) {
    if (ranges.size() < 2 || overlap(ranges) || sum_of(ranges) <= most) continue;
    best = &ranges;
    most = sum_of(ranges);
  }
  std::vector<StepMark> steps;
  if (best)
    for (const NvtxRange* range : *best)
      steps.push_back({range->name, range->begin, range->end});
  return steps;
}

}  // namespace

std::vector<StepMark> steps_of_ranges(std::vector<NvtxRange> ranges) {
  std::stable_sort(ranges.begin(), ranges.end(), [](const NvtxRange& a, const NvtxRange& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  RangesOfName steps, outermost;
  std::map<std::uint32_t, TimePoint> open;  // until when the thread is in a range
  for (const NvtxRange& range : ranges) {
    const std::string kind = name_of_kind(range.name);
    auto [until, is_new] = open.try_emplace(range.thread, TimePoint::min());
    const bool outer = range.begin >= until->second;
    until->second = std::max(until->second, range.end);
    if (is_part_of_a_step(kind)) continue;
    if (names_a_step(kind)) steps[{range.thread, kind}].push_back(&range);
    if (outer) outermost[{range.thread, kind}].push_back(&range);
  }
  std::vector<StepMark> found = longest(steps);
  return found.empty() ? longest(outermost) : found;
}

}  // namespace sim
