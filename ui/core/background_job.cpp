#include "ui/core/background_job.hpp"

#include <QMetaObject>
#include <utility>

namespace ui {

BackgroundJob::BackgroundJob(QObject* parent) : QObject{parent} {
  thread_ = std::jthread{[this](const std::stop_token& stop) { loop(stop); }};
}

BackgroundJob::~BackgroundJob() {
  thread_.request_stop();
  {
    const std::lock_guard lock{mutex_};
    current_.request_stop();
  }
  thread_.join();
}

void BackgroundJob::run(Work work) {
  const bool was = busy();
  {
    const std::lock_guard lock{mutex_};
    waiting_ = std::move(work);
    waiting_serial_ = ++asked_;
    current_.request_stop();
  }
  woken_.notify_one();
  if (!was) Q_EMIT busy_changed();
}

void BackgroundJob::cancel() {
  const bool was = busy();
  {
    const std::lock_guard lock{mutex_};
    waiting_.reset();
    current_.request_stop();
  }
  answered_ = asked_;
  if (was) Q_EMIT busy_changed();
}

void BackgroundJob::loop(const std::stop_token& stop) {
  while (true) {
    std::unique_lock lock{mutex_};
    if (!woken_.wait(lock, stop, [this] { return waiting_.has_value(); })) return;
    const Work work = *std::exchange(waiting_, std::nullopt);
    const std::uint64_t serial = waiting_serial_;
    current_ = std::stop_source{};
    const std::stop_token told = current_.get_token();
    lock.unlock();
    Answer answer;
    QString problem;
    try {
      answer = work({.stop = told});
    } catch (const sim::Stopped&) {
      continue;
    } catch (const std::exception& error) {
      problem = QString::fromUtf8(error.what());
    }
    QMetaObject::invokeMethod(
        this, [this, serial, answer, problem] { finish(serial, answer, problem); },
        Qt::QueuedConnection);
  }
}

void BackgroundJob::finish(std::uint64_t serial, const Answer& answer, const QString& problem) {
  if (serial != asked_ || serial == answered_) return;  // an older one, or cancelled
  answered_ = serial;
  if (answer) answer();
  if (!problem.isEmpty()) Q_EMIT failed(problem);
  Q_EMIT busy_changed();
}

}  // namespace ui
