#include "sim/explain/waterfall.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/input_error.hpp"
#include "sim/base/table_text.hpp"
#include "sim/explain/activity_class.hpp"
#include "sim/explain/gaps.hpp"
#include "sim/explain/same_job.hpp"
#include "sim/explain/waterfall_parts.hpp"
#include "sim/explain/waterfall_words.hpp"

namespace sim {
namespace {

// The operators whose waiting for other ranks the trace does not tell. Messages have no match: it
// is told of all or of none.
std::vector<bool> untold_ops(const RunRank& rank, const std::vector<bool>& told,
                             const StepMatch& match, const Program& program) {
  std::vector<bool> untold(program.size(), false);
  bool messages = false;
  for (std::size_t i = 0; i < match.op_of.size(); ++i) {
    if (told[i] || class_of_activity(rank.device[i]) != ActivityClass::communication) continue;
    if (match.op_of[i] != no_operator)
      untold[match.op_of[i]] = true;
    else
      messages = true;
  }
  if (messages)
    for (std::size_t op = 0; op < program.size(); ++op)
      if (program.kind[op] == OpKind::send || program.kind[op] == OpKind::recv) untold[op] = true;
  return untold;
}

class WaterfallMaker {
 public:
  WaterfallMaker(const TracedRun& run, const Record& forecast)
      : run_{run},
        forecast_{forecast},
        steps_{find_steps(run)},
        arrivals_{find_arrivals(run, steps_)},
        all_{rank_steps(run, steps_, arrivals_)} {
    step_ = median_step();
  }

  Waterfall make() {
    const std::size_t rank = median_rank();
    Waterfall made = of_rank(rank);
    add_differences(rank, made);
    add_late(rank, made);
    return made;
  }

 private:
  // The track of the rank, or of the one that it is modulo the ranks of the forecast's job.
  const RecordedTrack& track_of(std::size_t rank) const {
    const std::uint32_t world = static_cast<std::uint32_t>(std::max(1, forecast_.world_size));
    for (const RecordedTrack& track : forecast_.tracks)
      if (track.rank.value == run_.ranks[rank].rank.value % world) return track;
    return forecast_.tracks.front();
  }

  const RankStep& step_of(std::size_t rank) const { return all_[rank * steps_.count() + step_]; }

  std::size_t median_step() const {
    std::vector<std::pair<Duration, std::size_t>> steps;
    for (std::size_t s = 0; s < steps_.count(); ++s) {
      Duration longest{};
      bool first = false;
      for (std::size_t r = 0; r < run_.ranks.size(); ++r) {
        longest = std::max(longest, all_[r * steps_.count() + s].window.time());
        first = first || all_[r * steps_.count() + s].first;
      }
      if (!first) steps.emplace_back(longest, s);
    }
    std::sort(steps.begin(), steps.end());
    return steps[(steps.size() - 1) / 2].second;
  }

  Duration forecast_waiting(std::size_t rank) const {
    const RecordedTrack& track = track_of(rank);
    const StepAccount account = forecast_account(
        forecast_, track, std::vector<bool>(forecast_.programs[track.program].size(), false));
    Duration sum{};
    for (const auto& [name, time] : account.waiting)
      sum += time;
    return sum;
  }

  // By what they wait more than the forecast says; of an even number the upper median.
  std::size_t median_rank() const {
    std::vector<std::pair<Duration, std::size_t>> ranks;
    for (std::size_t r = 0; r < run_.ranks.size(); ++r)
      ranks.emplace_back(step_of(r).parts[StepState::peer] - forecast_waiting(r), r);
    std::sort(ranks.begin(), ranks.end());
    return ranks[ranks.size() / 2].second;
  }

  Waterfall of_rank(std::size_t rank) const {
    const RecordedTrack& track = track_of(rank);
    const Program& program = forecast_.programs[track.program];
    const RankStep& step = step_of(rank);
    const StepMatch match = match_step(run_, rank, steps_.ranks[rank], step_, forecast_, track);
    const HostTroubles troubles{run_, run_.ranks[rank]};
    const StepAccount measured =
        measured_account(run_, rank,
                         states_of(run_.ranks[rank], troubles, step.window, arrivals_.ready[rank],
                                   arrivals_.done[step_]),
                         match, arrivals_.ready[rank], steps_.ranks[rank], step_, forecast_, track);
    const StepAccount forecast = forecast_account(
        forecast_, track, untold_ops(run_.ranks[rank], arrivals_.told[rank], match, program));
    Waterfall made;
    made.rank = run_.ranks[rank].rank;
    made.step = step.window.name;
    made.step_index = step_;
    made.measured = step.window.time();
    made.forecast = forecast_.end - TimePoint{};
    made.parts = parts_between(measured, forecast, program, match.matched_ops);
    made.matched = match.share;
    made.times = matched_times(measured, forecast, program, match.matched_ops);
    for (WaterfallPart& part : made.parts)
      part.sentence = sentence_of(part, made.measured);
    return made;
  }

  void add_differences(std::size_t rank, Waterfall& made) const {
    made.differences = job_differences(run_, rank, steps_.ranks[rank], step_, forecast_,
                                       track_of(rank), made.matched);
  }

  // The rank that the looked-at one waits for most.
  void add_late(std::size_t rank, Waterfall& made) const {
    const auto& waited = step_of(rank).waited_for;
    const auto most =
        std::max_element(waited.begin(), waited.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == waited.end() || most->first == rank) return;
    const Waterfall other = of_rank(most->first);
    if (to_seconds(most->second) < least_late * to_seconds(made.measured)) return;
    made.late = fmt::format("rank {} comes last: rank {} waits {} for it", other.rank.value,
                            made.rank.value, precise(most->second));
    if (other.parts.empty() || other.parts.front().time <= Duration{}) return;
    made.late_kind = other.parts.front().kind;
    made.late += fmt::format("; on rank {}: {}", other.rank.value, other.parts.front().sentence);
  }

  static constexpr double least_late = 0.005;  // of the step

  const TracedRun& run_;
  const Record& forecast_;
  RunSteps steps_;
  Arrivals arrivals_;
  std::vector<RankStep> all_;
  std::size_t step_ = 0;
};

}  // namespace

Waterfall make_waterfall(const TracedRun& run, const Record& forecast) {
  if (forecast.tracks.empty() || forecast.end <= TimePoint{})
    throw InputError{SourcePosition{forecast.origin.scenario, 0, 0},
                     "the forecast has no step to compare with"};
  for (const RunRank& rank : run.ranks)
    if (rank.device.empty())
      throw InputError{SourcePosition{rank.source, 0, 0}, "the trace has no kernels of a GPU"};
  if (run.ranks.empty()) throw InputError{SourcePosition{run.maker, 0, 0}, "the trace has no rank"};
  return WaterfallMaker{run, forecast}.make();
}

}  // namespace sim
