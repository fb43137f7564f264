#include "sim/base/deadline.hpp"

#include <condition_variable>
#include <mutex>

namespace sim {

Deadline::Deadline(std::stop_token told, std::chrono::nanoseconds most)
    : told_{std::move(told), [this] { source_.request_stop(); }} {
  if (most <= std::chrono::nanoseconds::zero()) return;
  timer_ = std::jthread{[this, most](const std::stop_token& ended) {
    std::mutex mutex;
    std::unique_lock lock{mutex};
    std::condition_variable_any wait;
    wait.wait_for(lock, ended, most, [] { return false; });
    if (ended.stop_requested()) return;
    is_over_ = true;
    source_.request_stop();
  }};
}

}  // namespace sim
