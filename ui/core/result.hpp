// A forecast for the window: the request, and everything that the views draw of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/control.hpp"
#include "sim/base/input_error.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/timeline/critical_path.hpp"
#include "ui/lanes/lanes.hpp"

namespace ui {

struct ForecastRequest {
  std::uint64_t serial = 0;            // ascending; 0: none
  std::string path;                    // what the text's relative names are beside
  std::string yaml;                    // the scenario's text
  std::vector<std::string> overrides;  // "section.key=value", as --set takes them
};

// Immutable once made, and shared by workers and views: sim::Cluster can only be moved.
struct Result {
  ForecastRequest request;
  sim::Scenario scenario;
  sim::Forecast forecast;
  Lanes lanes;  // one rank of every pipeline stage
  std::vector<sim::PathStep> critical_path;
  double seconds = 0;  // that it took
};
using ResultPtr = std::shared_ptr<const Result>;

struct Failure {
  ForecastRequest request;
  std::vector<sim::Problem> problems;  // never empty
};
using FailurePtr = std::shared_ptr<const Failure>;

// Throws sim::InputError; sim::Stopped.
ResultPtr compute(const ForecastRequest& request, sim::Forecaster& forecaster,
                  const sim::Control& control = {});

}  // namespace ui
