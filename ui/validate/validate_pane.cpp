#include "ui/validate/validate_pane.hpp"

#include <QFileDialog>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QMessageBox>
#include <QSplitter>
#include <QVBoxLayout>

#include "sim/base/input_error.hpp"
#include "sim/config/data_folder.hpp"
#include "sim/scores/row_yaml.hpp"
#include "ui/core/write_file.hpp"

namespace ui {
namespace {

constexpr int refresh_ms = 200;

}  // namespace

ValidatePane::ValidatePane(Session& session, std::string folder, QWidget* parent)
    : QWidget{parent},
      session_{session},
      folder_{folder.empty() ? sim::data_folder() + "/validation/published" : std::move(folder)} {
  setAccessibleName(tr("Published rows"));
  filters_ = new RowFilters;
  scores_ = new ScorePanel;
  scatter_ = new RowScatter{table_};
  details_ = new RowDetails;

  auto* left = new QSplitter{Qt::Vertical};
  left->addWidget(scatter_);
  left->addWidget(details_);
  left->setStretchFactor(0, 1);
  left->setSizes({400, 170});
  auto* halves = new QSplitter{Qt::Horizontal};
  halves->addWidget(left);
  halves->addWidget(make_table());
  halves->setStretchFactor(0, 1);
  halves->setStretchFactor(1, 1);
  halves->setSizes({560, 700});
  auto* column = new QVBoxLayout{this};
  column->setContentsMargins(12, 8, 12, 8);
  column->setSpacing(8);
  column->addWidget(filters_);
  column->addWidget(make_top());
  column->addWidget(halves, 1);

  soon_.setSingleShot(true);
  soon_.setInterval(refresh_ms);
  connect(&soon_, &QTimer::timeout, this, &ValidatePane::refresh);
  connect(filters_, &RowFilters::changed, this, &ValidatePane::refilter);
  connect(scatter_, &RowScatter::row_chosen, this, &ValidatePane::select);
  connect(scatter_, &RowScatter::row_activated, this, [this](std::size_t place) {
    select(place);
    open_selected();
  });
  connect(details_, &RowDetails::open_asked, this, &ValidatePane::open_selected);
  connect_job();
  show_state();
}

QWidget* ValidatePane::make_top() {
  auto* top = new QWidget;
  auto* row = new QHBoxLayout{top};
  row->setContentsMargins(0, 0, 0, 0);
  row->addWidget(scores_, 1);
  auto* right = new QVBoxLayout;
  right->setSpacing(4);
  state_ = new QLabel;
  state_->setAccessibleName(tr("State of the forecasts"));
  progress_ = new QProgressBar;
  progress_->setAccessibleName(tr("Rows that have been forecast"));
  progress_->setTextVisible(false);
  progress_->setFixedSize(220, 8);
  auto* buttons = new QHBoxLayout;
  stop_ = new QPushButton;
  auto* save = new QPushButton{tr("Save &CSV …")};
  save->setAccessibleName(tr("Save the rows shown as CSV"));
  buttons->addStretch();
  buttons->addWidget(stop_);
  buttons->addWidget(save);
  right->addWidget(state_, 0, Qt::AlignRight);
  right->addWidget(progress_, 0, Qt::AlignRight);
  right->addLayout(buttons);
  row->addLayout(right);
  connect(stop_, &QPushButton::clicked, this, [this] { running() ? stop() : start(); });
  connect(save, &QPushButton::clicked, this, &ValidatePane::save_table);
  return top;
}

QWidget* ValidatePane::make_table() {
  view_ = new QTableView;
  view_->setAccessibleName(tr("Table of the rows"));
  view_->setModel(&rows_);
  view_->setSortingEnabled(true);
  view_->sortByColumn(-1, Qt::AscendingOrder);  // as the sets have them
  view_->setSelectionBehavior(QAbstractItemView::SelectRows);
  view_->setSelectionMode(QAbstractItemView::SingleSelection);
  view_->setAlternatingRowColors(true);
  view_->setShowGrid(false);
  view_->setWordWrap(false);
  view_->setTextElideMode(Qt::ElideMiddle);  // names differ at their ends
  view_->setTabKeyNavigation(false);         // Tab leaves the table
  view_->verticalHeader()->hide();
  view_->verticalHeader()->setDefaultSectionSize(view_->fontMetrics().height() + 6);
  view_->horizontalHeader()->setHighlightSections(false);
  view_->horizontalHeader()->setStretchLastSection(true);
  connect(view_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
          [this](const QModelIndex& now) {
            if (now.isValid()) select(static_cast<std::size_t>(rows_.mapToSource(now).row()));
          });
  connect(view_, &QTableView::activated, this, &ValidatePane::open_selected);
  return view_;
}

void ValidatePane::connect_job() {
  connect(&job_, &RowJob::loaded, this, [this](SetsPtr sets) {
    table_.set_sets(std::move(sets));
    refresh();
    fit_columns();
  });
  connect(&job_, &RowJob::predicted, this, [this](std::size_t place, RowResultPtr result) {
    table_.set_result(place, std::move(result));
    if (!soon_.isActive()) soon_.start();
  });
  connect(&job_, &RowJob::failed, this, [this](const QString& why) {
    failure_ = why;
    show_state();
  });
  connect(&job_, &RowJob::ended, this, [this] {
    refresh();
    fit_columns();
    Q_EMIT ended();
  });
}

// As wide as their texts, but long names and notes must not push the rest out of sight.
void ValidatePane::fit_columns() {
  constexpr int most_px = 210;
  view_->resizeColumnsToContents();
  for (int column = 0; column < RowTable::note; ++column)
    view_->setColumnWidth(column, std::min(most_px, view_->columnWidth(column)));
}

void ValidatePane::start() {
  started_ = true;
  failure_.clear();
  if (table_.size() == 0)
    job_.start(folder_);
  else
    job_.start(table_.sets(), table_.waiting());
  show_state();
}

void ValidatePane::stop() {
  job_.stop();
}

void ValidatePane::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (!started_) start();
}

