#include "ui/window/state.hpp"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>

namespace ui {

QByteArray state_json(const Session& session) {
  QJsonObject state;
  state["scenario"] = QString::fromStdString(session.path());
  state["computing"] = session.computing();
  QJsonArray knobs;
  for (const std::string& set : session.overrides())
    knobs.append(QString::fromStdString(set));
  state["knobs"] = knobs;
  QJsonArray problems;
  for (const sim::Problem& problem : session.problems())
    problems.append(QString::fromStdString(sim::to_text(problem)));
  state["problems"] = problems;
  if (session.result())  // the same text as `stepcast simulate -o json --no-what-if`
    state["report"] = QJsonDocument::fromJson(QByteArray::fromStdString(
                                                  sim::to_json(session.result()->forecast.report)))
                          .object();
  return QJsonDocument{state}.toJson();
}

}  // namespace ui
