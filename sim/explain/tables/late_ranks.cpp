#include "sim/explain/tables/late_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sim/explain/explanation_sections.hpp"
#include "sim/explain/gaps.hpp"
#include "sim/explain/sections.hpp"

namespace sim {
namespace {

using WorkSums = std::map<std::pair<StepState, std::string>, Duration>;

bool is_own_work(StepState state) {
  return state != StepState::transfer && state != StepState::peer;
}

// The work of each rank over its steps that count.
std::vector<WorkSums> work_of_ranks(const TracedRun& run, const Arrivals& arrivals,
                                    const std::vector<RankStep>& list) {
  std::vector<WorkSums> sums(run.ranks.size());
  for (const RankStep& step : list) {
    if (step.first) continue;
    const RunRank& rank = run.ranks[step.rank];
    for (const StateSpan& span : states_of(rank, HostTroubles{run, rank}, step.window,
                                           arrivals.ready[step.rank], arrivals.done[step.step])) {
      if (!is_own_work(span.state)) continue;
      const std::string name =
          span.activity == not_told
              ? std::string{}
              : kernel_words(run.names[rank.device[static_cast<std::size_t>(span.activity)].name]);
      sums[step.rank][{span.state, name}] += span.time();
    }
  }
  return sums;
}

// Seconds of a step beyond the mean of the other ranks, where they are more.
std::vector<LateWork> longer_than_others(const std::vector<WorkSums>& sums, std::size_t rank,
                                         double steps) {
  std::vector<LateWork> works;
  for (const auto& [what, own] : sums[rank]) {
    double others = 0;
    for (std::size_t i = 0; i < sums.size(); ++i)
      if (const auto of = sums[i].find(what); i != rank && of != sums[i].end())
        others += to_seconds(of->second);
    const double more =
        to_seconds(own) - others / std::max(1.0, static_cast<double>(sums.size()) - 1);
    if (more > 0) works.push_back({what.first, what.second, more / steps});
  }
  std::stable_sort(works.begin(), works.end(),
                   [](const LateWork& a, const LateWork& b) { return a.seconds > b.seconds; });
  return works;
}

}  // namespace

std::vector<LateRank> late_ranks(const TracedRun& run, const Arrivals& arrivals,
                                 const std::vector<RankStep>& list) {
  std::map<std::size_t, double> seconds;
  std::map<std::size_t, std::set<std::size_t>> waiting;
  double counted = 0;
  for (const RankStep& step : list) {
    if (step.first) continue;
    ++counted;
    for (const auto& [rank, time] : step.waited_for) {
      seconds[rank] += to_seconds(time);
      waiting[rank].insert(step.rank);
    }
  }
  counted = std::max(1.0, counted / static_cast<double>(run.ranks.size()));
  const std::vector<WorkSums> works =
      seconds.empty() ? std::vector<WorkSums>{} : work_of_ranks(run, arrivals, list);
  std::vector<LateRank> late;
  for (const auto& [rank, time] : seconds)
    late.push_back({run.ranks[rank].rank, time / counted, waiting[rank].size(),
                    longer_than_others(works, rank, counted)});
  std::stable_sort(late.begin(), late.end(),
                   [](const LateRank& a, const LateRank& b) { return a.seconds > b.seconds; });
  return late;
}

std::string longer_text(const LateRank& late, bool on_host) {
  std::map<StepState, double> by_state;
  for (const LateWork& work : late.longer)
    by_state[work.state] += work.seconds;
  if (by_state.empty()) return {};
  const auto most =
      std::max_element(by_state.begin(), by_state.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string text =
      fmt::format("{}, by {}", words_of_state(most->first, on_host), seconds_text(most->second));
  const auto longest =
      std::find_if(late.longer.begin(), late.longer.end(),
                   [&](const LateWork& work) { return work.state == most->first; });
  if (!longest->name.empty()) text += "; most of it " + longest->name;
  return text;
}

}  // namespace sim
