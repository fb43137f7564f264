#include "ui/validate/overlay_state.hpp"

#include <QJsonArray>

#include "ui/core/words.hpp"

namespace ui {

QJsonObject overlay_state(OverlayPane& pane) {
  QJsonObject state;
  const ExplanationPtr& explanation = pane.explain().explanation();
  if (!explanation || pane.busy()) return state;
  QJsonArray causes, differences;
  if (explanation->waterfall) {
    for (const sim::WaterfallPart& part : explanation->waterfall->parts)
      causes.append(QJsonObject{{"cause", to_qstring(sim::word(part.kind))},
                                {"time_ps", static_cast<qint64>(part.time.count())}});
    for (const std::string& difference : explanation->waterfall->differences)
      differences.append(QString::fromStdString(difference));
  }
  state["causes"] = causes;
  state["not_the_same_job"] = differences;
  state["sentence"] = pane.explain().sentence();
  if (const std::optional<OverlayAt>& at = pane.timelines().selected())
    state["operator"] = pane.timelines().text_of(*at);
  if (const sim::RooflinePoint* point = pane.explain().roofline().point())
    state["kernel"] = pane.explain().roofline().text_of(*point);
  return state;
}

}  // namespace ui
