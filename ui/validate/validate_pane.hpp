// All published rows: the forecast of each beside what was measured.
#pragma once

#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QTableView>
#include <QTimer>
#include <QWidget>

#include "ui/core/session.hpp"
#include "ui/validate/row_details.hpp"
#include "ui/validate/row_filters.hpp"
#include "ui/validate/row_job.hpp"
#include "ui/validate/row_scatter.hpp"
#include "ui/validate/row_table.hpp"
#include "ui/validate/score_panel.hpp"

namespace ui {

class ValidatePane : public QWidget {
  Q_OBJECT

 public:
  // `folder`: with the sets; empty: the published ones. Forecasts start when it is first shown.
  explicit ValidatePane(Session& session, std::string folder = {}, QWidget* parent = nullptr);

  void start();  // or goes on with the rows that are left
  void stop();
  bool running() const { return job_.running(); }
  const RowTable& table() const { return table_; }
  const FilteredRows& rows() const { return rows_; }
  const ScorePanel& scores() const { return *scores_; }
  const RowScatter& scatter() const { return *scatter_; }
  RowFilters& filters() { return *filters_; }
  void select(std::size_t place);
  std::optional<std::size_t> selected() const { return selected_; }
  // The selected row becomes the session's scenario, with what was measured of it.
  void open_selected();
  Q_INVOKABLE QString csv() const { return rows_.csv(); }

 Q_SIGNALS:
  void ended();   // all rows are forecast, or it was stopped
  void opened();  // a row, as the session's scenario

 protected:
  void showEvent(QShowEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  QWidget* make_top();
  QWidget* make_table();
  void connect_job();
  void refresh();  // points, scores and choices; soon, and once for many results
  void refilter();
  void show_state();
  void save_table();
  void fit_columns();

  Session& session_;
  std::string folder_;
  RowTable table_;
  FilteredRows rows_{table_};
  RowJob job_;
  QTimer soon_;
  QString failure_;
  std::optional<std::size_t> selected_;
  bool started_ = false;
  RowFilters* filters_;
  ScorePanel* scores_;
  RowScatter* scatter_;
  RowDetails* details_;
  QTableView* view_ = nullptr;
  QProgressBar* progress_ = nullptr;
  QLabel* state_ = nullptr;
  QPushButton* stop_ = nullptr;
};

}  // namespace ui
