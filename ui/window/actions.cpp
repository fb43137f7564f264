// The menus of the window, and what their entries do.
#include <QActionGroup>
#include <QApplication>
#include <QClipboard>
#include <QFile>
#include <QFileDialog>
#include <QFileInfo>
#include <QLineEdit>
#include <QMenuBar>
#include <QMessageBox>
#include <QSettings>

#include "sim/scenario/write_scenario.hpp"
#include "ui/core/shell_word.hpp"
#include "ui/core/write_file.hpp"
#include "ui/panes/knobs.hpp"
#include "ui/timeline/view.hpp"
#include "ui/window/export_view.hpp"
#include "ui/window/main_window.hpp"

namespace ui {
void MainWindow::make_actions() {
  make_file_menu();
  make_edit_menu();
  make_view_menu();
  make_job_menu();
  QMenu* help = menuBar()->addMenu(tr("&Help"));
  help->addAction(tr("&Keys"), Qt::Key_Question, this, &MainWindow::show_keys);
  help->addAction(tr("&About"), this, [this] {
    QMessageBox::about(
        this, tr("Stepcast"),
        tr("Stepcast %1. This window is under the GPL, version 3 or later, because it "
           "uses Qt Charts.")
            .arg(QApplication::applicationVersion()));
  });
}

void MainWindow::make_file_menu() {
  QMenu* file = menuBar()->addMenu(tr("&File"));
  file->addAction(tr("&Open …"), QKeySequence::Open, this, &MainWindow::ask_for_file);
  recent_ = file->addMenu(tr("Open &recent"));
  connect(recent_, &QMenu::aboutToShow, this, &MainWindow::fill_recent);
  file->addAction(tr("&Save as …"), QKeySequence::SaveAs, this, &MainWindow::save_as);
  file->addSeparator();
  file->addAction(tr("&Copy as command"), QKeySequence{"Ctrl+Shift+C"}, this,
                  &MainWindow::copy_command);
  file->addAction(tr("&Export view …"), QKeySequence{"Ctrl+E"}, this, &MainWindow::export_view);
  file->addSeparator();
  file->addAction(tr("&Quit"), QKeySequence::Quit, this, &QWidget::close);
}

void MainWindow::make_edit_menu() {
  QMenu* edit = menuBar()->addMenu(tr("&Edit"));
  QAction* undo = session_.undo_stack().createUndoAction(this, tr("&Undo"));
  undo->setShortcut(QKeySequence::Undo);
  QAction* redo = session_.undo_stack().createRedoAction(this, tr("&Redo"));
  redo->setShortcut(QKeySequence::Redo);
  edit->addAction(undo);
  edit->addAction(redo);
  edit->addAction(tr("Reset &all knobs"), &session_, &Session::reset_knobs);
  edit->addSeparator();
  edit->addAction(tr("&Find a key …"), QKeySequence::Find, knobs_, &KnobPane::find_key);
  edit->addAction(tr("Find &operators …"), Qt::Key_Slash, this, &MainWindow::find_operator);
  edit->addAction(tr("Filter &lanes …"), Qt::Key_L, this, &MainWindow::find_lanes);
  edit->addSeparator();
  edit->addAction(tr("&Pin as baseline"), Qt::Key_B, &session_, &Session::pin_baseline);
  edit->addAction(tr("&Clear baseline"), &session_, &Session::clear_baseline);
}

void MainWindow::make_view_menu() {
  QMenu* view = menuBar()->addMenu(tr("&View"));
  view->addAction(tr("&Whole step"), Qt::Key_Home, timeline_, &TimelineView::fit);
  view->addAction(tr("&Next step of the critical path"), this,
                  [this] { timeline_->step_path(true); });
  view->addAction(tr("&Pin the lanes of the stage"), Qt::Key_P, timeline_,
                  [this] { timeline_->toggle_pin(session_.selection().stage); });
  QAction* path = view->addAction(tr("&Critical path"));
  path->setCheckable(true);
  path->setChecked(true);
  connect(path, &QAction::toggled, timeline_, &TimelineView::show_critical_path);
  QAction* dark = view->addAction(tr("&Dark"));
  dark->setCheckable(true);
  connect(dark, &QAction::toggled, this, &MainWindow::set_dark);
  connect(view, &QMenu::aboutToShow, dark, [this, dark] {
    const QSignalBlocker quiet{dark};
    dark->setChecked(dark_);
  });
  view->addSeparator();
  for (QDockWidget* holder : docks_)
    view->addAction(holder->toggleViewAction());
}

void MainWindow::make_job_menu() {
  QMenu* menu = menuBar()->addMenu(tr("&Job"));
  jobs_ = new QActionGroup{this};
  const std::array titles{tr("&What if"), tr("&Choose a layout"), tr("&Validate"),
                          tr("&Plan a cluster")};
  for (int i = 0; i < static_cast<int>(titles.size()); ++i) {
    QAction* action = menu->addAction(titles[static_cast<std::size_t>(i)]);
    action->setShortcut(QKeySequence{Qt::CTRL | static_cast<Qt::Key>(Qt::Key_1 + i)});
    action->setCheckable(true);
    action->setChecked(i == 0);
    action->setEnabled(page_of_[static_cast<std::size_t>(i)] != nullptr);
    jobs_->addAction(action);
    connect(action, &QAction::triggered, this, [this, i] { show_job(static_cast<Job>(i)); });
  }
}

void MainWindow::ask_for_file() {
  open_files(QFileDialog::getOpenFileNames(
      this, tr("Open a scenario, a job of a framework, a record or traces"),
      QFileInfo{QString::fromStdString(session_.path())}.path(),
      tr("Scenarios (*.yaml *.yml);;Jobs (*.sh *.args *.toml *.json *.yaml *.yml);;"
         "Records and traces (*.json *.json.gz *.sqlite);;All files (*)")));
}

void MainWindow::fill_recent() {
  recent_->clear();
  for (const QString& path : QSettings{}.value("recent").toStringList())
    recent_->addAction(path, this, [this, path] { open(path); });
  if (recent_->isEmpty()) recent_->addAction(tr("none yet"))->setEnabled(false);
}

void MainWindow::save_as() {
  if (!session_.result()) return;
  const QString path =
      QFileDialog::getSaveFileName(this, tr("Save scenario as"), {}, tr("Scenarios (*.yaml)"));
  if (path.isEmpty()) return;
  const std::string text =
      sim::scenario_yaml(session_.result()->scenario, QFileInfo{path}.path().toStdString());
  if (const QString problem = write_file(path, QByteArray::fromStdString(text)); !problem.isEmpty())
    warn(problem);
}

void MainWindow::copy_command() {
  const QString path = QString::fromStdString(session_.path());
  QFile file{path};
  if (!file.open(QIODevice::ReadOnly) || file.readAll().toStdString() != session_.yaml())
    return warn(tr("The scenario's text is not that of %1: save it first (File, Save as).")
                    .arg(path.isEmpty() ? tr("a file") : path));
  QString command = "stepcast simulate " + shell_word(path);
  for (const std::string& set : session_.overrides())
    command += " --set " + shell_word(QString::fromStdString(set));
  QApplication::clipboard()->setText(command);
}

// The innermost view with the focus; else the timeline, or the page of the job that is shown.
std::pair<QString, QWidget*> MainWindow::view_in_focus() const {
  const QWidget* focus = focusWidget();
  std::pair<QString, QWidget*> found{};
  for (const auto& [name, view] : views_) {
    if (view == this || !focus || (view != focus && !view->isAncestorOf(focus))) continue;
    if (!found.second || found.second->isAncestorOf(view)) found = {name, view};
  }
  if (found.second) return found;
  for (const auto& [name, view] : views_)
    if (view != this && view->isVisible() && pages_->isAncestorOf(view)) return {name, view};
  return {"timeline", timeline_};
}

void MainWindow::export_view() {
  const auto [name, view] = view_in_focus();
  const QString path =
      QFileDialog::getSaveFileName(this, tr("Export the view: %1").arg(name), name + ".png",
                                   tr("Pictures (*.png *.svg);;Tables (*.csv)"));
  if (path.isEmpty()) return;
  if (const QString problem = write_view(*view, path); !problem.isEmpty()) warn(problem);
}

void MainWindow::find_operator() {
  find_->show();
  find_->setFocus();
  find_->selectAll();
}

void MainWindow::find_lanes() {
  lanes_->show();
  lanes_->setFocus();
  lanes_->selectAll();
}

void MainWindow::show_keys() {
  QMessageBox::information(
      this, tr("Keys"),
      tr("<table cellpadding=3>"
         "<tr><td><b>W S</b></td><td>zoom in, out (also Ctrl and wheel)</td></tr>"
         "<tr><td><b>A D</b></td><td>left, right (also Shift and drag)</td></tr>"
         "<tr><td><b>F, F F</b></td><td>the selected operator or area; the whole step (also "
         "Home)</td></tr>"
         "<tr><td><b>. ,</b></td><td>next, previous operator of the lane</td></tr>"
         "<tr><td><b>] [</b></td><td>along the critical path</td></tr>"
         "<tr><td><b>/ N</b></td><td>search operators; next match</td></tr>"
         "<tr><td><b>R, Esc</b></td><td>operator to area; select nothing</td></tr>"
         "<tr><td><b>Enter</b></td><td>show the streams of the selected stage</td></tr>"
         "<tr><td><b>P</b></td><td>keep the lanes of the selected stage on top</td></tr>"
         "<tr><td><b>L</b></td><td>filter lanes by name</td></tr>"
         "<tr><td><b>B</b></td><td>pin the baseline</td></tr>"
         "<tr><td><b>Ctrl+F</b></td><td>set any key</td></tr>"
         "<tr><td><b>Ctrl+Z, Ctrl+Shift+Z</b></td><td>undo, redo</td></tr>"
         "<tr><td><b>Ctrl+1, 2, 3, 4</b></td><td>what if, choose, validate, plan</td></tr>"
         "<tr><td><b>X</b></td><td>in the overlay: the operator on the other side</td></tr>"
         "<tr><td><b>arrows</b></td><td>in the topology: tiers, and links that differ</td></tr>"
         "</table>"));
}

}  // namespace ui
