#include "ui/choose/layout_job.hpp"

#include <algorithm>

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
  thread_ = std::jthread{[this](const std::stop_token& stop) { work(stop); }};
}

LayoutJob::~LayoutJob() {
  thread_.request_stop();
  const std::lock_guard lock{mutex_};
  current_.request_stop();
}

void LayoutJob::ask(SearchedPtr searched, std::vector<sim::Evaluation> evaluations) {
  const std::lock_guard lock{mutex_};
  searched_ = std::move(searched);
  waiting_ = std::move(evaluations);
  std::reverse(waiting_.begin(), waiting_.end());
  current_.request_stop();
  asked_.notify_one();
}

void LayoutJob::work(const std::stop_token& stop) {
  while (true) {
    SearchedPtr searched;
    sim::Evaluation evaluation;
    std::stop_token told;
    {
      std::unique_lock lock{mutex_};
      if (!asked_.wait(lock, stop, [this] { return !waiting_.empty(); })) return;
      searched = searched_;
      evaluation = waiting_.back();
      waiting_.pop_back();
      current_ = std::stop_source{};
      told = current_.get_token();
    }
    try {
      Q_EMIT ready(facts_of(std::move(searched), evaluation, {.stop = told}));
    } catch (const sim::Stopped&) {
      continue;
    } catch (const std::exception& error) {
      Q_EMIT failed(QString::fromUtf8(error.what()));
    }
  }
}

}  // namespace ui
