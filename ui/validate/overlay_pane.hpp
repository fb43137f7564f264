// A forecast over a recorded run: both timelines, operator by operator where they differ, and what
// explain finds.
#pragma once

#include <QCheckBox>
#include <QLabel>
#include <QPushButton>
#include <QSortFilterProxyModel>
#include <QTableView>
#include <QTimer>
#include <QWidget>

#include "ui/core/background_job.hpp"
#include "ui/core/session.hpp"
#include "ui/explain/explain_pane.hpp"
#include "ui/validate/compared_run.hpp"
#include "ui/validate/operator_table.hpp"
#include "ui/validate/overlay_view.hpp"

namespace ui {

class OverlayPane : public QWidget {
  Q_OBJECT

 public:
  explicit OverlayPane(Session& session, QWidget* parent = nullptr);

  // A run to explain and to hold the forecast against: a record (`stepcast run SCENARIO --record
  // FILE`), or traces of one job, as sim::read_run takes them. They are read in the background.
  void open_run(const QStringList& paths);
  // A record in place of the session's forecast; empty: the session's again.
  void open_forecast(const QString& path);
  bool busy() const { return reading() || job_.busy() || soon_.isActive(); }
  const OverlayPtr& overlay() const { return overlay_; }
  OverlayView& timelines() { return *view_; }
  const OperatorTable& operators() const { return operators_; }
  ExplainPane& explain() { return *explain_; }
  // The next operator of the cause that is selected, on both timelines.
  void walk(bool forward);
  QString problem() const { return problem_; }
  Q_INVOKABLE QString csv() const;  // operator by operator, as `stepcast compare -o csv`

 Q_SIGNALS:
  void changed();

 private:
  QWidget* make_top();
  QWidget* make_table();
  void ask_for_run();
  void ask_for_forecast();
  bool reading() const;  // files
  void compare();        // in the background
  void cancel();
  void take(const ComparedRun& compared, const QString& problem);
  void follow_cause();
  void follow_kernel(const QString& name);
  void show_place();
  QString why_unexplained() const;
  void follow_selection();
  void follow_table();
  void show_texts();
  QString verdict() const;

  Session& session_;
  RunFile run_;
  RecordPtr forecast_;  // null: that of the session
  QString run_name_, forecast_name_, problem_;
  OverlayPtr overlay_;
  OperatorTable operators_;
  QSortFilterProxyModel sorted_;
  QTimer soon_;
  bool following_ = false;
  OverlayView* view_;
  QTableView* table_ = nullptr;
  ExplainPane* explain_ = nullptr;
  std::vector<OverlayAt> walk_;  // operators of the cause that is selected
  std::size_t walked_ = 0;       // the one that is shown
  QString unexplained_;
  QLabel *sides_ = nullptr, *differences_ = nullptr, *verdict_ = nullptr, *selected_ = nullptr;
  QPushButton *own_ = nullptr, *align_ = nullptr, *cancel_ = nullptr;
  QCheckBox* stretch_ = nullptr;
  BackgroundJob job_, reading_run_, reading_forecast_;
};

}  // namespace ui
