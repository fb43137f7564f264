#include "ui/panes/sweep.hpp"

#include <tbb/task_arena.h>

#include <QEvent>
#include <QHBoxLayout>
#include <QVBoxLayout>
#include <algorithm>

#include "sim/config/change.hpp"
#include "sim/report/numbers.hpp"
#include "sim/scenario/scenario_input.hpp"
#include "sim/sweep/axis.hpp"
#include "sim/sweep/machine_parameters.hpp"
#include "ui/core/knob_table.hpp"

namespace ui {
namespace {

constexpr const char* factors = "x0.25,x0.35,x0.5,x0.71,x1,x1.41,x2,x2.83,x4";

// The number in "x0.5", "16" or "400 Gbps"; nothing for words.
std::optional<double> number_in(const std::string& value) {
  const std::string text = value.starts_with('x') ? value.substr(1) : value;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str()) return std::nullopt;
  return number;
}

}  // namespace

SweepPane::SweepPane(Session& session, QWidget* parent) : QWidget{parent}, session_{session} {
  auto* column = new QVBoxLayout{this};
  column->setContentsMargins(8, 6, 8, 4);
  column->setSpacing(4);
  auto* line = new QHBoxLayout;
  key_ = new QComboBox;
  key_->setAccessibleName(tr("Knob to sweep"));
  key_->setMinimumWidth(220);
  values_ = new QLineEdit;
  values_->setAccessibleName(tr("Values of the sweep"));
  values_->setToolTip(
      tr("Values with commas, or a range: 8..64*2 doubles, 100 Gbps..400 Gbps+50 adds."));
  start_ = new QPushButton{tr("Sweep")};
  start_->setAccessibleName(tr("Start the sweep"));
  line->addWidget(key_);
  line->addWidget(values_, 1);
  line->addWidget(start_);
  column->addLayout(line);
  chart_ = new Scatter{tr("Step time over the swept knob")};
  forget();
  column->addWidget(chart_, 1);
  connect(&session_, &Session::opened, this, &SweepPane::forget);
  connect(&session_, &Session::result_changed, this, &SweepPane::fill_keys);
  connect(&session_, &Session::knobs_changed, this, &SweepPane::choose_newest);
  connect(key_, &QComboBox::currentIndexChanged, this, [this](int index) {
    if (index < 0) return;
    values_->setText(key_->itemData(index).toString());
  });
  connect(values_, &QLineEdit::returnPressed, this, &SweepPane::start);
  connect(start_, &QPushButton::clicked, this, &SweepPane::start);
  connect(&job_, &BackgroundJob::failed, this,
          [this](const QString& why) { chart_->set_empty_text(why); });
  connect(&job_, &BackgroundJob::busy_changed, this,
          [this] { start_->setText(job_.busy() ? tr("computing …") : tr("Sweep")); });
  connect(chart_, &Scatter::activated, this,
          [this](ScatterAt at) { set_value(static_cast<int>(index_of(at))); });
  chart_->set_describe([this](const ScatterAt& at) {
    const std::size_t i = index_of(at);
    const sim::PointResult& point = shown_.points[i];
    return QString{"%1 = %2: %3, %4\n%5"}.arg(
        shown_.title, QString::fromStdString(shown_.values[i]),
        QString::fromStdString(sim::precise(point.step_time)),
        point.fits() ? tr("fits") : tr("does not fit"), tr("Double click or Enter sets it"));
  });
  fill_keys();
}

void SweepPane::forget() {
  job_.cancel();
  shown_ = {};
  keys_of_.clear();
  key_->clear();
  values_->clear();
  chart_->set_lines({});
  chart_->set_sets({});
  chart_->set_empty_text(
      tr("Choose a knob and press Sweep: the step time over its values appears here."));
}

void SweepPane::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && !shown_.points.empty()) take(shown_);
}

void SweepPane::fill_keys() {
  if (!session_.result() || key_->count() > 0) return;
  const sim::Scenario& scenario = session_.result()->scenario;
  const auto add = [this](const QString& name, std::vector<std::string> keys,
                          const QString& values) {
    keys_of_.push_back(std::move(keys));
    key_->addItem(name, values);
  };
  for (const sim::MachineParameter& parameter : sim::machine_parameters(scenario.cluster_path))
    add(QString::fromStdString(parameter.name), parameter.keys, factors);
  for (const ChoiceKnob& knob : choice_knobs()) {
    if (!knob.chips || !knob.applies(scenario)) continue;
    QStringList values;
    for (const std::string& value : knob.values(scenario))
      values << QString::fromStdString(value);
    add(knob.title, {knob.key}, values.join(','));
  }
}

