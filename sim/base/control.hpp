// Control: a caller tells a long computation when to stop, whom to tell how far it is, and how many
// threads it may use. Every library call that can take longer than 50 ms has one.
#pragma once

#include <exception>
#include <functional>
#include <stop_token>
#include <string_view>

namespace sim {

struct Progress {
  std::string_view phase;  // "plan", "simulation", "what-ifs"; lives as long as the program
  double share = 0;        // of the phase that is done, 0 to 1
};

struct Control {
  std::stop_token stop{};
  std::function<void(const Progress&)> progress{};  // on a thread of the computation
  int threads = 0;                                  // 0: one per core

  bool stopped() const { return stop.stop_requested(); }
  void tell(std::string_view phase, double share) const {
    if (progress) progress({phase, share});
  }
};

// Thrown by a computation that was told to stop before it had a result.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped"; }
};

// Throws Stopped.
inline void throw_if_stopped(const Control& control) {
  if (control.stopped()) throw Stopped{};
}

}  // namespace sim
