#include "ui/validate/compared_run.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/input_error.hpp"
#include "sim/explain/step_match.hpp"
#include "sim/forecast/record.hpp"

namespace ui {
namespace {

// The record of the session's forecast: of one rank of each class of equal ones.
RecordPtr record_of(const Result& result) {
  return std::make_shared<const sim::Record>(sim::make_record(
      *result.forecast.plan, result.forecast.timeline, sim::origin_of(result.scenario)));
}

std::vector<sim::RankId> ranks_of(const sim::TracedRun& run) {
  std::vector<sim::RankId> ranks;
  for (const sim::RunRank& rank : run.ranks)
    ranks.push_back(rank.rank);
  return ranks;
}

bool has_ranks(const sim::Record& record, const sim::TracedRun& run) {
  return std::all_of(run.ranks.begin(), run.ranks.end(), [&](const sim::RunRank& wanted) {
    return std::any_of(record.tracks.begin(), record.tracks.end(),
                       [&](const sim::RecordedTrack& track) { return track.rank == wanted.rank; });
  });
}

// With all traced ranks; null: there is none.
RecordPtr forecast_of_ranks(const sim::TracedRun& run, const ForecastSide& side,
                            const sim::Control& control) {
  if (side.record) return has_ranks(*side.record, run) ? side.record : nullptr;
  if (!side.result) return nullptr;
  return std::make_shared<const sim::Record>(
      sim::simulated_record(side.result->scenario, ranks_of(run), control));
}

OverlayPtr overlay_of(const RunFile& run, const ForecastSide& side, const RecordPtr& of_ranks,
                      const sim::Explanation* explanation) {
  if (run.record) {
    if (side.record) return make_overlay(side.record, run.record);
    return side.result ? make_overlay(record_of(*side.result), run.record) : nullptr;
  }
  const RecordPtr forecast = side.record ? side.record : of_ranks;
  if (!forecast) return nullptr;
  const sim::RunSteps steps = sim::find_steps(*run.traced);
  const std::size_t step = explanation && explanation->waterfall
                               ? explanation->waterfall->step_index
                               : steps.count() - 1;
  return make_overlay(forecast, sim::step_timeline(*run.traced, steps, step));
}

}  // namespace

ComparedRun compare_run(const RunFile& run, const ForecastSide& side, const sim::Control& control) {
  ComparedRun made;
  const RecordPtr of_ranks = forecast_of_ranks(*run.traced, side, control);
  try {
    const sim::Device* const device =
        side.result && !side.record ? &side.result->scenario.cluster.device() : nullptr;
    made.explanation =
        std::make_shared<const sim::Explanation>(sim::explain(*run.traced, of_ranks.get(), device));
  } catch (const sim::InputError& error) {
    if (!run.record) throw;
    made.unexplained = error.what();  // both timelines are shown nevertheless
  }
  made.overlay = overlay_of(run, side, of_ranks, made.explanation.get());
  return made;
}

}  // namespace ui
