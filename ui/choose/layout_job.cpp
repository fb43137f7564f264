#include "ui/choose/layout_job.hpp"

#include <algorithm>
#include <utility>

#include "sim/plan/plan.hpp"

namespace ui {

LayoutFactsPtr facts_of(SearchedPtr searched, const sim::Evaluation& evaluation,
                        const sim::Control& control) {
  const sim::Search& search = searched->search;
  auto facts = std::make_shared<LayoutFacts>();
  facts->evaluation = evaluation;
  facts->layout = sim::layout_of(search.specification(), search.candidates(), evaluation.index);
  facts->gpus_per_node = search.candidates().all[evaluation.index].gpus_per_node;
  const sim::Cluster cluster =
      sim::cluster_of(search.specification(), search.candidates(), evaluation.index);
  const std::vector<sim::StageMemory> stages = sim::stage_memory(
      sim::make_plan(search.specification().workload.model, facts->layout), cluster);
  facts->memory = *std::max_element(
      stages.begin(), stages.end(),
      [](const sim::StageMemory& a, const sim::StageMemory& b) { return a.total < b.total; });
  sim::throw_if_stopped(control);
  if (evaluation.fits) facts->ranked = sim::ranked(search, evaluation, control);
  facts->searched = std::move(searched);
  return facts;
}

sim::Scenario scenario_of(const LayoutFacts& facts) {
  sim::Scenario scenario = specification_of(facts.searched->asked).workload;
  scenario.layout = facts.layout;
  scenario.cluster.use_gpus_per_node(facts.gpus_per_node);
  return scenario;
}

LayoutJob::LayoutJob(QObject* parent) : QObject{parent} {
  connect(&job_, &BackgroundJob::failed, this, &LayoutJob::failed);
}

void LayoutJob::ask(SearchedPtr searched, std::vector<sim::Evaluation> evaluations) {
  job_.run([this, searched = std::move(searched),
            evaluations = std::move(evaluations)](const sim::Control& control) {
    for (const sim::Evaluation& evaluation : evaluations)
      Q_EMIT ready(facts_of(searched, evaluation, control));
    return BackgroundJob::Answer{};
  });
}

}  // namespace ui
