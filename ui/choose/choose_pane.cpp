#include "ui/choose/choose_pane.hpp"

#include <QFileDialog>
#include <QMessageBox>
#include <QScrollArea>
#include <QSplitter>
#include <QVBoxLayout>
#include <algorithm>

#include "sim/report/numbers.hpp"
#include "ui/choose/export_dialog.hpp"
#include "ui/choose/open_layout.hpp"
#include "ui/core/csv.hpp"
#include "ui/core/theme.hpp"
#include "ui/core/words.hpp"
#include "ui/core/write_file.hpp"

namespace ui {
namespace {

QLabel* note(const QString& accessible_name) {
  auto* label = new QLabel;
  label->setWordWrap(true);
  label->setAccessibleName(accessible_name);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  label->hide();
  return label;
}

bool same_index(const std::optional<sim::Evaluation>& a, const sim::Evaluation& b) {
  return a && a->index == b.index;
}

}  // namespace

// all_of() leaves out the lines of the source: a label has no column to point at.
QString ChoosePane::all_of(const std::vector<sim::Problem>& problems) {
  QStringList lines;
  for (sim::Problem problem : problems) {
    problem.source_line.clear();
    lines << (problem.where.file == "--set" ? to_qstring(problem.what)
                                            : to_qstring(sim::to_text(problem)));
  }
  return lines.join('\n');
}

ChoosePane::ChoosePane(Session& session, QWidget* parent) : QWidget{parent}, session_{session} {
  setAccessibleName(tr("Choose a layout"));
  auto* splitter = new QSplitter{Qt::Horizontal};
  splitter->setChildrenCollapsible(false);
  splitter->addWidget(make_left());
  splitter->addWidget(make_middle());
  layout_ = new LayoutPane;
  layout_->setMinimumWidth(300);
  splitter->addWidget(layout_);
  splitter->setStretchFactor(1, 1);
  splitter->setSizes({272, 688, 320});
  auto* whole = new QVBoxLayout{this};
  whole->setContentsMargins(0, 0, 0, 0);
  whole->addWidget(splitter);

  connect(&session_, &Session::result_changed, this, &ChoosePane::adopt_scenario);
  connect(&search_, &SearchJob::listed, this, &ChoosePane::adopt_search);
  connect(&search_, &SearchJob::progressed, this, &ChoosePane::adopt_news);
  connect(&search_, &SearchJob::failed, this, &ChoosePane::show_problems);
  connect(&search_, &SearchJob::state_changed, this, &ChoosePane::refresh_state);
  connect(&layouts_, &LayoutJob::ready, this, &ChoosePane::adopt_facts);
  connect(&layouts_, &LayoutJob::failed, layout_, &LayoutPane::show_problem);
  connect(layout_, &LayoutPane::pin_asked, this, &ChoosePane::pin);
  connect(layout_, &LayoutPane::open_asked, this, &ChoosePane::open_as_scenario);
  connect(layout_, &LayoutPane::export_asked, this, &ChoosePane::export_for);
  refresh_rows();
  refresh_state();
}

QWidget* ChoosePane::make_left() {
  auto* left = new QWidget;
  left->setMinimumWidth(270);
  auto* column = new QVBoxLayout{left};
  column->setContentsMargins(6, 6, 6, 6);
  auto* buttons = new QHBoxLayout;
  start_ = new QPushButton{tr("&Start search")};
  start_->setAccessibleName(tr("Start search"));
  start_->setDefault(true);
  start_->setShortcut(QKeySequence{"Ctrl+Return"});
  start_->setToolTip(tr("Ctrl+Enter; Enter in a field of the space"));
  stop_ = new QPushButton{tr("S&top")};
  stop_->setAccessibleName(tr("Stop the search"));
  stop_->setShortcut(QKeySequence{"Ctrl+."});
  stop_->setToolTip(tr("Ctrl+. ; what was found stays"));
  buttons->addWidget(start_, 1);
  buttons->addWidget(stop_);
  column->addLayout(buttons);
  bar_ = new QProgressBar;
  bar_->setAccessibleName(tr("Layouts decided"));
  bar_->setTextVisible(false);
  bar_->setFixedHeight(6);
  column->addWidget(bar_);
  progress_ = note(tr("Progress of the search"));
  problem_ = note(tr("What is wrong with the search"));
  stale_ = note(tr("The search is of an older scenario"));
  stale_->setText(tr("⚠ The scenario has changed since this search. Start it again."));
  for (QLabel* label : {progress_, problem_, stale_})
    column->addWidget(label);
  space_ = new SpacePane;
  auto* scroll = new QScrollArea;
  scroll->setWidget(space_);
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll->setAccessibleName(tr("The space of the search"));
  column->addWidget(scroll, 1);
  connect(start_, &QPushButton::clicked, this, &ChoosePane::start);
  connect(stop_, &QPushButton::clicked, this, &ChoosePane::stop);
  connect(space_, &SpacePane::submitted, this, &ChoosePane::start);
  return left;
}

QWidget* ChoosePane::make_middle() {
  pareto_ = new Pareto;
  auto* lower = new QWidget;
  auto* column = new QVBoxLayout{lower};
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  auto* line = new QHBoxLayout;
  line->setContentsMargins(12, 4, 12, 4);
  line->setSpacing(8);
  which_ = new QComboBox;
  which_->addItems({tr("ranking"), tr("front"), tr("all evaluated")});
  which_->setAccessibleName(tr("Which layouts the table shows"));
  auto* label = new QLabel{tr("Sho&w")};
  label->setBuddy(which_);
  count_ = new QLabel;
  count_->setForegroundRole(QPalette::PlaceholderText);
  csv_ = new QPushButton{tr("Save as &CSV …")};
  csv_->setAccessibleName(tr("Save the table as CSV"));
  line->addWidget(label);
  line->addWidget(which_);
  line->addWidget(count_, 1);
  line->addWidget(csv_);
  table_ = new LayoutTable;
  column->addLayout(line);
  column->addWidget(table_, 1);
  auto* middle = new QSplitter{Qt::Vertical};
  middle->setChildrenCollapsible(false);
  middle->addWidget(pareto_);
  middle->addWidget(lower);
  middle->setSizes({380, 240});
  connect(which_, &QComboBox::currentIndexChanged, this, &ChoosePane::refresh_rows);
  connect(csv_, &QPushButton::clicked, this, &ChoosePane::save_csv);
  connect(pareto_, &Pareto::against_changed, this, &ChoosePane::refresh_rows);
  connect(pareto_, &Pareto::chosen, this, &ChoosePane::choose);
  connect(table_, &LayoutTable::chosen, this, &ChoosePane::choose);
  const auto open = [this](const sim::Evaluation& evaluation) {
    choose(evaluation);
    open_as_scenario();
  };
  connect(pareto_, &Pareto::activated, this, open);
  connect(table_, &LayoutTable::activated_layout, this, open);
  return middle;
}

void ChoosePane::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  adopt_scenario();
}

