#include "ui/core/forecast_worker.hpp"

#include <chrono>
#include <utility>

namespace ui {
namespace {

constexpr std::chrono::milliseconds let_end{250};

sim::Problem problem_of(const ForecastRequest& request, const std::exception& error) {
  return {{request.path, 0, 0}, error.what(), {}};
}

}  // namespace

ForecastWorker::ForecastWorker(QObject* parent) : QObject{parent} {
  thread_ = std::jthread{[this](const std::stop_token& stop) { work(stop); }};
}

ForecastWorker::~ForecastWorker() {
  thread_.request_stop();
  const std::lock_guard lock{mutex_};
  current_.request_stop();
}

void ForecastWorker::ask(ForecastRequest request) {
  const std::lock_guard lock{mutex_};
  waiting_ = std::move(request);
  if (in_work_ && std::chrono::steady_clock::now() - began_ > let_end) current_.request_stop();
  asked_.notify_one();
}

void ForecastWorker::work(const std::stop_token& stop) {
  sim::Forecaster forecaster;
  while (const std::optional<ForecastRequest> request = next(stop))
    answer(*request, forecaster, stop);
}

std::optional<ForecastRequest> ForecastWorker::next(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  in_work_ = false;
  if (!asked_.wait(lock, stop, [this] { return waiting_.has_value(); })) return std::nullopt;
  in_work_ = true;
  began_ = std::chrono::steady_clock::now();
  current_ = std::stop_source{};
  return std::exchange(waiting_, std::nullopt);
}

void ForecastWorker::answer(const ForecastRequest& request, sim::Forecaster& forecaster,
                            const std::stop_token& stop) {
  std::stop_token told;
  {
    const std::lock_guard lock{mutex_};
    told = current_.get_token();
  }
  const std::stop_callback close{stop, [this] { current_.request_stop(); }};
  const auto fail = [&](std::vector<sim::Problem> problems) {
    Q_EMIT failed(std::make_shared<const Failure>(Failure{request, std::move(problems)}));
  };
  try {
    Q_EMIT done(compute(request, forecaster, {.stop = told}));
  } catch (const sim::Stopped&) {
    return;
  } catch (const sim::InputError& error) {
    fail(error.problems());
  } catch (const std::exception& error) {
    fail({problem_of(request, error)});
  }
}

}  // namespace ui
