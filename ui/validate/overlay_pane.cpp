#include "ui/validate/overlay_pane.hpp"

#include <QFileDialog>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QSplitter>
#include <QVBoxLayout>

#include "sim/report/numbers.hpp"
#include "ui/validate/cause_operators.hpp"

namespace ui {
namespace {

constexpr double much_longer = 3;
constexpr int name_px = 300;   // names of kernels are longer than the window
constexpr int pause_ms = 150;  // of forecasts that follow each other, before they are compared

QString time_text(double seconds) {
  return QString::fromStdString(sim::precise(sim::duration_from_seconds(seconds)));
}

}  // namespace

OverlayPane::OverlayPane(Session& session, QWidget* parent) : QWidget{parent}, session_{session} {
  setAccessibleName(tr("Overlay of forecast and run"));
  view_ = new OverlayView;
  auto* halves = new QSplitter{Qt::Vertical};
  halves->addWidget(view_);
  explain_ = new ExplainPane;
  explain_->addTab(make_table(), tr("Operators"));
  halves->addWidget(explain_);
  halves->setSizes({300, 320});
  auto* column = new QVBoxLayout{this};
  column->setContentsMargins(12, 8, 12, 8);
  column->setSpacing(8);
  column->addWidget(make_top());
  column->addWidget(halves, 1);
  for (BackgroundJob* job : {&job_, &reading_run_, &reading_forecast_}) {
    connect(job, &BackgroundJob::failed, this, [this](const QString& why) { take({}, why); });
    connect(job, &BackgroundJob::busy_changed, this,
            [this] { cancel_->setVisible(reading() || job_.busy()); });
  }
  soon_.setSingleShot(true);
  soon_.setInterval(pause_ms);
  connect(&soon_, &QTimer::timeout, this, &OverlayPane::compare);
  connect(&session_, &Session::result_changed, this, [this] {
    if (run_ && !forecast_) soon_.start();
    show_texts();
  });
  connect(view_, &OverlayView::selection_changed, this, &OverlayPane::follow_selection);
  connect(&explain_->waterfall(), &WaterfallTree::selected_changed, this,
          &OverlayPane::follow_cause);
  connect(&explain_->waterfall(), &WaterfallTree::activated_again, this, [this] { walk(true); });
  connect(&explain_->roofline(), &RooflineChart::kernel_chosen, this, &OverlayPane::follow_kernel);
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
  auto* run = add(tr("Open &run …"), tr("Open the record or the traces of a run"));
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
  cancel_ = add(tr("&Cancel"), tr("Cancel the reading and comparing of the run"));
  cancel_->hide();
  sides_ = new QLabel;
  sides_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  differences_ = new QLabel;
  differences_->setWordWrap(true);
  differences_->setAccessibleName(tr("What shows that this is not the same job"));
  differences_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  differences_->hide();
  verdict_ = new QLabel;
  verdict_->setWordWrap(true);
  verdict_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  selected_ = new QLabel;
  selected_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  column->addLayout(buttons);
  column->addWidget(sides_);
  column->addWidget(differences_);
  column->addWidget(verdict_);
  column->addWidget(selected_);
  connect(run, &QPushButton::clicked, this, &OverlayPane::ask_for_run);
  connect(forecast, &QPushButton::clicked, this, &OverlayPane::ask_for_forecast);
  connect(own_, &QPushButton::clicked, this, [this] { open_forecast({}); });
  connect(cancel_, &QPushButton::clicked, this, &OverlayPane::cancel);
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
      this, tr("Open the record of a run, or its traces: of the PyTorch profiler or of nsys"), {},
      tr("Records and traces (*.json *.json.gz *.sqlite);;All files (*)"));
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
  if (!run_ || reading() || !problem_.isEmpty()) {
    job_.cancel();
    return take({}, problem_);
  }
  job_.run([this, run = run_, side = ForecastSide{forecast_, session_.result()}](
               const sim::Control& control) -> BackgroundJob::Answer {
    const ComparedRun made = compare_run(run, side, control);
    return [this, made] { take(made, {}); };
  });
  show_texts();
}

// What has been compared stays.
void OverlayPane::cancel() {
  reading_run_.cancel();
  reading_forecast_.cancel();
  job_.cancel();
  show_texts();
}

void OverlayPane::take(const ComparedRun& compared, const QString& problem) {
  problem_ = problem;
  overlay_ = compared.overlay;
  unexplained_ = QString::fromStdString(compared.unexplained);
  following_ = true;
  operators_.set_rows(overlay_ ? overlay_->comparison.rows : std::vector<sim::OperatorRow>{},
                      overlay_ && overlay_->traced);
  table_->resizeColumnsToContents();
  table_->setColumnWidth(0, std::min(name_px, table_->columnWidth(0)));
  view_->set_overlay(overlay_);
  explain_->show_explanation(compared.explanation, why_unexplained());
  const QString differences =
      compared.explanation ? differences_text(*compared.explanation) : QString{};
  differences_->setText(differences);
  differences_->setVisible(!differences.isEmpty());
  following_ = false;
  follow_cause();
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

void OverlayPane::follow_cause() {
  walk_.clear();
  walked_ = 0;
  const std::optional<CauseAt> cause = explain_->waterfall().selected();
  if (!cause || !overlay_ || following_) return;
  walk_ = cause_operators(*overlay_, *explain_->explanation()->waterfall, *cause);
  show_place();
}

void OverlayPane::walk(bool forward) {
  if (walk_.empty()) return;
  walked_ = (walked_ + (forward ? 1 : walk_.size() - 1)) % walk_.size();
  show_place();
}

void OverlayPane::show_place() {
  if (walk_.empty()) return explain_->set_place(tr("None of its operators is shown."));
  const OverlayAt& at = walk_[walked_];
  explain_->set_place(tr("Shown: its operator %1 of %2, what differs most first. Enter: the next.")
                          .arg(walked_ + 1)
                          .arg(walk_.size()));
  view_->close_up(at);
}

void OverlayPane::follow_kernel(const QString& name) {
  if (!overlay_) return;
  if (const std::optional<OverlayAt> at = longest_named(*overlay_, name.toStdString()))
    view_->close_up(*at);
}

QString OverlayPane::why_unexplained() const {
  if (!unexplained_.isEmpty()) return "⚠ " + unexplained_;
  if (!problem_.isEmpty() || !run_) return {};
  return forecast_ ? tr("The forecast of the file has not all ranks of the run.")
                   : tr("Open the scenario of the job (Ctrl+O) to see why the run is not as its "
                        "forecast.");
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
                      : job_.busy() ? tr("looking for the causes …")
                                    : QString{});
  }
  view_->set_empty_text(
      run_ ? tr("Open the scenario of the job (Ctrl+O) to see its forecast above the run.")
           : tr("Open the record or the traces of a run to see it below the forecast: Open run, or "
                "drop the files here.\n\nA run makes a record with: stepcast run SCENARIO --record "
                "FILE\nTraces of the PyTorch profiler (one per rank), of nsys (sqlite) and of "
                "stepcast --trace open, too, as JSON or in gzip."));
}

}  // namespace ui
