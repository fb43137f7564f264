#include "ui/validate/overlay_pane.hpp"

#include <QFileDialog>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QSplitter>
#include <QVBoxLayout>

#include "sim/base/input_error.hpp"
#include "sim/forecast/record.hpp"
#include "sim/report/numbers.hpp"

namespace ui {
namespace {

constexpr double much_longer = 3;
constexpr int name_px = 300;   // names of kernels are longer than the window
constexpr int pause_ms = 150;  // of forecasts that follow each other, before they are compared

QString time_text(double seconds) {
  return QString::fromStdString(sim::precise(sim::duration_from_seconds(seconds)));
}

// The record of the session's forecast, made on any thread: results are immutable.
RecordPtr record_of(const Result& result) {
  return std::make_shared<const sim::Record>(sim::make_record(
      *result.forecast.plan, result.forecast.timeline, sim::origin_of(result.scenario)));
}

}  // namespace

OverlayPane::OverlayPane(Session& session, QWidget* parent) : QWidget{parent}, session_{session} {
  setAccessibleName(tr("Overlay of forecast and run"));
  view_ = new OverlayView;
  auto* halves = new QSplitter{Qt::Vertical};
  halves->addWidget(view_);
  halves->addWidget(make_table());
  halves->setSizes({360, 260});
  auto* column = new QVBoxLayout{this};
  column->setContentsMargins(12, 8, 12, 8);
  column->setSpacing(8);
  column->addWidget(make_top());
  column->addWidget(halves, 1);
  for (BackgroundJob* job : {&job_, &reading_run_, &reading_forecast_})
    connect(job, &BackgroundJob::failed, this, [this](const QString& why) { take(nullptr, why); });
  soon_.setSingleShot(true);
  soon_.setInterval(pause_ms);
  connect(&soon_, &QTimer::timeout, this, &OverlayPane::compare);
  connect(&session_, &Session::result_changed, this, [this] {
    if (run_ && !forecast_) soon_.start();
    show_texts();
  });
  connect(view_, &OverlayView::selection_changed, this, &OverlayPane::follow_selection);
  show_texts();
}

QWidget* OverlayPane::make_top() {
  auto* top = new QWidget;
  auto* column = new QVBoxLayout{top};
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(4);
  auto* buttons = new QHBoxLayout;
  const auto add = [&](const QString& text, const QString& name) {
    auto* button = new QPushButton{text};
    button->setAccessibleName(name);
    buttons->addWidget(button);
    return button;
  };
  auto* run = add(tr("Open &run …"), tr("Open the record of a run"));
  auto* forecast = add(tr("&Forecast from file …"), tr("Open a record as the forecast"));
  own_ = add(tr("Forecast of this &scenario"), tr("Compare with the forecast of this scenario"));
  buttons->addSpacing(18);
  auto* steps = add(tr("Align s&teps"), tr("Align both at the begin of the step"));
  align_ = add(tr("Align at &operator"), tr("Align both at the selected operator"));
  stretch_ = new QCheckBox{tr("&Equal length")};
  stretch_->setAccessibleName(tr("Show the run as long as the forecast"));
  stretch_->setToolTip(tr("Scales the run's times on the axis; texts keep the measured ones"));
  buttons->addWidget(stretch_);
  buttons->addStretch();
  sides_ = new QLabel;
  sides_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  verdict_ = new QLabel;
  verdict_->setWordWrap(true);
  verdict_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  selected_ = new QLabel;
  selected_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  column->addLayout(buttons);
  column->addWidget(sides_);
  column->addWidget(verdict_);
  column->addWidget(selected_);
  connect(run, &QPushButton::clicked, this, &OverlayPane::ask_for_run);
  connect(forecast, &QPushButton::clicked, this, &OverlayPane::ask_for_forecast);
  connect(own_, &QPushButton::clicked, this, [this] { open_forecast({}); });
  connect(steps, &QPushButton::clicked, view_, &OverlayView::align_steps);
  connect(align_, &QPushButton::clicked, view_, &OverlayView::align_selected);
  connect(stretch_, &QCheckBox::toggled, view_, &OverlayView::stretch);
  return top;
}

QWidget* OverlayPane::make_table() {
  sorted_.setSourceModel(&operators_);
  sorted_.setSortRole(OperatorTable::sort_role);
  table_ = new QTableView;
  table_->setAccessibleName(tr("Forecast and run by operator"));
  table_->setModel(&sorted_);
  table_->setSortingEnabled(true);
  table_->sortByColumn(-1, Qt::AscendingOrder);  // what differs most first
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setSelectionMode(QAbstractItemView::SingleSelection);
  table_->setAlternatingRowColors(true);
  table_->setShowGrid(false);
  table_->setTabKeyNavigation(false);
  table_->setTextElideMode(Qt::ElideMiddle);
  table_->setWordWrap(false);
  table_->verticalHeader()->hide();
  table_->verticalHeader()->setDefaultSectionSize(table_->fontMetrics().height() + 6);
  table_->horizontalHeader()->setHighlightSections(false);
  connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
          &OverlayPane::follow_table);
  table_->resizeColumnsToContents();
  return table_;
}

