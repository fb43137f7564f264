#include "ui/plan/plan_state.hpp"

#include <QJsonArray>
#include <QJsonDocument>

#include "ui/core/words.hpp"

namespace ui {
namespace {

QString state_word(PlanState state) {
  switch (state) {
    case PlanState::idle:
      return "idle";
    case PlanState::running:
      return "running";
    case PlanState::stopped:
      return "stopped";
    case PlanState::done:
      return "done";
  }
  return {};
}

}  // namespace

QJsonObject plan_state(PlanPane& pane) {
  QJsonObject state{{"state", state_word(pane.job().state())},
                    {"sentence", pane.sentence()},
                    {"commands", QString::fromStdString(pane.commands())}};
  QJsonObject problems;
  for (const auto& known : words_of(PlanField{}))
    if (const QString problem = pane.form().problem(known.value); !problem.isEmpty())
      problems[to_qstring(known.text)] = problem;
  state["problems"] = problems;
  if (const PlanPtr& plan = pane.job().news().plan)
    state["plan"] =
        QJsonDocument::fromJson(QByteArray::fromStdString(sim::capacity_json(*plan))).object();
  if (pane.chosen()) state["chosen"] = static_cast<qint64>(*pane.chosen());
  QJsonArray points;
  for (const auto& [place, point] : pane.front().points_on_screen())
    points.append(QJsonObject{{"point", static_cast<qint64>(point)},
                              {"at", QJsonArray{place.x(), place.y()}}});
  state["points"] = points;
  return state;
}

}  // namespace ui
