// Watches the communication of a rank from a thread of its own: the thread that issues a step may
// be blocked in a call, with the device waiting for a partner that is gone.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "real/cuda/nccl/nccl.hpp"

namespace real {

class Watchdog {
 public:
  // `culprit`: names the operator that the device is at; called from the watchdog's thread.
  Watchdog(NcclWorld& nccl, std::chrono::milliseconds timeout,
           std::function<std::string()> culprit);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void step_begins() { active_.store(true); }
  void step_ends() { active_.store(false); }
  // The rank moved on: an operator was issued, or the device got through with one.
  void progress() { progress_.fetch_add(1, std::memory_order_relaxed); }
  // Why communication was aborted; empty: it was not.
  std::string failure() const;

 private:
  void watch();
  void fail(const std::string& cause);

  NcclWorld& nccl_;
  std::chrono::milliseconds timeout_;
  std::function<std::string()> culprit_;
  std::atomic<bool> active_{false};
  std::atomic<std::uint64_t> progress_{0};
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::string failure_;
  std::thread thread_;
};

}  // namespace real