void ValidatePane::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) refresh();
}

void ValidatePane::refilter() {
  rows_.set_filter(filters_->filter());
  refresh();
}

void ValidatePane::refresh() {
  soon_.stop();
  filters_->offer(table_);
  scatter_->show_rows(rows_.places());
  scatter_->select_row(selected_);
  scores_->show_scores(rows_.score(sim::RowUse::score), rows_.score(sim::RowUse::fit));
  if (selected_) details_->show_row(table_, *selected_);
  show_state();
}

void ValidatePane::show_state() {
  const std::size_t all = table_.size();
  progress_->setRange(0, all > 0 ? static_cast<int>(all) : 1);
  progress_->setValue(static_cast<int>(table_.done()));
  std::size_t skipped = 0;
  for (std::size_t i = 0; i < all; ++i)
    skipped += state_of(table_.result(i)) == RowState::skipped ? 1 : 0;
  if (!failure_.isEmpty())
    state_->setText(failure_);
  else if (all == 0)
    state_->setText(running() ? tr("reading the sets …") : tr("not started"));
  else
    state_->setText(tr("%1 of %2 rows forecast, %3 skipped; %4 shown")
                        .arg(table_.done() - skipped)
                        .arg(all)
                        .arg(skipped)
                        .arg(rows_.rowCount()));
  const bool left = all == 0 || table_.done() < all;
  stop_->setText(running() ? tr("&Stop") : tr("&Forecast the rest"));
  stop_->setAccessibleName(running() ? tr("Stop forecasting rows")
                                     : tr("Forecast the rows that are left"));
  stop_->setVisible(running() || left);
}

void ValidatePane::select(std::size_t place) {
  if (selected_ == place) return;
  selected_ = place;
  scatter_->select_row(place);
  details_->show_row(table_, place);
  const QModelIndex at = rows_.mapFromSource(table_.index(static_cast<int>(place), RowTable::id));
  if (at.isValid() && view_->currentIndex().row() != at.row()) view_->setCurrentIndex(at);
}

void ValidatePane::open_selected() {
  if (!selected_) return;
  const RowResultPtr& result = table_.result(*selected_);
  if (!result || !result->prediction) return;
  const sim::MeasuredSet& set = table_.set_of(*selected_);
  const std::string folder = folder_ + '/' + set.name;
  std::string yaml;
  try {
    yaml = sim::row_yaml(set, result->row, folder);
  } catch (const std::exception& error) {
    QMessageBox::warning(this, tr("Stepcast"), error.what());
    return;
  }
  session_.open_text(QString::fromStdString(folder + '/' + result->row.id + ".yaml"),
                     std::move(yaml));
  Measured measured;
  measured.source = set.title;
  if (result->row.has_time()) measured.seconds = sim::to_seconds(result->row.measured);
  if (set.quantity == sim::Quantity::layer) measured.layer = set.layer;
  measured.out_of_memory = result->row.outcome == sim::Outcome::out_of_memory;
  session_.set_measured(std::move(measured));
  Q_EMIT opened();
}

void ValidatePane::save_table() {
  const QString path = QFileDialog::getSaveFileName(this, tr("Save the rows shown"), "rows.csv",
                                                    tr("Tables (*.csv)"));
  if (path.isEmpty()) return;
  if (const QString problem = write_file(path, csv().toUtf8()); !problem.isEmpty())
    QMessageBox::warning(this, tr("Stepcast"), problem);
}

}  // namespace ui
