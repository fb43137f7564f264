// Sweeps, sensitivities and scaling curves as tables for people, CSV and Markdown.
#include <fmt/format.h>

#include <cmath>

#include "sim/report/numbers.hpp"
#include "sim/report/text_grid.hpp"
#include "sim/sweep/scaling.hpp"
#include "sim/sweep/sensitivity.hpp"
#include "sim/sweep/sweep.hpp"

namespace sim {
namespace {

GridCell seconds(Duration time) {
  return {precise(time), fmt::format("{}", in_seconds(time))};
}

GridCell share(double value) {
  return {fmt::format("{:.1f} %", value * 100), fmt::format("{}", value)};
}

double part_of(Duration part, Duration whole) {
  return whole > Duration{} ? in_seconds(part) / in_seconds(whole) : 0;
}

// The figures of a point, the same in every table; blank where there is no forecast.
std::vector<GridColumn> result_columns() {
  return {{"step time", "step_time_s"},
          {"tokens/s/GPU", "tokens_per_s_per_gpu"},
          {"MFU", "mfu"},
          {"memory", "peak_mem_bytes"},
          {"fits", "fits"},
          {"bubble", "bubble_share"},
          {"exposed comm.", "exposed_communication_share"}};
}

std::vector<GridCell> result_cells(const PointResult& point) {
  if (!point.told()) return std::vector<GridCell>(result_columns().size(), GridCell{""});
  return {seconds(point.step_time),
          {significant(point.tokens_per_second_per_gpu),
           fmt::format("{}", point.tokens_per_second_per_gpu)},
          share(point.mfu),
          {fmt::format("{:.1f} GiB", point.memory.gib()), std::to_string(point.memory.count())},
          {point.fits() ? "yes" : "no", point.fits() ? "true" : "false"},
          share(part_of(point.breakdown.bubble, point.step_time)),
          share(part_of(point.communication(), point.step_time))};
}

void append(std::vector<GridCell>& row, std::vector<GridCell> more) {
  for (GridCell& cell : more)
    row.push_back(std::move(cell));
}

TextGrid sweep_grid(const Sweep& sweep) {
  const std::vector<Axis>& axes = sweep.specification.axes;
  TextGrid grid;
  for (const Axis& axis : axes)
    grid.columns.push_back({axis.key, axis.key});
  for (GridColumn& column : result_columns())
    grid.columns.push_back(std::move(column));
  grid.columns.push_back({"layout, or why not", "layout"});
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const PointResult& point = sweep.points[i];
    std::vector<GridCell> row;
    for (const std::string& value : values_at(axes, i))
      row.emplace_back(value);
    append(row, result_cells(point));
    row.emplace_back(point.told() ? point.layout : point.problem);
    grid.rows.push_back(std::move(row));
  }
  return grid;
}

TextGrid sensitivity_grid(const Sensitivity& sensitivity) {
  TextGrid grid;
  const double percent = sensitivity.by * 100;
  grid.columns = {{"parameter", "parameter"},
                  {"value", "value"},
                  {"1 % more", "elasticity"},
                  {fmt::format("{:g} % more", percent), "step_time_with_more_s"},
                  {fmt::format("{:g} % less", percent), "step_time_with_less_s"}};
  const auto time = [](Duration value) {
    return value > Duration{} ? seconds(value) : GridCell{"not allowed", ""};
  };
  for (const Elasticity& entry : sensitivity.parameters)
    grid.rows.push_back(
        {GridCell{entry.parameter},
         GridCell{entry.value},
         {fmt::format("{:+.3f} %", entry.value_of_one), fmt::format("{}", entry.value_of_one)},
         time(entry.with_more),
         time(entry.with_less)});
  return grid;
}

TextGrid scaling_grid(const std::vector<ScalingCurve>& curves) {
  TextGrid grid;
  grid.columns = {{"scaling", "scaling"},
                  {"GPUs", "gpus"},
                  {"batch", "global_batch"},
                  {"efficiency", "efficiency"}};
  for (GridColumn& column : result_columns())
    grid.columns.push_back(std::move(column));
  grid.columns.push_back({"layout, or why not", "layout"});
  for (const ScalingCurve& curve : curves) {
    for (const ScalingPoint& point : curve.points) {
      std::vector<GridCell> row{GridCell{std::string{word(curve.kind)}},
                                {grouped(point.gpus), std::to_string(point.gpus)},
                                {grouped(point.global_batch), std::to_string(point.global_batch)},
                                point.result.told() ? share(point.efficiency) : GridCell{""}};
      append(row, result_cells(point.result));
      row.emplace_back(point.result.told() ? point.result.layout : point.result.problem);
      grid.rows.push_back(std::move(row));
    }
  }
  return grid;
}

std::string sensitivity_notes(const Sensitivity& sensitivity) {
  std::string text;
  if (!sensitivity.parameters.empty()) {
    const Elasticity& first = sensitivity.parameters.front();
    text += fmt::format("1 % more of the first, {}, changes the step by {:+.3f} %\n",
                        first.parameter, first.value_of_one);
  }
  for (const Elasticity& entry : sensitivity.parameters)
    if (!entry.unmoved.empty()) text += fmt::format("{}: {}\n", entry.parameter, entry.unmoved);
  for (const std::string& reason : sensitivity.left_out)
    text += fmt::format("left out: {}\n", reason);
  return text;
}

std::string scaling_notes(const std::vector<ScalingCurve>& curves) {
  std::string text;
  for (const ScalingCurve& curve : curves)
    text += curve.communication_bound_from
                ? fmt::format(
                      "{} scaling: from {} GPUs on, exposed communication takes longer than "
                      "compute\n",
                      word(curve.kind), grouped(*curve.communication_bound_from))
                : fmt::format(
                      "{} scaling: compute takes longer than exposed communication "
                      "throughout\n",
                      word(curve.kind));
  return text;
}

}  // namespace

std::string sweep_table(const Sweep& sweep) {
  std::string text = grid_table(sweep_grid(sweep));
  for (const std::string& note : sweep.notes)
    text += note + '\n';
  return text;
}
std::string sweep_csv(const Sweep& sweep) {
  return grid_csv(sweep_grid(sweep));
}
std::string sweep_markdown(const Sweep& sweep) {
  return grid_markdown(sweep_grid(sweep));
}

std::string sensitivity_table(const Sensitivity& sensitivity) {
  return fmt::format("step time {}, {}\n\n{}\n{}", precise(sensitivity.base.step_time),
                     sensitivity.base.layout, grid_table(sensitivity_grid(sensitivity)),
                     sensitivity_notes(sensitivity));
}
std::string sensitivity_csv(const Sensitivity& sensitivity) {
  return grid_csv(sensitivity_grid(sensitivity));
}
std::string sensitivity_markdown(const Sensitivity& sensitivity) {
  return grid_markdown(sensitivity_grid(sensitivity));
}

std::string scaling_table(const std::vector<ScalingCurve>& curves) {
  return grid_table(scaling_grid(curves)) + '\n' + scaling_notes(curves);
}
std::string scaling_csv(const std::vector<ScalingCurve>& curves) {
  return grid_csv(scaling_grid(curves));
}
std::string scaling_markdown(const std::vector<ScalingCurve>& curves) {
  return grid_markdown(scaling_grid(curves));
}

}  // namespace sim
