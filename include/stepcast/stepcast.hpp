// Stepcast as a library: forecasts of distributed training steps.
//
//   const sim::Scenario scenario = sim::load_scenario("scenario.yaml", {"layout.micro_batch=2"});
//   const sim::Forecast step = sim::forecast(scenario);
//   step.report.step_time, .mfu, .fits(); step.timeline; *step.plan; to_json(step.report)
//   sim::key_catalog(); sim::legal_values(scenario, "layout.tensor_parallel")
//
// Everything is in namespace sim. Errors of the input are sim::InputError, with file, line and
// column of every mistake. What can take long has a sim::Control: stop, progress, threads. There is
// no process-wide state; calls on different threads do not know of each other.
//
// CMake: find_package(stepcast) and link stepcast::stepcast. Public is what this header includes.
#pragma once

#include "sim/base/control.hpp"
#include "sim/base/input_error.hpp"
#include "sim/catalog/catalog.hpp"
#include "sim/catalog/values.hpp"
#include "sim/config/data_files.hpp"
#include "sim/economics/budget_report.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/record.hpp"
#include "sim/forecast/shown_ranks.hpp"
#include "sim/scenario/layout_values.hpp"
#include "sim/search/layouts.hpp"
#include "sim/search/workload.hpp"
#include "sim/sweep/sensitivity.hpp"
#include "sim/sweep/sweep.hpp"
#include "sim/timeline/perfetto.hpp"
#include "sim/timeline/picture.hpp"
