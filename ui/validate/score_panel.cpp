#include "ui/validate/score_panel.hpp"

#include <QGridLayout>

#include "ui/core/theme.hpp"

namespace ui {
namespace {

QString percent(const std::optional<double>& value) {
  return value ? QString{"%1 %"}.arg(100 * *value, 0, 'f', 1) : QStringLiteral("–");
}

struct Column {
  QString title, definition;
  QString (*text)(const sim::SetScore&);
};

const std::array<Column, ScorePanel::columns>& shown_columns() {
  static const std::array<Column, ScorePanel::columns> columns{{
      {ScorePanel::tr("timed rows"), ScorePanel::tr("Rows with a measured time and a forecast"),
       [](const sim::SetScore& score) { return QString::number(score.scored); }},
      {ScorePanel::tr("median error"),
       ScorePanel::tr("Half of the rows have a smaller |forecast − measured| / measured"),
       [](const sim::SetScore& score) { return percent(score.median_abs_error); }},
      {ScorePanel::tr("90th percentile"),
       ScorePanel::tr("Nine of ten rows have a smaller absolute error"),
       [](const sim::SetScore& score) { return percent(score.p90_abs_error); }},
      {ScorePanel::tr("worst"), ScorePanel::tr("The largest absolute error of a row"),
       [](const sim::SetScore& score) { return percent(score.worst_abs_error); }},
      {ScorePanel::tr("rank correlation"),
       ScorePanel::tr("Spearman's: 1 where the forecast orders all runs as they were measured"),
       [](const sim::SetScore& score) {
         return score.rank_correlation ? QString::number(*score.rank_correlation, 'f', 3)
                                       : QStringLiteral("–");
       }},
      {ScorePanel::tr("memory, median error"),
       ScorePanel::tr("Of the rows whose memory was published"),
       [](const sim::SetScore& score) { return percent(score.median_memory_error); }},
      {ScorePanel::tr("fit predicted correctly"),
       ScorePanel::tr("Runs of which the forecast says correctly whether they fit in memory"),
       [](const sim::SetScore& score) {
         return score.fits_told > 0
                    ? ScorePanel::tr("%1 of %2").arg(score.fits_right).arg(score.fits_told)
                    : QStringLiteral("–");
       }},
  }};
  return columns;
}

}  // namespace

ScorePanel::ScorePanel(QWidget* parent) : QWidget{parent} {
  setAccessibleName(tr("Errors of the rows shown"));
  auto* grid = new QGridLayout{this};
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setHorizontalSpacing(22);
  grid->setVerticalSpacing(1);
  const std::array names{tr("held-out"), tr("calibration")};
  for (int line = 0; line < 2; ++line) {
    auto* name = new QLabel{names[static_cast<std::size_t>(line)]};
    if (line == 0) {
      QFont bold = name->font();
      bold.setBold(true);
      name->setFont(bold);
    }
    name->setToolTip(line == 0 ? tr("Rows that no parameter was fitted on")
                               : tr("Rows that parameters were fitted on: they prove nothing"));
    grid->addWidget(name, line + 1, 0);
  }
  for (int column = 0; column < columns; ++column) {
    const Column& of = shown_columns()[static_cast<std::size_t>(column)];
    auto* title = new QLabel{of.title};
    title->setForegroundRole(QPalette::PlaceholderText);
    title->setToolTip(of.definition);
    grid->addWidget(title, 0, column + 1, Qt::AlignRight);
    for (std::size_t line = 0; line < lines_.size(); ++line) {
      auto* value = new QLabel;
      value->setToolTip(of.definition);
      value->setTextInteractionFlags(Qt::TextSelectableByMouse);
      if (line == 0 && column < 3) {
        QFont bold = value->font();
        bold.setBold(true);
        value->setFont(bold);
      }
      grid->addWidget(value, static_cast<int>(line) + 1, column + 1, Qt::AlignRight);
      lines_[line][static_cast<std::size_t>(column)] = value;
    }
  }
  grid->setColumnStretch(columns + 1, 1);
  show_scores({}, {});
}

void ScorePanel::show_scores(const sim::SetScore& held_out, const sim::SetScore& calibration) {
  fill(lines_[0], held_out);
  fill(lines_[1], calibration);
}

void ScorePanel::fill(const Line& line, const sim::SetScore& score) {
  for (std::size_t column = 0; column < line.size(); ++column) {
    const Column& of = shown_columns()[column];
    line[column]->setText(of.text(score));
    line[column]->setAccessibleName(of.title + " " + line[column]->text());
  }
}

QString ScorePanel::text(sim::RowUse use, int column) const {
  return lines_[use == sim::RowUse::score ? 0 : 1][static_cast<std::size_t>(column)]->text();
}

}  // namespace ui
