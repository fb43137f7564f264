// A sweep: the forecast at every point of a grid of values.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/sweep/axis.hpp"
#include "sim/sweep/point.hpp"

namespace sim {

struct SweepSpecification {
  std::string path;                    // of the scenario
  std::vector<std::string> overrides;  // of --set, at every point
  std::vector<Axis> axes;
  LayoutMode layout = LayoutMode::fixed;
};

struct Sweep {
  SweepSpecification specification;
  std::vector<PointResult> points;   // in the order of the grid, the last axis fastest
  std::vector<std::string> notes{};  // values of a machine's parameter that all give the same step
};

// The `sweep` section of a scenario file, where that has one; `over` of the command line stands in
// for the section's axes. Throws InputError, also for a grid of no axis or too many points.
SweepSpecification load_sweep(const std::string& path, const std::vector<std::string>& overrides,
                              const std::vector<std::string>& over, bool best);

// A line per axis of the machine along which neighbouring values give the same step everywhere:
// which values, and what bounds it.
std::vector<std::string> flat_stretches(const Sweep& sweep);

// notes_of_points() says what followed the values of the points (Scenario::followed), each line
// once, with the values of the first point that has it: "layout.micro_batch=2: ...".
std::vector<std::string> notes_of_points(const Sweep& sweep);

// "key=value" of --set and of the axes at a point.
std::vector<std::string> overrides_at(const SweepSpecification& specification, std::uint64_t point);
// Throws InputError if no point can be forecast.
Sweep sweep_of(const SweepSpecification& specification, std::vector<PointResult> points);

// run_sweep() runs on the threads of the surrounding TBB arena. Throws InputError if no point can
// be forecast; Stopped.
Sweep run_sweep(const SweepSpecification& specification, const std::function<void()>& done = {},
                const Control& control = {});

std::string sweep_table(const Sweep& sweep);
std::string sweep_json(const Sweep& sweep);
std::string sweep_csv(const Sweep& sweep);
std::string sweep_markdown(const Sweep& sweep);
// Step time over the first axis, a line per value of the second; or, where both are numbers with
// three values and more, a map of the two. Without a GUI. Throws InputError for more than two axes.
std::string sweep_svg(const Sweep& sweep);

}  // namespace sim