// The space as the scenario has it, where the scenario is another.
void ChoosePane::adopt_scenario() {
  if (!isVisible() || !session_.result()) return refresh_state();
  const SearchAsked now{0, session_.path(), session_.yaml(), session_.overrides(), {}, 0};
  const bool same =
      now.path == shown_.path && now.yaml == shown_.yaml && now.overrides == shown_.overrides;
  if (!same) {
    try {
      space_->show_scenario(specification_of(now));
      show_problems({});
    } catch (const sim::InputError& error) {
      show_problems(error.problems());
    }
    shown_ = now;
  }
  refresh_state();
}

void ChoosePane::start() {
  if (session_.path().empty()) return;
  adopt_scenario();
  show_problems({});
  SearchAsked asked{0, session_.path(), session_.yaml(), session_.overrides(), space_->unset(), 0};
  for (std::string& one : space_->overrides())
    asked.overrides.push_back(std::move(one));
  search_.start(std::move(asked));
}

void ChoosePane::stop() {
  search_.stop();
}

void ChoosePane::adopt_search() {
  points_.clear();
  result_.reset();
  facts_.clear();
  chosen_.reset();
  pinned_.reset();
  space_->show_values(search_.searched()->values);
  pareto_->clear(tr("The first layouts are being simulated …"));
  layout_->clear(tr("Click a point or a row of the table, or walk with the arrow keys."));
  refresh_rows();
}

void ChoosePane::adopt_news(const SearchNews& news) {
  points_.insert(points_.end(), news.points.begin(), news.points.end());
  if (news.result) result_ = news.result;
  newest_ = news.progress;
  refresh_progress();
  if (news.points.empty() && !news.result) return;
  pareto_->show(search_.searched(), points_, result_);
  refresh_rows();
}

std::vector<LayoutRow> ChoosePane::rows_of(Rows which) const {
  std::map<std::uint32_t, int> ranks;
  int rank = 0;
  if (result_)
    for (const auto* list : {&result_->best, &result_->within_margin})
      for (const sim::RankedLayout& one : *list)
        ranks[one.evaluation.index] = ++rank;
  const std::vector<std::uint32_t> front = pareto_->front();
  std::vector<LayoutRow> rows;
  for (const SearchPoint& point : points_) {
    const auto found = ranks.find(point.evaluation.index);
    const bool on_front =
        std::find(front.begin(), front.end(), point.evaluation.index) != front.end();
    if (which == Rows::ranked && found == ranks.end()) continue;
    if (which == Rows::front && !on_front) continue;
    rows.push_back({point, found == ranks.end() ? 0 : found->second, on_front});
  }
  return rows;
}

