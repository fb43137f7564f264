#include "real/cuda/watchdog.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace real {

namespace {

// Often enough to end a run well within its time limit, rarely enough to cost nothing.
constexpr std::chrono::milliseconds period{100};

}  // namespace

Watchdog::Watchdog(NcclWorld& nccl, std::chrono::milliseconds timeout,
                   std::function<std::string()> culprit)
    : nccl_{nccl}, timeout_{timeout}, culprit_{std::move(culprit)}, thread_{[this] { watch(); }} {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock{mutex_};
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::string Watchdog::failure() const {
  const std::lock_guard lock{mutex_};
  return failure_;
}

void Watchdog::fail(const std::string& cause) {
  const std::string message = fmt::format("{}: {}", culprit_(), cause);
  {
    const std::lock_guard lock{mutex_};
    failure_ = message;
  }
  nccl_.abort();
}

void Watchdog::watch() {
  using Clock = std::chrono::steady_clock;
  std::uint64_t seen = progress_.load();
  Clock::time_point since = Clock::now();
  for (;;) {
    {
      std::unique_lock lock{mutex_};
      wake_.wait_for(lock, std::min(period, timeout_ / 4), [this] { return stop_; });
      if (stop_ || !failure_.empty()) return;
    }
    const std::string error = nccl_.asynchronous_error();
    if (!error.empty()) return fail(error);
    const std::uint64_t now = progress_.load();
    if (!active_.load() || now != seen) {
      seen = now;
      since = Clock::now();
    } else if (Clock::now() - since > timeout_) {
      return fail(fmt::format("the device did not get through it within {} ms", timeout_.count()));
    }
  }
}

}  // namespace real
