// SIGINT and SIGTERM as a question that can be asked, without handlers or globals: they are blocked
// and read from a descriptor.
#pragma once

#include <atomic>
#include <csignal>
#include <thread>

namespace real {

// Blocks SIGINT, SIGTERM and, if asked, SIGCHLD in this thread and all that it starts, until
// destroyed.
class BlockedSignals {
 public:
  explicit BlockedSignals(bool children);
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals();
  int descriptor() const { return descriptor_; }  // signalfd, non-blocking
  const sigset_t& mask_before() const { return before_; }

 private:
  sigset_t before_{};
  int descriptor_ = -1;
};

// A thread that sets a flag at the first signal and ends the process with 130 at the second.
class InterruptFlag {
 public:
  InterruptFlag();
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;
  ~InterruptFlag();
  bool is_set() const { return set_.load(std::memory_order_relaxed); }

 private:
  void listen();

  BlockedSignals signals_;
  int stop_ = -1;  // eventfd
  std::atomic<bool> set_{false};
  std::thread thread_;
};

}  // namespace real
