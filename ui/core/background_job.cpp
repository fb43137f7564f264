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
    woken_.wait(lock, stop, [this] { return waiting_.has_value(); });
    if (stop.stop_requested()) return;  // also where something waits: nobody would stop it
    const Work work = *std::exchange(waiting_, std::nullopt);
    Done done{waiting_serial_, {}, {}};
    current_ = std::stop_source{};
    const std::stop_token told = current_.get_token();
    lock.unlock();
    try {
      done.answer = work({.stop = told});
    } catch (const sim::Stopped&) {
      continue;
    } catch (const std::exception& error) {
      done.problem = QString::fromUtf8(error.what());
    }
    lock.lock();
    done_ = std::move(done);
    lock.unlock();
    QMetaObject::invokeMethod(this, &BackgroundJob::finish, Qt::QueuedConnection);
  }
}

void BackgroundJob::finish() {
  std::optional<Done> done;
  {
    const std::lock_guard lock{mutex_};
    done = std::exchange(done_, std::nullopt);
  }
  // Taken already, an older one, or cancelled.
  if (!done || done->serial != asked_ || done->serial == answered_) return;
  answered_ = done->serial;
  if (done->answer) done->answer();
  if (!done->problem.isEmpty()) Q_EMIT failed(done->problem);
  Q_EMIT busy_changed();
}

}  // namespace ui
