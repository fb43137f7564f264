// A plan of capacity on a thread of its own: the newest wins, and one that is stopped leaves what
// it has.
#pragma once

#include <QObject>
#include <memory>
#include <vector>

#include "sim/base/input_error.hpp"
#include "sim/capacity/capacity.hpp"
#include "ui/core/background_job.hpp"

namespace ui {

using PlanPtr = std::shared_ptr<const sim::CapacityPlan>;

// PlanNews is how far a plan is: its answers are of the numbers of GPUs that are known.
struct PlanNews {
  std::uint64_t serial = 0;  // of the start that it is of
  PlanPtr plan{};
  std::size_t looked_at = 0, numbers = 0;  // of GPUs
  QString line{};                          // what was found last
};

enum class PlanState { idle, running, stopped, done };

class PlanJob : public QObject {
  Q_OBJECT

 public:
  explicit PlanJob(QObject* parent = nullptr);

  // In place of the one that is running, if any.
  void start(sim::CapacityWish wish);
  void stop();
  PlanState state() const { return state_; }
  bool running() const { return state_ == PlanState::running; }
  const PlanNews& news() const { return news_; }  // the newest; without a plan before the first

 Q_SIGNALS:
  void changed();  // news() or state()
  void failed(const std::vector<sim::Problem>& problems);
  void looked(const ui::PlanNews& news);  // from the job's thread

 private:
  void take(const PlanNews& news);
  void fail(const std::vector<sim::Problem>& problems);
  void end(PlanState state);

  std::uint64_t serial_ = 0;
  PlanState state_ = PlanState::idle;
  PlanNews news_;
  BackgroundJob job_;  // last: it uses the others
};

}  // namespace ui
