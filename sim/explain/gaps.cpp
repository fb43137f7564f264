#include "sim/explain/gaps.hpp"

#include <algorithm>
#include <optional>

#include "sim/explain/activity_class.hpp"

namespace sim {
namespace {

enum class SpanMeaning : std::uint8_t { none, garbage, loading, waiting };

std::vector<SpanMeaning> meanings_of(const TracedRun& run) {
  std::vector<SpanMeaning> meanings;
  meanings.reserve(run.names.size());
  for (const std::string& name : run.names)
    meanings.push_back(waits_for_device(name) ? SpanMeaning::waiting
                       : loads_data(name)     ? SpanMeaning::loading
                                              : SpanMeaning::none);
  return meanings;
}

// A call that waits for the device returns some microseconds after the last kernel has ended.
constexpr Duration return_of_wait = std::chrono::microseconds{20};

}  // namespace

HostTroubles::HostTroubles(const TracedRun& run, const RunRank& rank)
    : rank_{rank}, on_host_{run.on_host} {
  const std::vector<SpanMeaning> meanings = meanings_of(run);
  for (const HostSpan& span : rank.host) {
    if (span.what == HostSpan::What::garbage)
      garbage_.push_back({span.begin, span.end});
    else if (meanings[span.name] == SpanMeaning::loading && span.what != HostSpan::What::runtime)
      loading_.push_back({span.begin, span.end});
    else if (meanings[span.name] == SpanMeaning::waiting && !on_host_)
      waiting_.push_back({span.begin, span.end});
  }
  garbage_ = merged(std::move(garbage_));
  loading_ = merged(std::move(loading_));
  waiting_ = merged(std::move(waiting_));
}

std::vector<HostTroubles::Interval> HostTroubles::merged(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> merged;
  for (const Interval& interval : intervals)
    if (!merged.empty() && interval.begin <= merged.back().end)
      merged.back().end = std::max(merged.back().end, interval.end);
    else
      merged.push_back(interval);
  return merged;
}

const HostTroubles::Interval* HostTroubles::covering(const std::vector<Interval>& of,
                                                     TimePoint at) {
  const auto next = std::upper_bound(of.begin(), of.end(), at,
                                     [](TimePoint t, const Interval& i) { return t < i.begin; });
  if (next == of.begin() || std::prev(next)->end <= at) return nullptr;
  return &*std::prev(next);
}

TimePoint HostTroubles::next_begin(const std::vector<Interval>& of, TimePoint at, TimePoint end) {
  const auto next = std::upper_bound(of.begin(), of.end(), at,
                                     [](TimePoint t, const Interval& i) { return t < i.begin; });
  return next == of.end() ? end : std::min(end, next->begin);
}

void HostTroubles::add_gap(TimePoint begin, TimePoint end, std::int32_t next,
                           std::vector<StateSpan>& states) const {
  std::optional<TimePoint> issued;
  if (next != not_told) {
    const std::int32_t launch = rank_.device[static_cast<std::size_t>(next)].launch;
    if (launch >= 0 && launch < static_cast<std::int32_t>(rank_.host.size()))
      issued = rank_.host[static_cast<std::size_t>(launch)].begin;
  }
  // At the end of a trace nothing had been issued. A host without a span tells nothing.
  StepState otherwise = StepState::untold;
  if (issued)
    otherwise = *issued > begin ? StepState::host : StepState::between_kernels;
  else if (on_host_ || (next == not_told && !rank_.host.empty()))
    otherwise = StepState::host;
  if (otherwise == StepState::host) {
    const Interval* wait = covering(waiting_, begin);
    if (!wait && begin.time_since_epoch() > return_of_wait)
      wait = covering(waiting_, begin - return_of_wait);
    if (wait && wait->begin < begin) otherwise = StepState::synchronisation;
  }
  if (otherwise == StepState::between_kernels) {
    states.push_back({begin, end, otherwise, not_told});
    return;
  }
  for (TimePoint at = begin; at < end;) {
    const Interval* garbage = covering(garbage_, at);
    const Interval* loading = covering(loading_, at);
    TimePoint until = std::min(next_begin(garbage_, at, end), next_begin(loading_, at, end));
    StepState state = otherwise;
    if (garbage) {
      state = StepState::garbage;
      until = std::min(end, garbage->end);
    } else if (loading) {
      state = StepState::data_loading;
      until = std::min({end, loading->end, next_begin(garbage_, at, end)});
    }
    states.push_back({at, until, state, not_told});
    at = until;
  }
}

}  // namespace sim
