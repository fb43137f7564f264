// A forecast over a recorded run: both timelines, and operator by operator where they differ.
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
#include "ui/validate/operator_table.hpp"
#include "ui/validate/overlay_view.hpp"
#include "ui/validate/run_file.hpp"

namespace ui {

class OverlayPane : public QWidget {
  Q_OBJECT

 public:
  explicit OverlayPane(Session& session, QWidget* parent = nullptr);

  // A run to hold the forecast against: a record (`stepcast run SCENARIO --record FILE`), or traces
  // of the PyTorch profiler, one per rank. They are read in the background.
  void open_run(const QStringList& paths);
  // A record in place of the session's forecast; empty: the session's again.
  void open_forecast(const QString& path);
  bool busy() const { return reading() || job_.busy() || soon_.isActive(); }
  const OverlayPtr& overlay() const { return overlay_; }
  OverlayView& timelines() { return *view_; }
  const OperatorTable& operators() const { return operators_; }
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
  void take(OverlayPtr overlay, const QString& problem);
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
  QLabel *sides_ = nullptr, *verdict_ = nullptr, *selected_ = nullptr;
  QPushButton *own_ = nullptr, *align_ = nullptr;
  QCheckBox* stretch_ = nullptr;
  BackgroundJob job_, reading_run_, reading_forecast_;
};

}  // namespace ui
