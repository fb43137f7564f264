#include "ui/window/main_window.hpp"

#include <QActionGroup>
#include <QApplication>
#include <QCloseEvent>
#include <QDragEnterEvent>
#include <QFileInfo>
#include <QLineEdit>
#include <QMessageBox>
#include <QMimeData>
#include <QSettings>
#include <QShortcut>
#include <QTabBar>
#include <QTabWidget>
#include <QToolBar>
#include <QVBoxLayout>
#include <algorithm>
#include <utility>

#include "ui/choose/choose_pane.hpp"
#include "ui/core/theme.hpp"
#include "ui/panes/details.hpp"
#include "ui/panes/editor.hpp"
#include "ui/panes/headline.hpp"
#include "ui/panes/knobs.hpp"
#include "ui/panes/memory.hpp"
#include "ui/panes/problems.hpp"
#include "ui/panes/sending.hpp"
#include "ui/panes/sources.hpp"
#include "ui/panes/strip.hpp"
#include "ui/panes/sweep.hpp"
#include "ui/panes/tables.hpp"
#include "ui/panes/what_helps.hpp"
#include "ui/plan/plan_pane.hpp"
#include "ui/timeline/view.hpp"
#include "ui/topology/view.hpp"
#include "ui/validate/overlay_pane.hpp"
#include "ui/validate/validate_pane.hpp"
#include "ui/window/export_view.hpp"
#include "ui/window/file_role.hpp"
#include "ui/window/import_dialog.hpp"