void ChoosePane::refresh_rows() {
  std::vector<LayoutRow> rows = rows_of(static_cast<Rows>(which_->currentIndex()));
  count_->setText(rows.empty() ? QString{}
                               : tr("%1 layouts").arg(to_qstring(sim::grouped(rows.size()))));
  csv_->setEnabled(!rows.empty());
  table_->set_rows(search_.searched(), std::move(rows));
  if (chosen_) table_->select(chosen_->index);
}

void ChoosePane::choose(const sim::Evaluation& evaluation) {
  chosen_ = evaluation;
  pareto_->select(evaluation.index);
  table_->select(evaluation.index);
  refresh_layout();
}

void ChoosePane::refresh_layout() {
  if (!chosen_ || !search_.searched()) return;
  std::vector<sim::Evaluation> missing;
  const std::optional<sim::Evaluation> other = reference();
  for (const std::optional<sim::Evaluation>& one : {chosen_, other})
    if (one && !known(one)) missing.push_back(*one);
  const LayoutFactsPtr facts = known(chosen_);
  if (!missing.empty()) layouts_.ask(search_.searched(), missing);
  if (facts)
    layout_->show(facts, known(other), other ? reference_name(*other) : QString{},
                  same_index(pinned_, *chosen_));
  else
    layout_->show_waiting(to_qstring(
        sim::describe(sim::outline(search_.searched()->search, *chosen_),
                      search_.searched()->search.specification().workload.cluster.node_gpus())));
  if (missing.empty()) Q_EMIT settled_changed();
}

void ChoosePane::adopt_facts(const LayoutFactsPtr& facts) {
  if (facts->searched != search_.searched()) return;
  facts_[facts->evaluation.index] = facts;
  refresh_layout();
}

LayoutFactsPtr ChoosePane::known(const std::optional<sim::Evaluation>& evaluation) const {
  const auto found = evaluation ? facts_.find(evaluation->index) : facts_.end();
  return found == facts_.end() ? nullptr : found->second;
}

std::optional<sim::Evaluation> ChoosePane::reference() const {
  if (!chosen_) return std::nullopt;
  if (pinned_ && pinned_->index != chosen_->index) return pinned_;
  if (!result_) return std::nullopt;
  for (const auto* list : {&result_->best, &result_->within_margin})
    for (const sim::RankedLayout& one : *list)
      if (one.evaluation.index != chosen_->index) return one.evaluation;
  return std::nullopt;
}

QString ChoosePane::reference_name(const sim::Evaluation& reference) const {
  if (same_index(pinned_, reference)) return tr("pinned");
  const sim::RankedLayout* favourite = result_->favourite();
  return favourite && favourite->evaluation.index == reference.index ? tr("the best")
                                                                     : tr("the second");
}

bool ChoosePane::settled() const {
  if (search_.running()) return false;
  return !chosen_ || (known(chosen_) && (!reference() || known(reference())));
}

void ChoosePane::pin() {
  if (!chosen_) return;
  pinned_ = same_index(pinned_, *chosen_) ? std::nullopt : chosen_;
  refresh_layout();
}

void ChoosePane::open_as_scenario() {
  const LayoutFactsPtr facts = known(chosen_);
  if (!facts) return;
  try {
    open_layout(session_, *facts);
    Q_EMIT opened_layout();
  } catch (const sim::InputError& error) {
    QMessageBox::warning(this, tr("Open as scenario"), all_of(error.problems()));
  }
}

void ChoosePane::export_for(sim::Target target) {
  const LayoutFactsPtr facts = known(chosen_);
  if (!facts) return;
  try {
    const sim::Scenario scenario = scenario_of(*facts);
    ExportDialog{scenario, target, this}.exec();
  } catch (const sim::InputError& error) {
    QMessageBox::warning(this, tr("Export"), all_of(error.problems()));
  } catch (const std::exception& error) {
    QMessageBox::warning(this, tr("Export"), error.what());
  }
}

void ChoosePane::save_csv() {
  const QString path =
      QFileDialog::getSaveFileName(this, tr("Save the table"), {}, tr("CSV (*.csv)"));
  if (path.isEmpty()) return;
  if (const QString problem = write_file(path, csv_of(*table_).toUtf8()); !problem.isEmpty())
    QMessageBox::warning(this, tr("Save the table"), problem);
}

}  // namespace ui