void OverlayPane::ask_for_run() {
  const QStringList paths = QFileDialog::getOpenFileNames(
      this, tr("Open the record of a run, or traces of the PyTorch profiler, one per rank"), {},
      tr("Records and traces (*.json *.json.gz);;All files (*)"));
  if (!paths.isEmpty()) open_run(paths);
}

void OverlayPane::ask_for_forecast() {
  const QString path =
      QFileDialog::getOpenFileName(this, tr("Open a record as the forecast"), {},
                                   tr("Records (*.json *.json.gz);;All files (*)"));
  if (!path.isEmpty()) open_forecast(path);
}

void OverlayPane::open_run(const QStringList& paths) {
  if (paths.isEmpty()) return;
  problem_.clear();
  run_ = {};
  run_name_ = QFileInfo{paths.front()}.fileName();
  if (paths.size() > 1) run_name_ += tr(" and %1 more").arg(paths.size() - 1);
  std::vector<std::string> files;
  for (const QString& path : paths)
    files.push_back(path.toStdString());
  reading_run_.run([this, files](const sim::Control&) -> BackgroundJob::Answer {
    RunFile run = read_run(files);
    return [this, run] {
      run_ = run;
      compare();
    };
  });
  compare();
}

void OverlayPane::open_forecast(const QString& path) {
  problem_.clear();
  forecast_.reset();
  forecast_name_ = QFileInfo{path}.fileName();
  if (!path.isEmpty())
    reading_forecast_.run([this, file = path.toStdString()](const sim::Control&) {
      const auto forecast = std::make_shared<const sim::Record>(sim::read_record(file));
      return BackgroundJob::Answer{[this, forecast] {
        forecast_ = forecast;
        compare();
      }};
    });
  else
    reading_forecast_.cancel();
  compare();
}

bool OverlayPane::reading() const {
  return reading_run_.busy() || reading_forecast_.busy();
}

void OverlayPane::compare() {
  soon_.stop();
  const bool possible =
      run_ && !reading() && (forecast_ || session_.result()) && problem_.isEmpty();
  if (!possible) {
    job_.cancel();
    return take(nullptr, problem_);
  }
  job_.run([this, run = run_, forecast = forecast_,
            result = session_.result()](const sim::Control&) -> BackgroundJob::Answer {
    RecordPtr of = forecast ? forecast : record_of(*result);
    const OverlayPtr made = run.trace ? make_overlay(std::move(of), *run.trace)
                                      : make_overlay(std::move(of), run.record);
    return [this, made] { take(made, {}); };
  });
  show_texts();
}

void OverlayPane::take(OverlayPtr overlay, const QString& problem) {
  problem_ = problem;
  overlay_ = std::move(overlay);
  following_ = true;
  operators_.set_rows(overlay_ ? overlay_->comparison.rows : std::vector<sim::OperatorRow>{},
                      overlay_ && overlay_->traced);
  table_->resizeColumnsToContents();
  table_->setColumnWidth(0, std::min(name_px, table_->columnWidth(0)));
  view_->set_overlay(overlay_);
  following_ = false;
  // Where one would be a speck beside the other, they are shown equally long.
  if (overlay_) {
    const double ratio = overlay_->comparison.step.ratio();
    stretch_->setChecked(ratio > much_longer || ratio * much_longer < 1);
  }
  show_texts();
  Q_EMIT changed();
}

