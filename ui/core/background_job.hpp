// Work beside the window, of which only the newest counts: sensitivities, sweeps, searches.
#pragma once

#include <QObject>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "sim/base/control.hpp"

namespace ui {

class BackgroundJob : public QObject {
  Q_OBJECT

 public:
  // Answer is what the window does with the result, on its own thread.
  using Answer = std::function<void()>;
  // Runs on the job's thread. May throw: sim::Stopped is silence, other errors come by `failed`.
  using Work = std::function<Answer(const sim::Control&)>;

  explicit BackgroundJob(QObject* parent = nullptr);
  ~BackgroundJob() override;

  // Stops what is in work, and takes the place of what waits.
  void run(Work work);
  void cancel();
  bool busy() const { return asked_ != answered_; }

 Q_SIGNALS:
  void failed(const QString& why);
  void busy_changed();

 private:
  void loop(const std::stop_token& stop);
  void finish();

  struct Done {
    std::uint64_t serial = 0;
    Answer answer;
    QString problem;
  };

  std::mutex mutex_;  // of what both threads use, to current_
  std::condition_variable_any woken_;
  std::optional<Work> waiting_;
  std::uint64_t waiting_serial_ = 0;
  std::optional<Done> done_;  // that the window has not taken yet; the newest
  std::stop_source current_;
  std::uint64_t asked_ = 0, answered_ = 0;  // on the window's thread
  std::jthread thread_;                     // last: it uses the others
};

}  // namespace ui
