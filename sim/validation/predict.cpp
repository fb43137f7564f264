#include "sim/validation/predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "sim/base/check.hpp"
#include "sim/base/input_error.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/scenario.hpp"

namespace sim {
namespace {

// From the first begin to the last end of what is added.
struct Extent {
  TimePoint begin = TimePoint::max();
  TimePoint end = TimePoint::min();
  void add(const Span& span) {
    begin = std::min(begin, span.begin);
    end = std::max(end, span.end);
  }
  Duration length() const { return end < begin ? Duration{} : end - begin; }
};

bool of_backward(Pass pass) {
  return pass == Pass::recompute || pass == Pass::backward || pass == Pass::weight_backward;
}

Duration layer_time_of(const Program& program, const RankTrack& track, int layer) {
  Extent forward, backward;
  for (const Span& span : track.spans) {
    if (program.label[span.op.value].layer != layer) continue;
    const Pass pass = program.pass[span.op.value];
    if (pass == Pass::forward) forward.add(span);
    if (of_backward(pass)) backward.add(span);
  }
  return forward.length() + backward.length();
}

Prediction simulate_scenario(const MeasuredSet& set, const MeasuredRow& row) {
  const Scenario scenario = load_scenario(row.scenario);
  if (set.quantity == Quantity::layer && scenario.layout.micro_batches() != 1)
    throw InputError{SourcePosition{row.scenario, 0, 0},
                     "a layer is timed in a step of one micro-batch"};
  const Plan plan = make_plan(scenario.model, scenario.layout);
  const Simulation simulation = simulate(plan, scenario.cluster, scenario.options);
  Prediction prediction;
  prediction.time = set.quantity == Quantity::layer
                        ? layer_time(plan, simulation.timeline, set.layer)
                        : simulation.timeline.end.time_since_epoch();
  if (prediction.time <= Duration{})
    throw InputError{SourcePosition{row.scenario, 0, 0},
                     fmt::format("the model has no layer {}", set.layer)};
  prediction.fits = true;
  for (const StageMemory& stage : stage_memory(plan, scenario.cluster.device())) {
    prediction.peak_memory = std::max(prediction.peak_memory, stage.total);
    prediction.fits = prediction.fits && stage.fits();
  }
  return prediction;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

double RowResult::error() const {
  SIM_CHECK(prediction && row.outcome == Outcome::ran, row.id);
  const double measured = to_seconds(row.measured);
  return (to_seconds(prediction->time) - measured) / measured;
}

Duration layer_time(const Plan& plan, const Timeline& timeline, int layer) {
  for (const RankTrack& track : timeline.tracks) {
    const Duration time = layer_time_of(plan.program(track.rank), track, layer);
    if (time > Duration{}) return time;
  }
  return {};
}

RowResult predict(const MeasuredSet& set, const MeasuredRow& row) {
  RowResult result{.row = row, .prediction = {}, .skipped = {}};
  try {
    result.prediction = simulate_scenario(set, row);
  } catch (const InputError& error) {
    const Problem& first = error.problems().front();
    result.skipped =
        one_line(fmt::format("{}:{}: {}", first.where.file, first.where.line, first.what));
  } catch (const std::runtime_error& error) {
    result.skipped = one_line(error.what());
  }
  return result;
}

}  // namespace sim
