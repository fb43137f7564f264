#include "ui/explain/states_pane.hpp"

#include <QEvent>
#include <QHeaderView>
#include <QScrollArea>
#include <QSplitter>
#include <QVBoxLayout>
#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/table_text.hpp"
#include "sim/explain/explanation_sections.hpp"
#include "ui/core/csv.hpp"
#include "ui/core/theme.hpp"
#include "ui/core/words.hpp"

namespace ui {
namespace {

QString time_text(double seconds) {
  return seconds > 0 ? QString::fromStdString(sim::precise(sim::duration_from_seconds(seconds)))
                     : QStringLiteral("0");
}

// Place in Theme::parts, and whether it is hatched: as the parts of a forecast's step, where they
// are alike.
struct StateLook {
  std::size_t part;
  bool hatched;
};
StateLook look_of(sim::StepState state) {
  switch (state) {
    case sim::StepState::compute:
      return {0, false};
    case sim::StepState::transfer:
      return {4, false};
    case sim::StepState::peer:
      return {4, true};
    case sim::StepState::copy:
      return {3, false};
    case sim::StepState::garbage:
      return {5, true};
    case sim::StepState::data_loading:
      return {2, false};
    case sim::StepState::synchronisation:
      return {7, true};
    case sim::StepState::host:
      return {7, false};
    case sim::StepState::between_kernels:
      return {6, false};
    case sim::StepState::untold:
      break;
  }
  return {6, true};
}

using StateSeconds = std::array<double, sim::step_state_count>;

// Of one rank, in the mean over its steps without first ones.
StateSeconds seconds_of(const sim::Explanation& explanation, sim::RankId rank) {
  StateSeconds seconds{};
  double steps = 0;
  for (const sim::RankStep& step : explanation.steps) {
    if (step.first || explanation.ranks[step.rank] != rank) continue;
    ++steps;
    for (std::size_t i = 0; i < seconds.size(); ++i)
      seconds[i] += sim::to_seconds(step.parts.by_state[i]);
  }
  for (double& of : seconds)
    of /= std::max(1.0, steps);
  return seconds;
}

}  // namespace

StatesPane::StatesPane(QWidget* parent) : QWidget{parent} {
  setAccessibleName(tr("Where the time of a step goes"));
  bars_ = new StackedBars{tr("States of a step")};
  auto* scrolled = new QScrollArea;
  scrolled->setWidgetResizable(true);
  scrolled->setFrameShape(QFrame::NoFrame);
  scrolled->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  auto* inside = new QWidget;
  auto* inside_column = new QVBoxLayout{inside};
  inside_column->setContentsMargins(0, 4, 8, 0);
  inside_column->addWidget(bars_);
  notes_ = new QLabel;
  notes_->setWordWrap(true);
  notes_->setForegroundRole(QPalette::PlaceholderText);
  inside_column->addWidget(notes_);
  inside_column->addStretch();
  scrolled->setWidget(inside);

  auto* right = new QWidget;
  auto* column = new QVBoxLayout{right};
  column->setContentsMargins(8, 4, 0, 0);
  column->setSpacing(4);
  auto* title = new QLabel{tr("<b>Ranks that others wait for</b>")};
  column->addWidget(title);
  none_late_ = new QLabel;
  none_late_->setWordWrap(true);
  column->addWidget(none_late_);
  ranks_ = new QTableWidget{0, 4};
  ranks_->setAccessibleName(tr("Ranks that others wait for"));
  ranks_->setHorizontalHeaderLabels(
      {tr("rank"), tr("others wait"), tr("ranks"), tr("it takes longer for")});
  ranks_->horizontalHeaderItem(1)->setToolTip(
      tr("Exposed waiting of a step, in sum over the ranks that wait"));
  ranks_->horizontalHeaderItem(2)->setToolTip(tr("Ranks that wait for it"));
  ranks_->horizontalHeaderItem(3)->setToolTip(
      tr("What the rank does while at least one waits for a collective that it has not begun"));
  ranks_->horizontalHeader()->setStretchLastSection(true);
  ranks_->horizontalHeader()->setHighlightSections(false);
  ranks_->verticalHeader()->hide();
  ranks_->verticalHeader()->setDefaultSectionSize(ranks_->fontMetrics().height() + 6);
  ranks_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  ranks_->setSelectionBehavior(QAbstractItemView::SelectRows);
  ranks_->setSelectionMode(QAbstractItemView::SingleSelection);
  ranks_->setShowGrid(false);
  ranks_->setTabKeyNavigation(false);
  ranks_->setAlternatingRowColors(true);
  column->addWidget(ranks_, 1);
  connect(ranks_, &QTableWidget::currentCellChanged, this, &StatesPane::show_bars);

  auto* halves = new QSplitter{Qt::Horizontal, this};
  halves->addWidget(scrolled);
  halves->addWidget(right);
  halves->setSizes({460, 500});
  auto* all = new QVBoxLayout{this};
  all->setContentsMargins(4, 0, 4, 0);
  all->addWidget(halves);
  refresh();
}

void StatesPane::show_states(ExplanationPtr explanation) {
  explanation_ = std::move(explanation);
  refresh();
}

void StatesPane::refresh() {
  fill_ranks();
  QStringList notes;
  if (explanation_)
    for (const std::string& note : explanation_->notes)
      notes << QString::fromStdString(note).toHtmlEscaped();
  notes_->setText(notes.join("<br>"));
  show_bars();
}

void StatesPane::fill_ranks() {
  const QSignalBlocker quiet{ranks_};
  ranks_->setRowCount(0);
  if (explanation_)
    for (const sim::LateRank& late : explanation_->late) {
      if (late.seconds < sim::least_seen * explanation_->mean.step) continue;
      const int row = ranks_->rowCount();
      ranks_->insertRow(row);
      const QString doing = QString::fromStdString(sim::longer_text(late, explanation_->on_host));
      const std::array cells{QString::number(late.rank.value), time_text(late.seconds),
                             QString::number(late.ranks), doing};
      for (int i = 0; i < ranks_->columnCount(); ++i) {
        auto* cell = new QTableWidgetItem{cells[static_cast<std::size_t>(i)]};
        cell->setTextAlignment((i < 3 ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
        if (i == 3) cell->setToolTip(doing);
        cell->setData(Qt::UserRole, late.rank.value);
        ranks_->setItem(row, i, cell);
      }
    }
  const bool any = ranks_->rowCount() > 0;
  ranks_->setVisible(any);
  none_late_->setVisible(!any);
  none_late_->setText(!explanation_                 ? QString{}
                      : explanation_->arrivals_told ? tr("No rank is waited for.")
                                                    : tr("Not told: the traces of all ranks of a "
                                                         "group tell it."));
  for (int i = 0; i < 3; ++i)
    ranks_->resizeColumnToContents(i);
}

void StatesPane::show_bars() {
  BarsShown shown;
  if (explanation_) {
    const Theme& theme = theme_of(*this);
    const double step = explanation_->mean.step;
    const QTableWidgetItem* const chosen = ranks_->item(ranks_->currentRow(), 0);
    StateSeconds other{};
    shown.first = explanation_->ranks.size() > 1 ? tr("mean") : tr("step");
    if (chosen) {
      const sim::RankId rank{chosen->data(Qt::UserRole).toUInt()};
      shown.second = tr("rank %1").arg(rank.value);
      other = seconds_of(*explanation_, rank);
    }
    for (const auto& state : sim::words_of(sim::StepState{})) {
      const auto i = static_cast<std::size_t>(state.value);
      const double mean = explanation_->mean.by_state[i];
      if (std::max(mean, other[i]) < sim::least_seen * step) continue;
      const StateLook look = look_of(state.value);
      const QString words =
          to_qstring(sim::words_of_state(state.value, explanation_ && explanation_->on_host));
      shown.parts.push_back(
          {words, theme.parts[look.part], look.hatched, mean, other[i], time_text(mean),
           chosen ? time_text(other[i]) : QString{},
           tr("%1: %2 % of the step").arg(words).arg(100 * mean / step, 0, 'f', 1)});
    }
  }
  bars_->show(std::move(shown));
}

void StatesPane::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) show_bars();
}

QString StatesPane::csv() const {
  return csv_of(*ranks_);
}

}  // namespace ui
