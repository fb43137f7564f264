// One knob over its range: the step time at each value. A click sets the value.
#pragma once

#include <QComboBox>
#include <QLineEdit>
#include <QPushButton>
#include <QWidget>

#include "sim/sweep/point.hpp"
#include "ui/charts/scatter.hpp"
#include "ui/core/background_job.hpp"
#include "ui/core/session.hpp"

namespace ui {

class SweepPane : public QWidget {
  Q_OBJECT

 public:
  explicit SweepPane(Session& session, QWidget* parent = nullptr);

 protected:
  void changeEvent(QEvent* event) override;

 private:
  struct Sweep {
    std::vector<std::string> keys;    // set together
    std::vector<std::string> values;  // as --set takes them
    std::vector<double> places;       // on the axis
    std::vector<sim::PointResult> points;
    QString title;
  };
  void forget();  // another scenario has other knobs
  void fill_keys();
  void choose_newest();
  void start();
  void take(Sweep sweep);
  void set_value(int point);

  Session& session_;
  QComboBox* key_;
  QLineEdit* values_;
  QPushButton* start_;
  Scatter* chart_;
  BackgroundJob job_;
  Sweep shown_;
  std::size_t index_of(const ScatterAt& at) const;  // into the points of the sweep

  std::vector<int> told_;  // points of the sweep that the chart has: those that fit first
  std::size_t fitting_ = 0;
  std::vector<std::vector<std::string>> keys_of_;  // of each entry of the list
};

}  // namespace ui
