#include "ui/panes/what_helps.hpp"

#include <tbb/task_arena.h>

#include <QPainter>

#include "sim/report/numbers.hpp"
#include "sim/scenario/scenario_input.hpp"
#include "ui/core/theme.hpp"

namespace ui {
namespace {

constexpr int step_pause_ms = 300;      // after the last change
constexpr double parameter_step = 0.1;  // up and down

sim::ScenarioInput file_of(const Result& result) {
  return {result.request.path, result.request.yaml};
}

QString saved(double share) {
  const QString percent = QString::number(100 * share, 'f', 1);
  return (percent == "0.0" ? "" : "−") + percent + " %";
}

QString parameter_time(sim::Duration value) {
  return QString::fromStdString(sim::precise(value));
}

}  // namespace

WhatHelps::WhatHelps(Session& session, QWidget* parent) : QWidget{parent}, session_{session} {
  setAccessibleName(tr("What would help most"));
  setMinimumHeight(120);
  pause_.setSingleShot(true);
  pause_.setInterval(step_pause_ms);
  connect(&pause_, &QTimer::timeout, this, &WhatHelps::ask);
  connect(&session_, &Session::result_changed, this, &WhatHelps::ask_later);
  const auto fail = [this](const QString& why) {
    problem_ = why;
    update();
  };
  connect(&what_if_, &BackgroundJob::failed, this, fail);
  connect(&sensitivity_, &BackgroundJob::failed, this, fail);
}

void WhatHelps::showEvent(QShowEvent*) {
  if (shown_ != session_.result()) ask_later();
}

void WhatHelps::ask_later() {
  what_if_.cancel();
  sensitivity_.cancel();
  setProperty("waiting", true);
  if (isVisible()) pause_.start();
}

void WhatHelps::ask() {
  const ResultPtr of = session_.result();
  if (!of) return;
  problem_.clear();
  what_if_.run([this, of](const sim::Control& control) -> BackgroundJob::Answer {
    sim::Forecast forecast = sim::forecast(of->scenario, {.what_if = true}, control);
    return [this, of, report = std::move(forecast.report)] { take(of, report); };
  });
  sensitivity_.run([this, of](const sim::Control& control) -> BackgroundJob::Answer {
    tbb::task_arena arena{1};  // beside the forecasts of what is turned meanwhile
    sim::Sensitivity found;
    arena.execute([&] {
      found = sim::sensitivity_of(file_of(*of), of->request.overrides, parameter_step, {}, control);
    });
    return [this, of, found = std::move(found)] { take(of, found); };
  });
}

void WhatHelps::take(const ResultPtr& of, const sim::Report& report) {
  shown_ = of;
  infinite_.clear();
  const double step = sim::in_seconds(report.step_time);
  QStringList said;
  for (const sim::WhatIf& what : report.what_if) {
    infinite_.push_back({QString::fromStdString(std::string{sim::word(what.resource)}),
                         parameter_time(what.step_time),
                         1 - sim::in_seconds(what.step_time) / step});
    said << infinite_.back().name + " " + infinite_.back().value;
  }
  setProperty("waiting", sensitivity_.busy());
  setAccessibleDescription(tr("The step if that were infinitely fast: %1").arg(said.join(", ")));
  update();
}

void WhatHelps::take(const ResultPtr&, const sim::Sensitivity& sensitivity) {
  more_.clear();
  const double step = sim::in_seconds(sensitivity.base.step_time);
  for (const sim::Elasticity& one : sensitivity.parameters) {
    const sim::Duration best = std::min(one.with_more, one.with_less);
    if (best <= sim::Duration{} || best >= sensitivity.base.step_time) continue;
    more_.push_back({QString{"%1 %2"}.arg(QString::fromStdString(one.parameter),
                                          best == one.with_more ? "+10 %" : "−10 %"),
                     parameter_time(best), 1 - sim::in_seconds(best) / step});
  }
  std::stable_sort(more_.begin(), more_.end(),
                   [](const Gain& a, const Gain& b) { return a.share > b.share; });
  setProperty("waiting", what_if_.busy());
  update();
}

void WhatHelps::paintEvent(QPaintEvent*) {
  QPainter painter{this};
  const Theme& theme = theme_of(*this);
  painter.fillRect(rect(), theme.ground);
  if (!problem_.isEmpty() || !session_.result()) {
    painter.setPen(theme.muted);
    painter.drawText(
        rect(), Qt::AlignCenter | Qt::TextWordWrap,
        problem_.isEmpty() ? tr("What would help appears with the first forecast.") : problem_);
    return;
  }
  const int half = width() / 2;
  paint_gains(painter, QRect{12, 8, half - 24, height() - 12},
              tr("The step if that were infinitely fast"), infinite_);
  paint_gains(painter, QRect{half + 12, 8, half - 24, height() - 12},
              tr("The step with that a tenth better"), more_);
}

void WhatHelps::paint_gains(QPainter& painter, const QRect& area, const QString& title,
                            const std::vector<Gain>& gains) {
  const Theme& theme = theme_of(*this);
  const int line = painter.fontMetrics().height() + 3;
  painter.setPen(theme.muted);
  painter.drawText(QRect{area.left(), area.top(), area.width(), line}, Qt::AlignLeft, title);
  if (gains.empty()) {
    painter.drawText(area.adjusted(0, line + 4, 0, 0), Qt::AlignLeft, tr("computing …"));
    return;
  }
  const bool stale = shown_ != session_.result();
  constexpr int least_name_width = 190, value_width = 130;
  int name_width = least_name_width;
  for (const Gain& gain : gains)
    name_width = std::max(name_width, painter.fontMetrics().horizontalAdvance(gain.name) + 12);
  name_width = std::min(name_width, std::max(least_name_width, area.width() / 2));
  const int bar_left = area.left() + name_width + value_width;
  const double scale = (area.right() - bar_left) / std::max(1e-9, gains.front().share);
  int y = area.top() + line + 2;
  for (const Gain& gain : gains) {
    if (y + line > area.bottom()) break;
    painter.setPen(stale ? theme.muted : theme.text);
    painter.drawText(QRect{area.left(), y, name_width, line}, Qt::AlignLeft | Qt::AlignVCenter,
                     painter.fontMetrics().elidedText(gain.name, Qt::ElideRight, name_width - 8));
    painter.drawText(QRect{area.left() + name_width, y, value_width - 10, line},
                     Qt::AlignRight | Qt::AlignVCenter, gain.value + "  " + saved(gain.share));
    painter.fillRect(QRectF{static_cast<double>(bar_left), y + 3.0,
                            std::max(1.0, gain.share * scale), line - 6.0},
                     stale ? theme.muted : theme.accent);
    y += line;
  }
}

}  // namespace ui
