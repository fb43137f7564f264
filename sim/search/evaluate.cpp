#include "sim/search/evaluate.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/work.hpp"
#include "sim/report/report.hpp"

namespace sim {

Evaluation evaluate(const SearchSpecification& specification, const Candidates& candidates,
                    std::uint32_t index, EvaluationMemory& memory, const Control& control) {
  count_work(Work::layouts_evaluated, 1);
  const Scenario& workload = specification.workload;
  const Plan plan = make_plan(workload.model, layout_of(specification, candidates, index));
  Evaluation made{.index = index, .fits = true};
  const Cluster cluster = cluster_of(specification, candidates, index);
  for (const StageMemory& stage : stage_memory(plan, cluster, &memory.communicators)) {
    made.memory = std::max(made.memory, stage.total);
    made.fits = made.fits && stage.fits();
    made.by_retries = made.by_retries || stage.fits_by_retries();
  }
  if (!made.fits) return made;
  SimulationOptions options = workload.options;
  options.record_spans = false;
  throw_if_stopped(control);
  made.step_time =
      simulate(plan, cluster, options, memory.wirings, control).timeline.end.time_since_epoch();
  return made;
}

Evaluation evaluate(const SearchSpecification& specification, const Candidates& candidates,
                    std::uint32_t index) {
  EvaluationMemory memory;
  return evaluate(specification, candidates, index, memory);
}

std::string answer_text(const Evaluation& evaluation) {
  return fmt::format(R"({{"fits":{},"by_retries":{},"memory_bytes":{},"step_time_ps":{}}})",
                     evaluation.fits, evaluation.by_retries, evaluation.memory.count(),
                     evaluation.step_time.count());
}

Evaluation read_evaluation(std::uint32_t index, const ObjectReader& answer) {
  return {.index = index,
          .fits = answer.boolean("fits"),
          .by_retries = answer.boolean("by_retries"),
          .memory = Bytes{answer.integer("memory_bytes")},
          .step_time = Duration{answer.integer("step_time_ps")}};
}

Evaluation evaluation_of_text(std::uint32_t index, std::string_view answer) {
  const Document document = Document::parse_json(answer, "answer");
  const Evaluation read = read_evaluation(index, document.root_object());
  document.finish();
  return read;
}

}  // namespace sim