void OverlayPane::follow_selection() {
  const std::optional<OverlayAt>& at = view_->selected();
  align_->setEnabled(at && overlay_->other(*at));
  selected_->setText(at         ? view_->text_of(*at)
                     : overlay_ ? tr("Click an operator or a row of the table to see it on both "
                                     "sides. W S zoom, A D pan, X goes across.")
                                : QString{});
  if (!at || following_) return;
  const sim::Program& program = overlay_->program(*at);
  const std::optional<int> row =
      operators_.find(program.name(sim::OpId{at->op}), program.pass[at->op]);
  if (!row) return;
  following_ = true;
  table_->setCurrentIndex(sorted_.mapFromSource(operators_.index(*row, 0)));
  following_ = false;
}

void OverlayPane::follow_table() {
  if (following_ || !overlay_ || !table_->currentIndex().isValid()) return;
  const sim::OperatorRow& row = operators_.row(sorted_.mapToSource(table_->currentIndex()).row());
  following_ = true;
  view_->select(overlay_->find(row.name, row.pass), true);
  following_ = false;
}

QString OverlayPane::csv() const {
  return overlay_ ? QString::fromStdString(sim::comparison_csv(overlay_->comparison)) : QString{};
}

QString OverlayPane::verdict() const {
  const sim::Comparison& of = overlay_->comparison;
  const double error = of.step.b > 0 ? of.step.a / of.step.b - 1 : 0;
  QString same = of.sameness.same ? tr("<b>yes</b>") : tr("<b>no</b>");
  if (overlay_->traced)
    same = tr("not known, a trace does not tell");
  else if (!of.sameness.same)
    same +=
        QString{" (%1)"}.arg(QString::fromStdString(of.sameness.first_difference).toHtmlEscaped());
  QString text = tr("Step: forecast <b>%1</b>, measured <b>%2</b>, error <b>%3%4 %</b>. "
                    "Same work: %5. ")
                     .arg(time_text(of.step.a), time_text(of.step.b), error < 0 ? "−" : "+")
                     .arg(std::abs(100 * error), 0, 'f', 1)
                     .arg(same);
  const sim::RecordMatch& match = overlay_->match;
  text += tr("<b>%1 %</b> of the measured time (%2 of %3 %4) has its operator in the forecast.")
              .arg(100 * match.share(), 0, 'f', 1)
              .arg(match.matched_operators)
              .arg(match.operators)
              .arg(overlay_->traced ? tr("kernels") : tr("operators"));
  if (overlay_->shown < overlay_->match.tracks.size())
    text +=
        tr(" Shown are %1 of %2 ranks.").arg(overlay_->shown).arg(overlay_->match.tracks.size());
  return text;
}

void OverlayPane::show_texts() {
  own_->setVisible(forecast_ != nullptr);
  stretch_->setEnabled(overlay_ != nullptr);
  const QString forecast = !forecast_name_.isEmpty() ? forecast_name_
                           : session_.result()
                               ? QString::fromStdString(session_.result()->scenario.name)
                               : tr("none: open a scenario (Ctrl+O)");
  sides_->setText(tr("Forecast: <b>%1</b> &nbsp; Run: <b>%2</b>")
                      .arg(forecast.toHtmlEscaped(),
                           run_name_.isEmpty() ? tr("none yet") : run_name_.toHtmlEscaped()));
  if (!problem_.isEmpty()) {
    verdict_->setText("⚠ " + problem_.toHtmlEscaped());
  } else if (overlay_) {
    verdict_->setText(verdict());
  } else {
    verdict_->setText(reading()     ? tr("reading the files …")
                      : job_.busy() ? tr("comparing …")
                                    : QString{});
  }
  view_->set_empty_text(
      tr("Open the record of a run to see it below the forecast: Open run, or drop the file "
         "here.\n\nA run makes one with: stepcast run SCENARIO --record FILE\n"
         "Traces of the PyTorch profiler (one per rank) and of stepcast --trace open, too, as JSON "
         "or in gzip."));
}

}  // namespace ui
