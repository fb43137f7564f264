// Long calls from Python: they run on a thread of their own without the interpreter's lock, while
// the calling thread tells progress and looks for Ctrl-C.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "sim/base/control.hpp"

namespace stepcast_python {

namespace py = pybind11;

// Mailbox has what was told last and not yet handed on.
template <class Told>
class Mailbox {
 public:
  void put(Told told) {
    const std::scoped_lock lock{mutex_};
    told_ = std::move(told);
  }
  std::optional<Told> take() {
    const std::scoped_lock lock{mutex_};
    return std::exchange(told_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::optional<Told> told_;
};

// Runs work(stop) to its end. Every 50 ms it calls look(), with the interpreter's lock, which may
// throw: then, as after Ctrl-C, the work is stopped, waited for, and the exception goes on.
template <class Work>
auto run_long(const Work& work, const std::function<void()>& look) {
  using Result = decltype(work(std::stop_token{}));
  constexpr std::chrono::milliseconds between_looks{50};
  std::optional<Result> result;
  std::exception_ptr failure;
  bool done = false;
  std::mutex mutex;
  std::condition_variable ended;
  std::jthread worker{[&](const std::stop_token& stop) {
    try {
      result.emplace(work(stop));
    } catch (...) {
      failure = std::current_exception();
    }
    const std::scoped_lock lock{mutex};
    done = true;
    ended.notify_one();
  }};
  const auto wait = [&](std::chrono::milliseconds most) {
    const py::gil_scoped_release unlocked;
    std::unique_lock lock{mutex};
    return ended.wait_for(lock, most, [&] { return done; });
  };
  try {
    while (!wait(between_looks)) {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set{};
      look();
    }
    look();
  } catch (...) {
    worker.request_stop();
    const py::gil_scoped_release unlocked;
    worker.join();
    throw;
  }
  {
    const py::gil_scoped_release unlocked;
    worker.join();
  }
  if (failure) std::rethrow_exception(failure);
  return std::move(*result);
}

}  // namespace stepcast_python
