#include "ui/plan/plan_pane.hpp"

#include <QApplication>
#include <QClipboard>
#include <QFileDialog>
#include <QFileInfo>
#include <QMessageBox>
#include <QScrollArea>
#include <QSplitter>
#include <QVBoxLayout>
#include <utility>

#include "sim/page/capacity_page.hpp"
#include "sim/scenario/write_scenario.hpp"
#include "ui/core/words.hpp"
#include "ui/core/write_file.hpp"
#include "ui/plan/plan_text.hpp"

namespace ui {
namespace {

QLabel* text_label(const QString& accessible_name) {
  auto* label = new QLabel;
  label->setWordWrap(true);
  label->setAccessibleName(accessible_name);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  return label;
}

QPushButton* button(const QString& title, const QString& accessible_name, const QString& help) {
  auto* made = new QPushButton{title};
  made->setAccessibleName(accessible_name);
  made->setToolTip(help);
  return made;
}

}  // namespace

PlanPane::PlanPane(Session& session, QWidget* parent) : QWidget{parent}, session_{session} {
  setAccessibleName(tr("Plan a cluster"));
  auto* splitter = new QSplitter{Qt::Horizontal};
  splitter->setChildrenCollapsible(false);
  splitter->addWidget(make_left());
  splitter->addWidget(make_right());
  splitter->setStretchFactor(1, 1);
  splitter->setSizes({290, 990});
  auto* whole = new QVBoxLayout{this};
  whole->setContentsMargins(0, 0, 0, 0);
  whole->addWidget(splitter);
  connect(&session_, &Session::result_changed, this, &PlanPane::adopt_scenario);
  connect(&job_, &PlanJob::changed, this, &PlanPane::refresh);
  connect(&job_, &PlanJob::failed, this, &PlanPane::show_failure);
  answers_->fit_height();
  refresh();
}

QWidget* PlanPane::make_left() {
  auto* left = new QWidget;
  left->setMinimumWidth(280);
  auto* column = new QVBoxLayout{left};
  column->setContentsMargins(6, 6, 6, 6);
  auto* buttons = new QHBoxLayout;
  start_ = button({}, tr("Start the plan"), tr("Ctrl+Enter; Enter in a field"));
  start_->setDefault(true);
  stop_ = button(tr("S&top"), tr("Stop the plan"), tr("Ctrl+. ; what was found stays"));
  stop_->setShortcut(QKeySequence{"Ctrl+."});
  buttons->addWidget(start_, 1);
  buttons->addWidget(stop_);
  column->addLayout(buttons);
  bar_ = new QProgressBar;
  bar_->setAccessibleName(tr("Numbers of GPUs looked at"));
  bar_->setTextVisible(false);
  bar_->setFixedHeight(6);
  column->addWidget(bar_);
  progress_ = text_label(tr("Progress of the plan"));
  problem_ = text_label(tr("What is wrong with the plan"));
  problem_->setForegroundRole(QPalette::BrightText);  // the theme's colour of what is wrong
  problem_->hide();
  column->addWidget(progress_);
  column->addWidget(problem_);
  form_ = new PlanForm;
  auto* scroll = new QScrollArea;
  scroll->setWidget(form_);
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll->setAccessibleName(tr("What is asked of the plan"));
  column->addWidget(scroll, 1);
  connect(start_, &QPushButton::clicked, this, &PlanPane::start);
  connect(stop_, &QPushButton::clicked, this, &PlanPane::stop);
  connect(form_, &PlanForm::submitted, this, &PlanPane::start);
  return left;
}

QWidget* PlanPane::make_buttons() {
  auto* row = new QWidget;
  auto* line = new QHBoxLayout{row};
  line->setContentsMargins(0, 0, 0, 0);
  open_ = button(tr("&Open as scenario"), tr("Open the layout as scenario"),
                 tr("The layout that is selected, on its GPUs, in What if."));
  page_ = button(tr("Save &page …"), tr("Save the plan as a page"),
                 tr("One HTML file with all figures, to send."));
  csv_ = button(tr("Save as &CSV …"), tr("Save all numbers of GPUs as CSV"), {});
  copy_ = button(tr("Copy co&mmand"), tr("Copy the plan as commands"),
                 tr("The same plan on the command line."));
  for (QPushButton* one : {open_, page_, csv_, copy_})
    line->addWidget(one);
  line->addStretch();
  connect(open_, &QPushButton::clicked, this, &PlanPane::open_as_scenario);
  connect(page_, &QPushButton::clicked, this, &PlanPane::save_page);
  connect(csv_, &QPushButton::clicked, this, &PlanPane::save_csv);
  connect(copy_, &QPushButton::clicked, this, &PlanPane::copy_commands);
  return row;
}

QWidget* PlanPane::make_right() {
  sentence_ = text_label(tr("The answer"));
  QFont large = sentence_->font();
  large.setPointSizeF(1.35 * large.pointSizeF());
  sentence_->setFont(large);
  surer_ = text_label(tr("What would make it surer"));
  surer_->setForegroundRole(QPalette::PlaceholderText);
  answers_ = new PlanTable{tr("Answers"), answer_columns(), false};
  front_ = new PlanFront;
  facts_ = new FactsTable{tr("The selected number of GPUs")};
  numbers_ = new PlanTable{tr("All numbers of GPUs"), number_columns(), true};
  auto* middle = new QSplitter{Qt::Horizontal};
  middle->setChildrenCollapsible(false);
  middle->addWidget(front_);
  middle->addWidget(facts_);
  middle->setStretchFactor(0, 1);
  middle->setSizes({640, 340});
  auto* lower = new QSplitter{Qt::Vertical};
  lower->setChildrenCollapsible(false);
  lower->addWidget(middle);
  lower->addWidget(numbers_);
  lower->setStretchFactor(0, 1);
  lower->setSizes({330, 190});
  auto* right = new QWidget;
  auto* column = new QVBoxLayout{right};
  column->setContentsMargins(8, 8, 6, 6);
  column->setSpacing(6);
  for (QWidget* one : std::initializer_list<QWidget*>{sentence_, surer_, make_buttons(), answers_})
    column->addWidget(one);
  column->addWidget(lower, 1);
  for (PlanTable* table : {answers_, numbers_})
    connect(table, &PlanTable::point_chosen, this, [this](std::size_t point) {
      chosen_by_user_ = true;
      choose(point);
    });
  connect(front_, &PlanFront::point_chosen, this, [this](std::size_t point) {
    chosen_by_user_ = true;
    choose(point);
  });
  return right;
}

void PlanPane::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  adopt_scenario();
}

