// A run and a forecast looked at together, in the background: the overlay, and what explain finds.
#pragma once

#include "sim/base/control.hpp"
#include "ui/core/result.hpp"
#include "ui/explain/waterfall_tree.hpp"
#include "ui/validate/run_file.hpp"

namespace ui {

// What a run is held against; both null: nothing, and it is explained alone.
struct ForecastSide {
  RecordPtr record;  // of a file
  ResultPtr result;  // else the session's
};

struct ComparedRun {
  OverlayPtr overlay;          // null: there is no forecast
  ExplanationPtr explanation;  // null: `unexplained` says why
  std::string unexplained;
};

// compare_run() explains the run with the forecast of its ranks; the overlay of traces is of the
// step that the waterfall looks at. Throws InputError; Stopped.
ComparedRun compare_run(const RunFile& run, const ForecastSide& side, const sim::Control& control);

}  // namespace ui
