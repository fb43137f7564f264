#include "ui/window/state.hpp"

#include <QAbstractButton>
#include <QAbstractSlider>
#include <QComboBox>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLineEdit>

#include "ui/choose/choose_state.hpp"
#include "ui/core/write_file.hpp"
#include "ui/plan/plan_state.hpp"
#include "ui/timeline/view.hpp"
#include "ui/validate/overlay_state.hpp"

namespace ui {
namespace {

constexpr int soon_ms = 20, beat_ms = 5;

QJsonArray strings(const std::vector<std::string>& values) {
  QJsonArray array;
  for (const std::string& value : values)
    array.append(QString::fromStdString(value));
  return array;
}

QString name_of(const QWidget& widget) {
  if (!widget.accessibleName().isEmpty()) return widget.accessibleName();
  const auto* button = qobject_cast<const QAbstractButton*>(&widget);
  return button ? button->text() : QString{};
}

// x, y, width, height on the screen.
QJsonObject places_of(const MainWindow& window) {
  QJsonObject places;
  for (const QWidget* widget : window.findChildren<QWidget*>()) {
    const QString name = name_of(*widget);
    if (name.isEmpty() || !widget->isVisible() || widget->visibleRegion().isEmpty()) continue;
    const QPoint at = widget->mapToGlobal(QPoint{});
    places[name] = QJsonArray{at.x(), at.y(), widget->width(), widget->height()};
  }
  return places;
}

QJsonObject selection_of(const Selection& selection) {
  QJsonObject object;
  if (selection.op)
    object["operator"] =
        QJsonArray{static_cast<qint64>(selection.op->track), static_cast<qint64>(selection.op->op)};
  if (selection.area)
    object["area_ps"] = QJsonArray{static_cast<qint64>(selection.area->begin),
                                   static_cast<qint64>(selection.area->end)};
  object["stage"] = selection.stage;
  return object;
}

}  // namespace

QByteArray state_json(MainWindow& window) {
  const Session& session = window.session();
  QJsonObject state;
  state["scenario"] = QString::fromStdString(session.path());
  state["computing"] = session.computing();
  state["knobs"] = strings(session.overrides());
  std::vector<std::string> problems;
  for (const sim::Problem& problem : session.problems())
    problems.push_back(sim::to_text(problem));
  state["problems"] = strings(problems);
  const TimeWindow& shown = window.timeline().window();
  state["time_window_ps"] = QJsonArray{shown.from, shown.to};
  state["selection"] = selection_of(session.selection());
  state["controls"] = places_of(window);
  state["search"] = choose_state(window.choose());
  state["plan"] = plan_state(window.plan());
  state["explanation"] = overlay_state(window.overlay());
  if (session.result())
    state["report"] = QJsonDocument::fromJson(QByteArray::fromStdString(
                                                  sim::to_json(session.result()->forecast.report)))
                          .object();
  return QJsonDocument{state}.toJson();
}

StateFile::StateFile(MainWindow& window, QString path)
    : QObject{&window}, window_{window}, path_{std::move(path)} {
  soon_.setSingleShot(true);
  soon_.setInterval(soon_ms);
  connect(&soon_, &QTimer::timeout, this, &StateFile::write);
  const auto later = [this] { soon_.start(); };
  const Session& session = window.session();
  connect(&session, &Session::computing_changed, this, later);
  connect(&session, &Session::result_changed, this, later);
  connect(&session, &Session::problems_changed, this, later);
  connect(&session, &Session::selection_changed, this, later);
  connect(&session, &Session::knobs_changed, this, later);
  connect(&window.timeline(), &TimelineView::window_changed, this, later);
  OverlayPane& overlay = window.overlay();
  connect(&overlay, &OverlayPane::changed, this, later);
  connect(&overlay.timelines(), &OverlayView::selection_changed, this, later);
  connect(&overlay.explain(), &ExplainPane::currentChanged, this, later);
  connect(&overlay.explain().waterfall(), &WaterfallTree::selected_changed, this, later);
  connect(&overlay.explain().roofline(), &RooflineChart::kernel_chosen, this, later);
  connect(&window.plan(), &PlanPane::changed, this, later);
  connect(&window.pages(), &QStackedWidget::currentChanged, this, later);
  connect(&window.choose(), &ChoosePane::settled_changed, this, later);
  connect(&window.choose().search(), &SearchJob::progressed, this, later);
  since_beat_.start();
  connect(&beat_, &QTimer::timeout, this,
          [this] { longest_gap_ms_ = std::max(longest_gap_ms_, since_beat_.restart()); });
  beat_.start(beat_ms);
}

void StateFile::write() {
  QJsonObject state = QJsonDocument::fromJson(state_json(window_)).object();
  state["longest_gap_ms"] = longest_gap_ms_;  // of the event loop, since the last time
  longest_gap_ms_ = 0;
  write_file(path_, QJsonDocument{state}.toJson());
  since_beat_.restart();
}

}  // namespace ui
