#include "ui/choose/choose_state.hpp"

#include <QJsonArray>

namespace ui {
namespace {

constexpr int most_points = 50;

QJsonObject of(const sim::Evaluation& evaluation) {
  return {{"step_time_ps", static_cast<qint64>(evaluation.step_time.count())},
          {"peak_mem_bytes", static_cast<qint64>(evaluation.memory.count())}};
}

template <class Shown>
QJsonArray list(const std::vector<Shown>& layouts) {
  QJsonArray array;
  for (const Shown& one : layouts) {
    QJsonObject object = of(one.evaluation);
    object["gpus"] = one.layout.world_size();
    array.append(object);
  }
  return array;
}

QString word(SearchState state) {
  switch (state) {
    case SearchState::idle:
      return "idle";
    case SearchState::listing:
      return "listing";
    case SearchState::running:
      return "running";
    case SearchState::stopped:
      return "stopped";
    case SearchState::done:
      return "done";
  }
  return {};
}

}  // namespace

QJsonObject choose_state(ChoosePane& pane) {
  QJsonObject state{{"state", word(pane.search().state())},
                    {"settled", pane.settled()},
                    {"rows", pane.table().model()->rowCount()}};
  if (const SearchResultPtr& result = pane.search().result()) {
    state["complete"] = result->complete;
    state["simulated"] = static_cast<qint64>(result->counts.simulated);
    state["best"] = list(result->best);
    state["within_memory_margin"] = list(result->within_margin);
    state["memory_front"] = list(result->memory_front);
  }
  if (pane.chosen()) state["chosen"] = of(*pane.chosen());
  QJsonArray points;
  for (const auto& [place, evaluation] : pane.pareto().points_on_screen(most_points)) {
    QJsonObject point = of(evaluation);
    point["at"] = QJsonArray{place.x(), place.y()};
    points.append(point);
  }
  state["points"] = points;
  return state;
}

}  // namespace ui
