// A computation that may take only so long.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <stop_token>
#include <thread>

#include "sim/base/control.hpp"

namespace sim {

// Deadline asks its control to stop when `told` is, or `most` after it was made; zero: no limit.
class Deadline {
 public:
  Deadline(std::stop_token told, std::chrono::nanoseconds most);
  Control control() const { return {.stop = source_.get_token()}; }
  bool is_over() const { return is_over_; }  // the time was

 private:
  std::stop_source source_;
  std::stop_callback<std::function<void()>> told_;
  std::atomic<bool> is_over_ = false;
  std::jthread timer_;
};

}  // namespace sim