namespace ui {

MainWindow::MainWindow(QWidget* parent) : QMainWindow{parent} {
  setWindowTitle("Stepcast");
  setAcceptDrops(true);
  setDockNestingEnabled(true);
  resize(1280, 800);
  make_centre();
  make_choose();
  make_validate();
  make_plan();
  make_docks();
  make_actions();
  connect(&session_, &Session::opened, this, [this] {
    setWindowTitle(QString{"%1 — Stepcast"}.arg(
        QFileInfo{QString::fromStdString(session_.path())}.fileName()));
  });
  show_job(Job::what_if);
}

void MainWindow::make_centre() {
  auto* centre = new QWidget{this};
  auto* column = new QVBoxLayout{centre};
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  auto* headline = new Headline{session_};
  auto* strip = new BreakdownStrip{session_};
  auto* problems = new ProblemsPane{session_};
  pages_ = new QStackedWidget;
  column->addWidget(pages_, 1);
  setCentralWidget(centre);

  // Above everything, over the whole width.
  auto* top = new QWidget;
  auto* top_column = new QVBoxLayout{top};
  top_column->setContentsMargins(0, 0, 0, 0);
  top_column->setSpacing(0);
  top_column->addWidget(headline);
  top_column->addWidget(strip);
  top_column->addWidget(problems);
  auto* bar = new QToolBar{tr("Headline"), this};
  bar->setObjectName("headline");
  bar->setMovable(false);
  bar->addWidget(top);
  bar->toggleViewAction()->setEnabled(false);
  top_ = bar;
  addToolBar(Qt::TopToolBarArea, bar);

  auto* page = new QWidget;
  auto* timeline_column = new QVBoxLayout{page};
  timeline_column->setContentsMargins(0, 0, 0, 0);
  timeline_column->setSpacing(0);
  timeline_ = new TimelineView{session_};
  find_ =
      make_field(tr("Search operators"),
                 tr("operators by name, as a regular expression; Enter: next match, Esc: close"),
                 [this](const QString& pattern) { return timeline_->search(pattern); });
  lanes_ = make_field(tr("Filter lanes"),
                      tr("lanes by name, as a regular expression: stage [0-3] compute; Esc: all"),
                      [this](const QString& pattern) { return timeline_->filter_lanes(pattern); });
  timeline_column->addWidget(find_);
  timeline_column->addWidget(lanes_);
  timeline_column->addWidget(timeline_, 1);
  add_page(Job::what_if, page);
  connect(find_, &QLineEdit::returnPressed, this, [this] { timeline_->step_match(true); });
  connect(problems, &ProblemsPane::show_line, this, [this](int line, int column_of) {
    if (auto* holder = qobject_cast<QDockWidget*>(editor_->parentWidget())) {
      holder->show();
      holder->raise();
    }
    editor_->show_line(line, column_of);
  });
  views_ = {
      {"window", this}, {"headline", headline}, {"breakdown", strip}, {"timeline", timeline_}};
}

QLineEdit* MainWindow::make_field(const QString& name, const QString& hint,
                                  const std::function<bool(const QString&)>& apply) {
  auto* field = new QLineEdit;
  field->setPlaceholderText(hint);
  field->setAccessibleName(name);
  field->setClearButtonEnabled(true);
  field->hide();
  connect(field, &QLineEdit::textChanged, this, [field, apply](const QString& pattern) {
    QPalette palette;
    if (!apply(pattern)) palette.setColor(QPalette::Text, theme_of(*field).bad);
    field->setPalette(palette);
  });
  auto* close = new QShortcut{Qt::Key_Escape, field, nullptr, nullptr, Qt::WidgetShortcut};
  connect(close, &QShortcut::activated, this, [this, field] {
    field->clear();
    field->hide();
    timeline_->setFocus();
  });
  return field;
}

void MainWindow::make_choose() {
  choose_ = new ChoosePane{session_};
  add_page(Job::choose, choose_);
  connect(choose_, &ChoosePane::opened_layout, this, [this] { show_job(Job::what_if); });
  views_.emplace_back("choose", choose_);
  views_.emplace_back("pareto", &choose_->pareto());
  views_.emplace_back("layouts", &choose_->table());
  views_.emplace_back("layout", &choose_->layout_pane());
}

void MainWindow::add_page(Job job, QWidget* page) {
  pages_->addWidget(page);
  page_of_[static_cast<std::size_t>(job)] = page;
}

void MainWindow::make_validate() {
  auto* tabs = new QTabWidget;
  tabs->setAccessibleName(tr("Validate"));
  tabs->setDocumentMode(true);
  validate_ = new ValidatePane{session_};
  tabs->addTab(validate_, tr("Published rows"));
  overlay_ = new OverlayPane{session_};
  tabs->addTab(overlay_, tr("Overlay"));
  add_page(Job::validate, tabs);
  connect(validate_, &ValidatePane::opened, this, [this] { show_job(Job::what_if); });
  views_.emplace_back("validate", validate_);
  views_.emplace_back("overlay", overlay_);
  views_.emplace_back("waterfall", &overlay_->explain().waterfall());
  views_.emplace_back("roofline", &overlay_->explain().roofline());
  views_.emplace_back("states", &overlay_->explain().states());
}

void MainWindow::make_plan() {
  plan_ = new PlanPane{session_};
  add_page(Job::plan, plan_);
  connect(plan_, &PlanPane::opened_point, this, [this] { show_job(Job::what_if); });
  views_.emplace_back("plan", plan_);
  views_.emplace_back("front", &plan_->front());
  views_.emplace_back("answers", &plan_->answers());
  views_.emplace_back("numbers", &plan_->numbers());
}

QDockWidget* MainWindow::dock(const QString& title, QWidget* content, Qt::DockWidgetArea area) {
  auto* holder = new QDockWidget{title, this};
  holder->setObjectName(title);
  holder->setWidget(content);
  addDockWidget(area, holder);
  docks_.push_back(holder);
  views_.emplace_back(title.toLower(), content);
  return holder;
}

void MainWindow::make_docks() {
  setCorner(Qt::BottomLeftCorner, Qt::LeftDockWidgetArea);
  knobs_ = new KnobPane{session_};
  QDockWidget* left = dock(tr("Knobs"), knobs_, Qt::LeftDockWidgetArea);
  connect(knobs_, &KnobPane::left_any_key, timeline_, qOverload<>(&QWidget::setFocus));
  auto* details = new Details{session_};
  details->setMinimumWidth(230);
  QDockWidget* right = dock(tr("Details"), details, Qt::RightDockWidgetArea);
  details_ = right;
  memory_ = new MemoryPane{session_};
  QDockWidget* first = dock(tr("Memory"), memory_, Qt::BottomDockWidgetArea);
  connect(timeline_, &TimelineView::window_changed, memory_,
          [this] { memory_->set_window(timeline_->window()); });
  auto* sending = new SendingPane{session_};
  connect(timeline_, &TimelineView::window_changed, sending,
          [this, sending] { sending->set_window(timeline_->window()); });
  editor_ = new EditorPane{session_};
  topology_ = new TopologyView{session_};
  const std::vector<QDockWidget*> tabs{
      dock(tr("Sending"), sending, Qt::BottomDockWidgetArea),
      dock(tr("What helps"), new WhatHelps{session_}, Qt::BottomDockWidgetArea),
      dock(tr("Sweep"), new SweepPane{session_}, Qt::BottomDockWidgetArea),
      dock(tr("Operators"), make_operators_table(session_), Qt::BottomDockWidgetArea),
      dock(tr("Collectives"), make_collectives_table(session_), Qt::BottomDockWidgetArea),
      dock(tr("Links"), make_links_table(session_), Qt::BottomDockWidgetArea),
      dock(tr("Topology"), topology_, Qt::BottomDockWidgetArea),
      dock(tr("Scenario"), editor_, Qt::BottomDockWidgetArea),
      dock(tr("Sources"), new SourcesPane{session_}, Qt::BottomDockWidgetArea)};
  QDockWidget* before = first;
  for (QDockWidget* tab : tabs) {
    tabifyDockWidget(before, tab);
    before = tab;
  }
  first->raise();
  resizeDocks({left, right}, {330, 250}, Qt::Horizontal);
  resizeDocks({first}, {190}, Qt::Vertical);
}

void MainWindow::show_job(Job job) {
  pages_->setCurrentWidget(page_of_[static_cast<std::size_t>(job)]);
  // A page that is not shown takes no room.
  for (int i = 0; i < pages_->count(); ++i) {
    const QSizePolicy::Policy policy =
        i == pages_->currentIndex() ? QSizePolicy::Preferred : QSizePolicy::Ignored;
    pages_->widget(i)->setSizePolicy(policy, policy);
  }
  // Published rows, and numbers of GPUs, are not of the scenario whose headline it is.
  top_->setVisible(job != Job::validate && job != Job::plan);
  for (QDockWidget* holder : docks_)
    holder->setVisible(job == Job::what_if);
  if (job == Job::what_if && docks_.size() > 2) docks_[2]->raise();
  if (jobs_) jobs_->actions()[static_cast<int>(job)]->setChecked(true);
}

Job MainWindow::job_of(const QString& view_name) const {
  const QWidget* shown = view(view_name);
  for (std::size_t job = 0; job < page_of_.size(); ++job)
    if (shown == this ? page_of_[job] == pages_->currentWidget()
                      : page_of_[job] == shown || page_of_[job]->isAncestorOf(shown))
      return static_cast<Job>(job);
  return Job::what_if;  // docks
}

void MainWindow::reveal(const QString& view_name) {
  QWidget* shown = view(view_name);
  if (!shown || shown == this) return;
  show_job(job_of(view_name));
  for (QWidget* at = shown; at->parentWidget(); at = at->parentWidget()) {
    if (auto* holder = qobject_cast<QDockWidget*>(at)) {
      holder->show();
      holder->raise();
    }
    if (auto* tabs = qobject_cast<QTabWidget*>(at->parentWidget()->parentWidget()))
      tabs->setCurrentWidget(at);
  }
}

bool MainWindow::busy() const {
  return session_.computing() || validate_->running() || overlay_->busy() || topology_->busy();
}

void MainWindow::open(const QString& path) {
  try {
    session_.open(path);
    if (validate_->isVisible()) show_job(Job::what_if);  // where it can be seen
    remember(QFileInfo{path}.absoluteFilePath());
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

void MainWindow::open_files(const QStringList& paths) {
  QStringList runs;
  bool opened = false;
  try {
    for (const QString& path : paths) {
      const OpenedFile file = role_of(path);
      if (file.role == FileRole::run)
        runs << path;
      else if (!std::exchange(opened, true))
        open_as(file, path);
    }
  } catch (const std::exception& error) {
    return warn(error.what());
  }
  if (!runs.isEmpty()) open_run(runs);
}

void MainWindow::open_as(const OpenedFile& file, const QString& path) {
  if (file.role == FileRole::scenario) return open(path);
  if (file.role == FileRole::job) return import(path, file.job);
  warn(tr("%1: this is %2").arg(path, QString::fromStdString(file.what)));
}

void MainWindow::import(const QString& path, sim::JobKind kind) {
  const ResultPtr& shown = session_.result();
  const QString cluster =
      shown ? QFileInfo{QString::fromStdString(shown->scenario.cluster_path)}.completeBaseName()
            : QStringLiteral("dgx-h100");
  auto* dialog = new ImportDialog{path, kind, cluster, this};
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QDialog::accepted, this, [this, dialog, path] {
    const QFileInfo file{path};
    // As if it lay beside the job; it becomes a file with Save as.
    session_.open_text(file.absolutePath() + '/' + file.completeBaseName() + ".yaml",
                       dialog->yaml());
    show_job(Job::what_if);
  });
  dialog->open();
}

void MainWindow::warn(const QString& what) {
  auto* box = new QMessageBox{QMessageBox::Warning, tr("Stepcast"), what, QMessageBox::Ok, this};
  box->setAttribute(Qt::WA_DeleteOnClose);
  box->open();  // the event loop goes on
}

void MainWindow::open_run(const QStringList& paths) {
  overlay_->open_run(paths);
  reveal("overlay");
}

void MainWindow::set_dark(bool dark) {
  dark_ = dark;
  QApplication::setPalette(palette_of(dark ? dark_theme() : light_theme()));
}

void MainWindow::remember(const QString& path) {
  if (!remembers_) return;
  QSettings settings;
  QStringList recent = settings.value("recent").toStringList();
  recent.removeAll(path);
  recent.prepend(path);
  settings.setValue("recent", QStringList{recent.mid(0, 8)});
}

void MainWindow::restore_settings() {
  remembers_ = true;
  const QSettings settings;
  set_dark(settings.value("dark", false).toBool());
  restoreGeometry(settings.value("geometry").toByteArray());
  arranged_ = restoreState(settings.value("state").toByteArray());
}

// A wide window has room for long names.
void MainWindow::showEvent(QShowEvent* event) {
  constexpr int least = 250, most = 360;  // px
  QMainWindow::showEvent(event);
  if (std::exchange(arranged_, true)) return;
  resizeDocks({details_}, {std::clamp(width() / 6, least, most)}, Qt::Horizontal);
}

void MainWindow::closeEvent(QCloseEvent* event) {
  if (remembers_) {
    QSettings settings;
    settings.setValue("dark", dark_);
    settings.setValue("geometry", saveGeometry());
    if (pages_->currentIndex() == 0) settings.setValue("state", saveState());
  }
  QMainWindow::closeEvent(event);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  QStringList paths;
  for (const QUrl& url : event->mimeData()->urls())
    if (url.isLocalFile()) paths << url.toLocalFile();
  open_files(paths);
}

QStringList MainWindow::view_names() const {
  QStringList names;
  for (const auto& [name, widget] : views_)
    names << name;
  return names;
}

QWidget* MainWindow::view(const QString& name) const {
  for (const auto& [known, widget] : views_)
    if (known == name) return widget;
  return nullptr;
}

}  // namespace ui
