#include "ui/plan/plan_job.hpp"

#include <utility>

#include "sim/capacity/answers.hpp"
#include "ui/core/words.hpp"

namespace ui {

PlanJob::PlanJob(QObject* parent) : QObject{parent} {
  connect(this, &PlanJob::looked, this, &PlanJob::take);
  connect(&job_, &BackgroundJob::failed, this, [this](const QString& why) {
    sim::Problem problem;
    problem.what = why.toStdString();
    fail({problem});
  });
}

void PlanJob::start(sim::CapacityWish wish) {
  news_ = {.serial = ++serial_};
  state_ = PlanState::running;
  job_.run([this, serial = serial_,
            wish = std::move(wish)](const sim::Control& control) -> BackgroundJob::Answer {
    PlanNews now{.serial = serial};
    const auto tell = [&](const sim::CapacityPlan& so_far, const std::string& line) {
      sim::CapacityPlan answered = so_far;
      sim::answer(answered);
      now.looked_at = so_far.points.size() + so_far.misses.size();
      now.plan = std::make_shared<const sim::CapacityPlan>(std::move(answered));
      now.line = to_qstring(line);
      Q_EMIT looked(now);
    };
    try {
      now.numbers = sim::count_numbers(wish);
      Q_EMIT looked(now);
      now.plan = std::make_shared<const sim::CapacityPlan>(
          sim::plan_capacity(wish, {.stop = control.stop}, tell));
    } catch (const sim::InputError& error) {
      return [this, problems = error.problems()] { fail(problems); };
    }
    return [this, now] {
      take(now);
      end(PlanState::done);
    };
  });
  Q_EMIT changed();
}

void PlanJob::stop() {
  if (!running()) return;
  job_.cancel();
  end(PlanState::stopped);
}

void PlanJob::take(const PlanNews& news) {
  if (news.serial != serial_ || !running()) return;
  news_ = news;
  Q_EMIT changed();
}

void PlanJob::fail(const std::vector<sim::Problem>& problems) {
  end(PlanState::idle);
  Q_EMIT failed(problems);
}

void PlanJob::end(PlanState state) {
  state_ = state;
  Q_EMIT changed();
}

}  // namespace ui
