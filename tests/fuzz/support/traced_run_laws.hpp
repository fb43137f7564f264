// What holds of every traced run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/trace/traced_run.hpp"
#include "tests/fuzz/support/require.hpp"

namespace fuzz {

template <class Entry>
bool is_in(std::int32_t index, const std::vector<Entry>& list) {
  return index == sim::not_told || (index >= 0 && static_cast<std::size_t>(index) < list.size());
}

inline void check_device(const sim::TracedRun& run, const sim::RunRank& rank) {
  sim::TimePoint before{};
  for (const sim::DeviceActivity& activity : rank.device) {
    require(activity.begin >= before && activity.end >= activity.begin);
    require(activity.name < run.names.size());
    require(is_in(activity.launch, rank.host) && is_in(activity.issuer, rank.host));
    require(is_in(activity.product, rank.products) && is_in(activity.work, rank.works));
    require(is_in(activity.call, rank.calls));
    before = activity.begin;
  }
}

inline void check_run(const sim::TracedRun& run) {
  require(!run.ranks.empty() && !run.names.empty() && run.names.front().empty());
  for (std::size_t i = 0; i < run.ranks.size(); ++i) {
    const sim::RunRank& rank = run.ranks[i];
    require(i == 0 || run.ranks[i - 1].rank < rank.rank);
    check_device(run, rank);
    sim::TimePoint before{};
    for (const sim::HostSpan& span : rank.host) {
      require(span.begin >= before && span.end >= span.begin && span.name < run.names.size());
      before = span.begin;
    }
    for (const sim::CollectiveCall& call : rank.calls) {
      require(is_in(call.group, run.groups) && call.bytes >= sim::Bytes{});
      require(call.dtype < run.names.size() && call.operation < run.names.size());
    }
    for (const sim::StepMark& step : rank.steps)
      require(step.end >= step.begin);
  }
}

}  // namespace fuzz
