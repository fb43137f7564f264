// Facts of single layouts of a search, computed when one is looked at.
#pragma once

#include <QObject>
#include <optional>
#include <vector>

#include "sim/report/report.hpp"
#include "ui/choose/search_job.hpp"
#include "ui/core/background_job.hpp"

namespace ui {

struct LayoutFacts {
  SearchedPtr searched;
  sim::Evaluation evaluation;
  sim::Layout layout;
  int gpus_per_node = 0;
  std::optional<sim::RankedLayout> ranked;  // with its parts; nothing: it does not fit
  sim::StageMemory memory;                  // of the fullest stage
};
using LayoutFactsPtr = std::shared_ptr<const LayoutFacts>;

// Throws Stopped.
LayoutFactsPtr facts_of(SearchedPtr searched, const sim::Evaluation& evaluation,
                        const sim::Control& control = {});

// The scenario that was searched, with that layout. Throws InputError, where its files have
// changed.
sim::Scenario scenario_of(const LayoutFacts& facts);

// Layouts are taken up in the order in which they are asked for; a newer question takes the place
// of what is left of the one before.
class LayoutJob : public QObject {
  Q_OBJECT

 public:
  explicit LayoutJob(QObject* parent = nullptr);
  void ask(SearchedPtr searched, std::vector<sim::Evaluation> evaluations);

 Q_SIGNALS:
  void ready(ui::LayoutFactsPtr facts);
  void failed(const QString& why);

 private:
  BackgroundJob job_;
};

}  // namespace ui
