// The cost of an allocation, for people, as CSV and Markdown.
#include <fmt/format.h>

#include "sim/base/table_text.hpp"
#include "sim/report/text_grid.hpp"
#include "sim/sweep/allocation_study.hpp"
#include "sim/topology/node_list.hpp"

namespace sim {
namespace {

using Grid = std::string (*)(const TextGrid&);

GridCell step_cell(Duration step) {
  return {precise(step), fmt::format("{}", in_seconds(step))};
}
GridCell against(Duration step, const PointResult& base) {
  const double ratio = to_seconds(step) / to_seconds(base.step_time);
  return {fmt::format("{:+.1f} %", 100 * (ratio - 1)), fmt::format("{:.5f}", ratio)};
}

// Steps, each against the packed allocation.
TextGrid steps_grid(const AllocationStudy& study) {
  TextGrid grid{.columns = {{"", "what"},
                            {"step", "step_time_s"},
                            {"to packed", "of_packed"},
                            {"exposed", "exposed_s"}},
                .rows = {}};
  const auto row = [&](std::string what, Duration step, std::optional<Duration> exposed) {
    grid.rows.push_back({std::move(what), step_cell(step), against(step, study.packed),
                         exposed ? step_cell(*exposed) : GridCell{""}});
  };
  row("packed", study.packed.step_time, study.packed.communication());
  row("this allocation", study.own.step_time, study.own.communication());
  for (const OrderedStep& one : study.orders)
    if (one.order.name != "as given")
      row("order: " + one.order.name, one.step.step_time, one.step.communication());
  const auto spread = [&](const std::string& of, const StepSpread& steps) {
    row(of + ", least", steps.least, {});
    row(of + ", 10 % are shorter than", steps.p10, {});
    row(of + ", median", steps.median, {});
    row(of + ", 90 % are shorter than", steps.p90, {});
    row(of + ", most", steps.most, {});
  };
  if (study.drawn) spread("drawn", *study.drawn);
  if (study.spread) row("adaptive routing", study.spread->step_time, study.spread->communication());
  if (study.ecmp) spread("static ECMP", *study.ecmp);
  return grid;
}

TextGrid loads_grid(const AllocationStudy& study) {
  TextGrid grid{.columns = {{"link", "link"},
                            {"alike", "alike"},
                            {"carried", "carried_bytes"},
                            {"use", "use"}},
                .rows = {}};
  for (const FabricLoad& load : study.loads)
    grid.rows.push_back(
        {load.link, GridCell{grouped(load.alike), fmt::format("{}", load.alike)},
         GridCell{to_text(load.carried), fmt::format("{}", load.carried.count())},
         GridCell{fmt::format("{:.1f} %", 100 * load.use), fmt::format("{:.5f}", load.use)}});
  return grid;
}

std::string about(const AllocationStudy& study) {
  std::string text =
      fmt::format("{}: {} GPUs on {} of {} nodes, at {} leaves; packed at {}\n  fabric: {}\n",
                  study.path, grouped(study.own.gpus), grouped(study.nodes),
                  grouped(study.machine_nodes), study.leaves, study.packed_leaves, study.fabric);
  const AllocationQuestion& asked = study.question;
  if (study.drawn && asked.kind == AllocationKind::fragmented)
    text += fmt::format("  drawn: {} machines, {:.0f} % of whose nodes other jobs have\n",
                        asked.draws, 100 * asked.occupancy);
  else if (study.drawn)
    text += fmt::format("  drawn: {} allocations, {}\n", asked.draws, word(asked.kind));
  if (study.ecmp)
    text += fmt::format("  static ECMP: {} hashes, {} flow{} between two GPUs\n", asked.ecmp_seeds,
                        study.hash_flows, study.hash_flows == 1 ? "" : "s");
  return text;
}

std::string pages(const AllocationStudy& study, Grid grid) {
  std::string text = about(study) + "\n" + grid(steps_grid(study));
  if (!study.loads.empty())
    text += "\nLinks of the fabric that carry most in this allocation\n" + grid(loads_grid(study));
  if (!study.orders.empty() && study.best().step_time < study.own.step_time)
    text += fmt::format("\nFastest order: {}\n  {}\n", study.orders.front().order.name,
                        node_list_of(study.best_nodes));
  return text;
}

}  // namespace

std::string allocation_table(const AllocationStudy& study) {
  return pages(study, grid_table);
}
std::string allocation_markdown(const AllocationStudy& study) {
  return pages(study, grid_markdown);
}
std::string allocation_csv(const AllocationStudy& study) {
  return grid_csv(steps_grid(study));
}

}  // namespace sim
