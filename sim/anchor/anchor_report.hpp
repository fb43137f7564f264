// Results of measured runs, and how sure forecasts are with them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/anchor/measured_runs.hpp"
#include "sim/uncertainty/anchor.hpp"
#include "sim/uncertainty/time_interval.hpp"

namespace sim {

// A factor on the time of a part, and what it is known to within: half of its interval, as ln.
struct LearntFactor {
  std::string part;
  double factor = 1, half_width_before = 0, half_width = 0;
};

struct AnchoredForecast {
  std::string name;
  int gpus = 0;
  Duration without{}, step_time{};  // without the anchor, and with it
  TimeInterval before, after;       // of each
};

// A run that is still to be measured, and how sure the last forecast would be with it.
struct NextRun {
  std::string name;
  int gpus = 0;
  double half_width = 0;  // of ln(time) of the forecast that is to become surer
};

struct AnchorReport {
  Anchor anchor;
  double level = 0.9;               // of the intervals
  double told_apart = 0;            // how many effects the runs tell apart
  std::vector<LearntFactor> parts;  // of the first run's job on its GPUs
  std::vector<AnchoredForecast> forecasts;
  int target_gpus = 0;        // of the forecast that is to become surer: the last that was
                              // asked for, else eight times the largest measured run
  std::vector<NextRun> next;  // what could be measured next; what says most first
};

// Throws as forecast() does.
AnchorReport make_anchor_report(AnchorRuns runs, const TimeErrors& published,
                                const Control& control = {});

std::string anchor_table(const AnchorReport& report);
std::string anchor_json(const AnchorReport& report);
std::string anchor_csv(const AnchorReport& report);
std::string anchor_markdown(const AnchorReport& report);

}  // namespace sim
