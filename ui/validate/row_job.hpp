// Forecasts of the published rows, on threads of their own; results come as they are made.
#pragma once

#include <QObject>
#include <QString>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "sim/scores/predict.hpp"
#include "ui/core/background_job.hpp"

namespace ui {

using SetsPtr = std::shared_ptr<const std::vector<sim::MeasuredSet>>;
using RowResultPtr = std::shared_ptr<const sim::RowResult>;

// A row of a set, by their places.
struct RowAt {
  std::size_t set = 0;
  std::size_t row = 0;
};

// The sets below `folder` (validation/published). Throws InputError.
std::vector<sim::MeasuredSet> load_sets(const std::string& folder);
// rows_of() has the rows of all sets, in their order.
std::vector<RowAt> rows_of(const std::vector<sim::MeasuredSet>& sets);

class RowJob : public QObject {
  Q_OBJECT

 public:
  explicit RowJob(QObject* parent = nullptr);

  // Loads the sets, then forecasts every row. An earlier start is stopped.
  void start(const std::string& folder);
  // Forecasts rows of sets that are loaded: those of `left`, places in rows_of().
  void start(SetsPtr sets, std::vector<std::size_t> left);
  void stop();  // within 50 ms; what has been forecast stays
  bool running() const { return job_.busy(); }

 Q_SIGNALS:
  // On the thread that the job was made on.
  void loaded(ui::SetsPtr sets);
  void predicted(std::size_t place, ui::RowResultPtr result);  // place: in rows_of()
  void failed(const QString& why);                             // the sets cannot be read
  void ended();                                                // done, stopped or failed

 private:
  void predict_all(const SetsPtr& sets, const std::vector<std::size_t>& left,
                   const sim::Control& control);

  BackgroundJob job_;
};

}  // namespace ui
