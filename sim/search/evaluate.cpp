#include "sim/search/evaluate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "sim/base/work.hpp"
#include "sim/report/report.hpp"

namespace sim {

void KnownLayoutParts::keep(std::uint32_t index, const LayoutParts& parts) {
  const std::lock_guard lock{mutex_};
  parts_.try_emplace(index, parts);
}

std::optional<LayoutParts> KnownLayoutParts::find(std::uint32_t index) const {
  const std::lock_guard lock{mutex_};
  const auto found = parts_.find(index);
  return found == parts_.end() ? std::nullopt : std::optional{found->second};
}

bool same_programs(const Candidates& candidates, std::uint32_t a, std::uint32_t b) {
  const auto programs = [&](std::uint32_t index) {
    const Candidate& one = candidates.all[index];
    return std::tuple{one.pipeline, one.shard_group, one.prefetch_layers, one.zero_stage,
                      one.reshard_after_forward};
  };
  return programs(a) == programs(b);
}

namespace {

// A stage that is likely to need more memory than the others: if it needs too much, these are not
// planned. The first one often has fewer layers; weight gradients that lag do so more at the end.
int first_looked_at(const Layout& layout) {
  const int stages = layout.pipeline_parallel;
  if (stages <= 2) return 0;
  return layout.schedule == Schedule::zb_h1 ? stages - 2 : 1;
}

}  // namespace

EvaluationInParts::EvaluationInParts(const SearchSpecification& specification,
                                     const Candidates& candidates, std::uint32_t index,
                                     EvaluationMemory& memory, const Control& control,
                                     std::unique_ptr<PlannedLayout> planned)
    : specification_{specification},
      cluster_{cluster_of(specification, candidates, index)},
      memory_{memory},
      control_{control},
      planned_{std::move(planned)},
      made_{.index = index} {
  count_work(Work::layouts_evaluated, 1);
  plan(layout_of(specification, candidates, index));
  made_.memory = made_.least_memory;
}

void EvaluationInParts::plan(const Layout& layout) {
  const Model& model = specification_.workload.model;
  if (planned_) {
    place_ranks(planned_->plan, model, layout);
  } else if (layout.has_lengths()) {
    planned_ = std::make_unique<PlannedLayout>(make_plan(model, layout));
  } else {
    Plan plan = plan_of_stage(model, layout, first_looked_at(layout));
    PlanMemory of_stage{plan};
    note_least(of_stage);
    if (too_large_ || layout.pipeline_parallel == 1) {
      if (!too_large_) planned_ = std::make_unique<PlannedLayout>(std::move(plan));
      return;
    }
    plan_other_stages(plan, model);
    planned_ = std::make_unique<PlannedLayout>(std::move(plan));
  }
  note_least(planned_->memory);
}

// Memory that leaves as much of the smallest device of the pools as the stage does of its own.
Bytes EvaluationInParts::on_smallest(const StageMemory& stage) const {
  if (stage.capacity == Bytes{}) return {};  // not planned yet
  return stage.total - stage.capacity + cluster_.device().memory;
}

void EvaluationInParts::note_least(PlanMemory& memory) {
  for (const StageMemory& stage : memory.least(cluster_, &memory_.communicators)) {
    made_.least_memory = std::max(made_.least_memory, on_smallest(stage));
    too_large_ = too_large_ || !stage.fits();
  }
}

bool EvaluationInParts::fits() {
  if (std::exchange(replayed_, true)) return made_.fits;
  made_.fits = true;
  made_.memory = {};
  for (const StageMemory& stage : planned_->memory.stages(cluster_, &memory_.communicators)) {
    made_.memory = std::max(made_.memory, on_smallest(stage));
    made_.fits = made_.fits && stage.fits();
    made_.by_retries = made_.by_retries || stage.fits_by_retries();
  }
  return made_.fits;
}

Duration EvaluationInParts::step_time(Duration limit) {
  if (simulated_) return made_.step_time;
  throw_if_stopped(control_);
  SimulationOptions options = specification_.workload.options;
  if (limit < Duration::max()) options.limit = limit;
  const LayoutTime time = time_layout(planned_->plan, cluster_, options, memory_.wirings, control_);
  made_.step_time = time.step;
  simulated_ = made_.step_time <= limit;
  if (simulated_) memory_.step_parts.keep(made_.index, time.parts);
  return made_.step_time;
}

const Evaluation& EvaluationInParts::all() {
  if (is_too_large()) return made_;
  fits();
  step_time(Duration::max());
  return made_;
}

Evaluation evaluate(const SearchSpecification& specification, const Candidates& candidates,
                    std::uint32_t index, EvaluationMemory& memory, const Control& control) {
  return EvaluationInParts{specification, candidates, index, memory, control}.all();
}

Evaluation evaluate(const SearchSpecification& specification, const Candidates& candidates,
                    std::uint32_t index) {
  EvaluationMemory memory;
  return evaluate(specification, candidates, index, memory);
}

std::string answer_text(const Evaluation& evaluation) {
  return fmt::format(R"({{"fits":{},"by_retries":{},"least_memory_bytes":{},)"
                     R"("memory_bytes":{},"step_time_ps":{}}})",
                     evaluation.fits, evaluation.by_retries, evaluation.least_memory.count(),
                     evaluation.memory.count(), evaluation.step_time.count());
}

Evaluation read_evaluation(std::uint32_t index, const ObjectReader& answer) {
  return {.index = index,
          .fits = answer.boolean("fits"),
          .by_retries = answer.boolean("by_retries"),
          .least_memory = Bytes{answer.integer("least_memory_bytes")},
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