void PlanPane::adopt_scenario() {
  if (isVisible() && session_.result()) form_->show_scenario(&session_.result()->scenario);
}

void PlanPane::start() {
  PlanQuestion question = form_->question();
  question.path = session_.path();
  question.yaml = session_.yaml();
  question.overrides = session_.overrides();
  ReadQuestion read = read_question(question);
  problem_->hide();
  form_->show_problems(read.problems);
  if (!read.problems.empty()) return changed();
  commands_ = commands_of(question);
  chosen_by_user_ = false;
  chosen_.reset();
  job_.start(std::move(read.wish));
}

void PlanPane::stop() {
  job_.stop();
}

void PlanPane::refresh() {
  const bool running = job_.running();
  start_->setText(running ? tr("Re&start") : tr("&Plan"));
  start_->setShortcut(QKeySequence{"Ctrl+Return"});
  stop_->setEnabled(running);
  show_progress();
  if (shown_ != job_.news().plan) refresh_plan();
  show_sentence();
  Q_EMIT changed();
}

void PlanPane::refresh_plan() {
  shown_ = job_.news().plan;
  answers_->set_rows(shown_ ? answer_rows(*shown_) : std::vector<PlanRow>{});
  answers_->fit_height();
  numbers_->set_rows(shown_ ? number_rows(*shown_) : std::vector<PlanRow>{});
  front_->show_plan(shown_);
  front_->set_empty_text(
      tr("Give the tokens to train on: then each number of GPUs is a point "
         "here, by the days and the cost of the run."));
  if (!shown_ || (chosen_ && *chosen_ >= shown_->points.size())) chosen_.reset();
  if (shown_ && !chosen_by_user_) choose_main();
  if (chosen_)
    choose(*chosen_);
  else
    refresh_facts();
  for (QPushButton* one : {page_, csv_})
    one->setEnabled(shown_ != nullptr);
  copy_->setEnabled(shown_ && !commands_.empty());
}

void PlanPane::choose_main() {
  const std::optional<std::size_t> main = main_answer(*shown_);
  if (!main) return;
  chosen_ = shown_->answers[*main].point;
  answers_->select_row(static_cast<int>(*main));
}

