// How fast a machine was beside the steps of a run, against when it was calibrated, and the steps
// with that taken out.
//
// The reference is a fixed GEMM and a fixed copy on all ranks at once
// (real/calibrate/reference.hpp), neither a part of a step nor of a forecast: kernels and
// collectives are calibrated between runs of it, and steps are timed between runs of it as long as
// a step. A step's time is divided by how much slower than while calibrating the reference was on
// both sides of it.
//
// The correction leaves an error of three parts: the interval of the median of the corrected steps
// (95%); half of what the GEMM and the copy disagree by, since a step is something of both and is
// slowed by one of the two or by anything between; and, on a machine that is slower than while
// calibrating, what the correction has taken off the time in which a rank waits for another
// (pipeline bubbles, exposed messages): the reference never waits, and a waiting rank loses
// nothing.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sim {

// Seconds of the reference: of a GEMM, a copy, and of both (a piece).
struct ReferenceTimes {
  double product = 0, copy = 0, whole = 0;
};

// `reference` of the device file of a calibrated cluster; nothing where it has none. Throws
// InputError for files that cannot be read.
std::optional<ReferenceTimes> load_reference(const std::string& cluster_path);

// Seconds, in order: each step lies between the references of its index and of the next one; the
// last of all is behind the recorded steps.
struct StepsBesideReference {
  std::vector<double> steps;
  std::vector<double> product, copy, whole;
};

struct Drift {
  double measured = 0;  // s: median of the corrected steps
  double slowdown = 1;  // median over the steps
  double recorded = 1;  // slowdown beside the recorded steps
  double left = 0;      // that cannot be taken out, relative to `measured`
};
// `waiting`: the share of the step in which a rank waits, of the forecast. REQUIRES: steps is not
// empty, and steps.size() + 2 of each reference.
Drift take_out_drift(const StepsBesideReference& run, const ReferenceTimes& calibrated,
                     double waiting = 0);

}  // namespace sim
