// Forecasts on a thread of its own: the newest request wins.
#pragma once

#include <QObject>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "ui/core/result.hpp"

namespace ui {

// One request is in work and at most one waits: a newer one takes the place of the waiting one.
// Work that has been going on for long is stopped for the newer request; work that ends soon may
// end, so that a slider in motion shows pictures. Signals come on the thread that the worker was
// made on.
class ForecastWorker : public QObject {
  Q_OBJECT

 public:
  explicit ForecastWorker(QObject* parent = nullptr);
  ~ForecastWorker() override;

  void ask(ForecastRequest request);

 Q_SIGNALS:
  void done(ui::ResultPtr result);
  void failed(ui::FailurePtr failure);

 private:
  void work(const std::stop_token& stop);
  std::optional<ForecastRequest> next(const std::stop_token& stop);
  void answer(const ForecastRequest& request, sim::Forecaster& forecaster,
              const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any asked_;
  std::optional<ForecastRequest> waiting_;
  std::stop_source current_;  // of the request in work
  std::chrono::steady_clock::time_point began_;
  bool in_work_ = false;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace ui