void PlanPane::choose(std::size_t point) {
  chosen_ = point;
  answers_->select_point(point);
  numbers_->select_point(point);
  front_->select_point(point);
  refresh_facts();
  Q_EMIT changed();
}

void PlanPane::refresh_facts() {
  const bool known = shown_ && chosen_;
  facts_->set_facts(known ? point_facts(*shown_, *chosen_)
                          : std::vector<std::pair<QString, QString>>{});
  open_->setEnabled(known);
}

void PlanPane::show_progress() {
  const PlanNews& news = job_.news();
  const bool begun = job_.state() != PlanState::idle;
  bar_->setVisible(begun);
  progress_->setVisible(begun);
  if (!begun) return;
  bar_->setRange(0, static_cast<int>(news.numbers));
  bar_->setValue(job_.state() == PlanState::done ? bar_->maximum()
                                                 : static_cast<int>(news.looked_at));
  QString text = tr("%1 of %2 numbers of GPUs").arg(news.looked_at).arg(news.numbers);
  if (job_.state() == PlanState::done) text = tr("done: %1 numbers of GPUs").arg(news.looked_at);
  if (job_.state() == PlanState::stopped) text = tr("stopped after ") + text;
  if (job_.running() && !news.line.isEmpty()) text += '\n' + news.line;
  progress_->setText(text);
}

void PlanPane::show_sentence() {
  surer_->setVisible(shown_ && !shown_->measure.empty() && job_.state() == PlanState::done);
  if (surer_->isVisibleTo(this)) {
    surer_->setText(tr("To be surer: %1.").arg(to_qstring(shown_->measure)));
  }
  if (!shown_)
    return sentence_->setText(
        job_.running() ? tr("The first number of GPUs is being looked at …")
                       : tr("How many GPUs, of which kind, in which time, at which price? "
                            "Fill in the fields on the left, and press Plan."));
  if (job_.state() == PlanState::done) return sentence_->setText(sentence_of(*shown_));
  const QString so_far =
      main_answer(*shown_) ? sentence_of(*shown_) : tr("no number of GPUs keeps the wish yet.");
  sentence_->setText(tr("So far: %1").arg(so_far));
}

void PlanPane::show_failure(const std::vector<sim::Problem>& problems) {
  std::vector<FieldProblem> of_fields;
  for (sim::Problem problem : problems) {
    problem.source_line.clear();
    of_fields.push_back(
        {field_of(problem), problem.where.file.empty() ? problem.what : sim::to_text(problem)});
  }
  form_->show_problems(of_fields);
  problem_->setText(tr("⚠ The plan could not be made: see the fields below."));
  problem_->show();
  Q_EMIT changed();
}

QString PlanPane::problem() const {
  return problem_->isHidden() ? QString{} : problem_->text();
}

void PlanPane::open_as_scenario() {
  if (!shown_ || !chosen_) return;
  try {
    const sim::Scenario scenario = sim::point_scenario(shown_->wish, shown_->points[*chosen_]);
    const QString path = QFileInfo{"plan.yaml"}.absoluteFilePath();
    const std::string folder = QFileInfo{path}.path().toStdString();
    session_.open_text(path, sim::scenario_yaml(scenario, folder));
    Q_EMIT opened_point();
  } catch (const std::exception& error) {
    QMessageBox::warning(this, tr("Open as scenario"), error.what());
  }
}

QByteArray PlanPane::page() const {
  return QByteArray::fromStdString(sim::capacity_page(*shown_, commands_));
}

void PlanPane::save_page() {
  const QString path =
      QFileDialog::getSaveFileName(this, tr("Save the page"), "plan.html", tr("Pages (*.html)"));
  if (!path.isEmpty()) write(path, page());
}

void PlanPane::save_csv() {
  const QString path =
      QFileDialog::getSaveFileName(this, tr("Save the table"), "plan.csv", tr("CSV (*.csv)"));
  if (!path.isEmpty()) write(path, QByteArray::fromStdString(sim::capacity_csv(*shown_)));
}

void PlanPane::write(const QString& path, const QByteArray& content) {
  if (const QString problem = write_file(path, content); !problem.isEmpty())
    QMessageBox::warning(this, tr("Save"), problem);
}

void PlanPane::copy_commands() {
  QApplication::clipboard()->setText(QString::fromStdString(commands_));
}

}  // namespace ui
