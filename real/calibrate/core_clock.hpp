// How long a piece of work of this thread took: on the wall, less what other processes took of its
// core meanwhile.
#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>

namespace real {

// Seconds on a clock that all processes of the machine share.
inline double wall_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double processor_now() {
  std::timespec time{};
  return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0
             ? static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec)
             : 0;  // a system without this clock: see CoreTimer::stop()
}

// A stretch of work. The wall is read inside of the readings of the processor, which are system
// calls: without a disturbance the wall is the shorter of the two, and counts.
class CoreTimer {
 public:
  void start() {
    processor_ = processor_now();
    wall_ = wall_now();
  }
  double stop() const {
    const double seconds = wall_now() - wall_;
    const double processor = processor_now() - processor_;
    return processor > 0 ? std::min(seconds, processor) : seconds;
  }

 private:
  double processor_ = 0, wall_ = 0;
};

}  // namespace real