// The knob that was turned last, while nobody looks.
void SweepPane::choose_newest() {
  if (!visibleRegion().isEmpty() || session_.knobs().empty()) return;
  const std::string& newest = session_.knobs().back().first;
  for (std::size_t i = 0; i < keys_of_.size(); ++i)
    if (std::find(keys_of_[i].begin(), keys_of_[i].end(), newest) != keys_of_[i].end())
      key_->setCurrentIndex(static_cast<int>(i));
}

void SweepPane::start() {
  const int index = key_->currentIndex();
  if (index < 0 || !session_.result()) return;
  Sweep sweep;
  sweep.keys = keys_of_[static_cast<std::size_t>(index)];
  sweep.title = key_->currentText();
  try {
    sweep.values = sim::axis_values(values_->text().toStdString());
  } catch (const std::invalid_argument& error) {
    chart_->set_sets({});
    chart_->set_empty_text(error.what());
    return;
  }
  const ResultPtr of = session_.result();
  job_.run([this, of, sweep = std::move(sweep)](
               const sim::Control& control) mutable -> BackgroundJob::Answer {
    std::vector<std::vector<std::string>> overrides;
    for (const std::string& value : sweep.values) {
      overrides.push_back(of->request.overrides);
      for (const std::string& key : sweep.keys)
        sim::set_override(overrides.back(), key, value);
    }
    tbb::task_arena arena{1};
    arena.execute([&] {
      sweep.points = sim::forecast_points({of->request.path, of->request.yaml}, overrides,
                                          sim::LayoutMode::fixed, {}, control);
    });
    return [this, sweep] { take(sweep); };
  });
}

void SweepPane::take(Sweep sweep) {
  shown_ = std::move(sweep);
  told_.clear();
  QList<QPointF> fits, not_fits, line;
  std::vector<int> fitting, rest;
  for (std::size_t i = 0; i < shown_.points.size(); ++i) {
    const sim::PointResult& point = shown_.points[i];
    const std::optional<double> place = number_in(shown_.values[i]);
    if (!point.told() || !place) continue;
    const QPointF at{*place, sim::in_seconds(point.step_time)};
    line.push_back(at);
    (point.fits() ? fits : not_fits).push_back(at);
    (point.fits() ? fitting : rest).push_back(static_cast<int>(i));
  }
  if (line.isEmpty()) {
    chart_->set_sets({});
    chart_->set_empty_text(
        shown_.points.empty() ? QString{} : QString::fromStdString(shown_.points.front().problem));
    return;
  }
  const auto by_x = [](const QPointF& a, const QPointF& b) { return a.x() < b.x(); };
  const auto by_y = [](const QPointF& a, const QPointF& b) { return a.y() < b.y(); };
  const auto [left, right] = std::minmax_element(line.begin(), line.end(), by_x);
  const auto [low, high] = std::minmax_element(line.begin(), line.end(), by_y);
  const bool ratio = left->x() > 0 && right->x() / left->x() > 4;
  const double margin = std::max(0.02 * high->y(), 0.1 * (high->y() - low->y()));
  const double side = ratio ? 1.1 : 1.0;
  chart_->set_axes(
      {shown_.title, ratio ? left->x() / side : left->x() - 0.5,
       ratio ? right->x() * side : right->x() + 0.5, ratio, false},
      {tr("step time, s"), std::max(0.0, low->y() - margin), high->y() + margin, false, false});
  const Theme& theme = theme_of(*this);
  std::sort(line.begin(), line.end(), by_x);
  chart_->set_lines({{QString{}, theme.muted, Qt::SolidLine, 1.5, line}});
  told_ = fitting;
  told_.insert(told_.end(), rest.begin(), rest.end());
  fitting_ = fitting.size();
  chart_->set_sets({{tr("fits"), Marker::disc, theme.accent, 8, fits},
                    {tr("does not fit"), Marker::ring, theme.bad, 8, not_fits}});
}

std::size_t SweepPane::index_of(const ScatterAt& at) const {
  const std::size_t place = static_cast<std::size_t>(at.point) + (at.set == 0 ? 0 : fitting_);
  return static_cast<std::size_t>(told_[place]);
}

void SweepPane::set_value(int point) {
  Knobs changes;
  for (const std::string& key : shown_.keys)
    changes.emplace_back(key, shown_.values[static_cast<std::size_t>(point)]);
  session_.set_knobs(changes, tr("from the sweep of %1").arg(shown_.title));
}

}  // namespace ui
