#include "sim/search/evaluate.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/config/reader.hpp"
#include "sim/plan/memory.hpp"

namespace sim {

Evaluation evaluate(const SearchSpecification& specification, const Candidates& candidates,
                    std::uint32_t index) {
  const Scenario& workload = specification.workload;
  const Plan plan = make_plan(workload.model, layout_of(specification, candidates, index));
  Evaluation made{.index = index, .fits = true};
  const Device& device = workload.cluster.device();
  for (const Program& program : plan.programs)
    made.memory = std::max(made.memory, memory_use(program).peak + device.reserved);
  made.fits = made.memory <= device.memory;
  if (!made.fits) return made;
  SimulationOptions options = workload.options;
  options.record_spans = false;
  made.step_time = simulate(plan, workload.cluster, options).timeline.end.time_since_epoch();
  return made;
}

std::string to_json_line(const Evaluation& evaluation) {
  return fmt::format(R"({{"index":{},"fits":{},"memory_bytes":{},"step_time_ps":{}}})",
                     evaluation.index, evaluation.fits, evaluation.memory.count(),
                     evaluation.step_time.count());
}

Evaluation evaluation_of_json(std::string_view line, const std::string& where) {
  const Document document = Document::parse_json(line, where);
  const ObjectReader top = document.root_object();
  Evaluation read;
  read.index = static_cast<std::uint32_t>(top.integer("index", {0, UINT32_MAX}));
  read.fits = top.boolean("fits");
  read.memory = Bytes{top.integer("memory_bytes")};
  read.step_time = Duration{top.integer("step_time_ps")};
  document.finish();
  return read;
}

}  // namespace sim
