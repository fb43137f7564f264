// The window: headline and parts of the step above, the job at hand below, docks around it.
#pragma once

#include <QDockWidget>
#include <QMainWindow>
#include <QStackedWidget>
#include <array>
#include <functional>

#include "sim/interop/job_file.hpp"
#include "ui/core/session.hpp"

class QActionGroup;
class QLineEdit;
class QTabWidget;
class QToolBar;

namespace ui {

class ChoosePane;
class EditorPane;
class KnobPane;
class MemoryPane;
class TimelineView;
class TopologyView;
class OverlayPane;
class PlanPane;
class ValidatePane;
struct OpenedFile;

enum class Job : int { what_if, choose, validate, plan };

class MainWindow : public QMainWindow {
  Q_OBJECT

 public:
  explicit MainWindow(QWidget* parent = nullptr);

  Session& session() { return session_; }
  TimelineView& timeline() { return *timeline_; }
  ChoosePane& choose() { return *choose_; }
  // Opens a scenario, and remembers it; a problem is shown in the window.
  void open(const QString& path);
  // open_files() goes by what they are: a record or traces of a run, all of them; beside these one
  // scenario, or a job of a training framework, which is imported. A problem is shown.
  void open_files(const QStringList& paths);
  QStackedWidget& pages() { return *pages_; }
  PlanPane& plan() { return *plan_; }
  ValidatePane& validate() { return *validate_; }
  OverlayPane& overlay() { return *overlay_; }
  // A recorded run, or traces, is explained over the forecast; a problem is shown there.
  void open_run(const QStringList& paths);
  void show_job(Job job);
  // The job that a view is of; of the window itself the one that is shown.
  Job job_of(const QString& view_name) const;
  // Shows the job, tab or dock that a view is in.
  void reveal(const QString& view_name);
  bool busy() const;  // something is being computed that a view shows
  void set_dark(bool dark);
  // Docks, theme and recent files of the last time; not read in tests and for pictures.
  void restore_settings();
  // Among the recent files, where settings are kept.
  void remember(const QString& path);
  // Views by name, for pictures of them: "window", "timeline", "memory", ...
  QStringList view_names() const;
  QWidget* view(const QString& name) const;

 protected:
  void showEvent(QShowEvent* event) override;
  void closeEvent(QCloseEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  void make_centre();
  void make_choose();
  void make_validate();
  void make_plan();
  void add_page(Job job, QWidget* page);
  void make_docks();
  void make_actions();
  void make_file_menu();
  void make_edit_menu();
  void make_view_menu();
  void make_job_menu();
  QDockWidget* dock(const QString& title, QWidget* content, Qt::DockWidgetArea area);
  void open_as(const OpenedFile& file, const QString& path);  // no run
  void import(const QString& path, sim::JobKind kind);
  void warn(const QString& what);
  void ask_for_file();
  void save_as();
  void copy_command();
  void export_view();
  std::pair<QString, QWidget*> view_in_focus() const;
  void show_keys();
  void fill_recent();
  void find_operator();
  void find_lanes();
  // A field above the timeline that shows with a key and closes with Escape.
  QLineEdit* make_field(const QString& name, const QString& hint,
                        const std::function<bool(const QString&)>& apply);

  Session session_;
  QStackedWidget* pages_ = nullptr;
  std::array<QWidget*, 4> page_of_{};  // of each job
  QToolBar* top_ = nullptr;
  ValidatePane* validate_ = nullptr;
  OverlayPane* overlay_ = nullptr;
  TimelineView* timeline_ = nullptr;
  QLineEdit *find_ = nullptr, *lanes_ = nullptr;
  KnobPane* knobs_ = nullptr;
  MemoryPane* memory_ = nullptr;
  EditorPane* editor_ = nullptr;
  ChoosePane* choose_ = nullptr;
  PlanPane* plan_ = nullptr;
  TopologyView* topology_ = nullptr;
  QDockWidget* details_ = nullptr;
  std::vector<QDockWidget*> docks_;
  std::vector<std::pair<QString, QWidget*>> views_;
  QMenu* recent_ = nullptr;
  QActionGroup* jobs_ = nullptr;
  bool dark_ = false;
  bool remembers_ = false;  // settings are kept
  bool arranged_ = false;   // docks have their first widths
};

}  // namespace ui
