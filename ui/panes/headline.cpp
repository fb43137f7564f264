#include "ui/panes/headline.hpp"

#include <QEvent>
#include <QHBoxLayout>
#include <QTimer>
#include <array>
#include <cmath>

#include "sim/report/numbers.hpp"
#include "ui/core/figures.hpp"
#include "ui/core/theme.hpp"

namespace ui {
namespace {

constexpr std::size_t shown_figures = 6;
constexpr int patience_ms = 100;  // before "computing" is said

void colour(QLabel& label, const QColor& colour) {
  QPalette palette = label.palette();
  palette.setColor(QPalette::WindowText, colour);
  label.setPalette(palette);
}

}  // namespace

Headline::Headline(Session& session, QWidget* parent) : QWidget{parent}, session_{session} {
  setAccessibleName(tr("Headline figures"));
  auto* row = new QHBoxLayout{this};
  row->setContentsMargins(12, 8, 12, 6);
  row->setSpacing(18);
  for (std::size_t i = 0; i < shown_figures; ++i)
    cells_.push_back(add_cell(i == 0 ? 1.8 : 1.3, i == 0));
  measured_ = add_cell(1.3, false);
  measured_.box->hide();
  row->addStretch();
  auto* right = new QVBoxLayout;
  right->setSpacing(0);
  name_ = new QLabel{this};
  name_->setAlignment(Qt::AlignRight);
  state_ = new QLabel{this};
  state_->setAlignment(Qt::AlignRight);
  right->addWidget(name_);
  right->addWidget(state_);
  row->addLayout(right);
  row->setSizeConstraint(QLayout::SetNoConstraint);
  setMinimumWidth(560);
  connect(&session_, &Session::result_changed, this, &Headline::refresh);
  connect(&session_, &Session::baseline_changed, this, &Headline::refresh);
  connect(&session_, &Session::problems_changed, this, &Headline::refresh);
  connect(&session_, &Session::computing_changed, this,
          [this] { QTimer::singleShot(patience_ms, this, &Headline::show_state); });
  refresh();
}

Headline::Cell Headline::add_cell(double size, bool bold) {
  auto* box = new QWidget;
  auto* column = new QVBoxLayout{box};
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  Cell cell{box, new QLabel, new QLabel, new QLabel};
  QFont large = cell.value->font();
  large.setPointSizeF(large.pointSizeF() * size);
  large.setBold(bold);
  cell.value->setFont(large);
  cell.value->setTextInteractionFlags(Qt::TextSelectableByMouse);
  column->addWidget(cell.title);
  auto* line = new QHBoxLayout;
  line->setSpacing(8);
  line->addWidget(cell.value, 0, Qt::AlignBaseline);
  line->addWidget(cell.change, 0, Qt::AlignBaseline);
  line->addStretch();
  column->addLayout(line);
  layout()->addWidget(box);
  return cell;
}

// show_measured() is for a published row: what was measured, and how far off the forecast is.
void Headline::show_measured() {
  const std::optional<Measured>& measured = session_.measured();
  measured_.box->setVisible(measured.has_value());
  if (!measured) return;
  colour(*measured_.title, theme_of(*this).muted);
  measured_.title->setText(measured->layer ? tr("measured, layer %1").arg(*measured->layer)
                                           : tr("measured"));
  const bool timed = measured->seconds > 0;
  measured_.value->setText(
      timed ? QString::fromStdString(sim::precise(sim::duration_from_seconds(measured->seconds)))
      : measured->out_of_memory ? tr("out of memory")
                                : tr("memory alone"));
  QString said;
  if (timed && !measured->layer) {
    const double error =
        sim::in_seconds(session_.result()->forecast.report.step_time) / measured->seconds - 1;
    said = tr("forecast %1%2 %").arg(error < 0 ? "−" : "+").arg(std::abs(100 * error), 0, 'f', 1);
  }
  measured_.change->setText(said);
  const QString definition = tr("Published: %1. The error is (forecast − measured) / measured, "
                                "with the knobs as they are.")
                                 .arg(QString::fromStdString(measured->source));
  for (QLabel* label : {measured_.title, measured_.value, measured_.change})
    label->setToolTip(definition);
  measured_.value->setAccessibleName(measured_.title->text() + " " + measured_.value->text() + " " +
                                     said);
}

void Headline::show_state() {
  if (session_.computing())
    state_->setText(tr("computing …"));
  else if (!session_.problems().empty())
    state_->setText(tr("shown: the last one that was valid"));
  else if (session_.result())
    state_->setText(tr("simulated in %1 ms").arg(1000 * session_.result()->seconds, 0, 'f', 0));
}

void Headline::refresh() {
  const Theme& theme = theme_of(*this);
  colour(*state_, theme.muted);
  show_state();
  for (const Cell& cell : cells_)
    colour(*cell.title, theme.muted);
  if (!session_.result()) return;
  show_measured();
  const sim::Report& report = session_.result()->forecast.report;
  name_->setText(QString{"%1  ·  %2 × %3"}
                     .arg(QString::fromStdString(report.model))
                     .arg(report.ranks)
                     .arg(QString::fromStdString(report.device)));
  if (!report.not_validated.empty()) {
    name_->setText("⚠ " + tr("not validated") + "  ·  " + name_->text());
    name_->setToolTip(QString::fromStdString(sim::unvalidated_line(report.not_validated)));
  } else {
    name_->setToolTip({});
  }
  const std::vector<Figure> now = headline_of(report);
  const std::vector<Figure> before = session_.baseline()
                                         ? headline_of(session_.baseline()->forecast.report)
                                         : std::vector<Figure>{};
  const bool stale = !session_.problems().empty();
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    const Figure& figure = now[i];
    const Cell& cell = cells_[i];
    cell.title->setText(figure.range.isEmpty() ? figure.title : figure.title + "  " + figure.range);
    cell.value->setText(figure.text);
    colour(*cell.value, stale ? theme.muted : theme.text);
    const bool memory = figure.key == "memory_gib";
    const QString change = before.empty() ? QString{} : change_text(figure, before[i]);
    const bool better =
        !before.empty() && (figure.value < before[i].value) == figure.less_is_better;
    const QColor meaning = !memory                    ? (better ? theme.good : theme.bad)
                           : !report.fits()           ? theme.bad
                           : report.memory_in_doubt() ? theme.warn
                                                      : theme.good;
    const QString arrow = change.startsWith('+') ? "▲ " : "▼ ";
    const QString said = (memory ? fit_text(report) + "  " : QString{}) +
                         (change.isEmpty() ? QString{} : arrow + change);
    cell.change->setText(QString{"<span style='color:%1'>%2</span>"}.arg(meaning.name(), said));
    const QString definition = figure.title + ": " + figure.definition;
    for (QLabel* label : {cell.title, cell.value, cell.change})
      label->setToolTip(definition);
    cell.value->setAccessibleName(cell.title->text() + " " + figure.text + " " + said);
  }
  fit();
}

void Headline::fit() {
  const auto width_of = [](const Cell& cell) {
    return std::max(cell.title->sizeHint().width(),
                    cell.value->sizeHint().width() + 8 + cell.change->sizeHint().width());
  };
  const QMargins margins = layout()->contentsMargins();
  int needed = margins.left() + margins.right() +
               std::max(name_->sizeHint().width(), state_->sizeHint().width());
  for (const Cell& cell : cells_)
    needed += width_of(cell) + layout()->spacing();
  if (session_.measured()) needed += width_of(measured_) + layout()->spacing();
  std::array<bool, shown_figures> shown{};
  shown.fill(true);
  for (const std::size_t least : {std::size_t{4}, std::size_t{5}, std::size_t{3}}) {
    if (needed <= width()) break;
    needed -= width_of(cells_[least]) + layout()->spacing();
    shown[least] = false;
  }
  for (std::size_t i = 0; i < cells_.size(); ++i)
    cells_[i].box->setVisible(shown[i]);
}

void Headline::resizeEvent(QResizeEvent*) {
  fit();
}

void Headline::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) refresh();
}

}  // namespace ui
