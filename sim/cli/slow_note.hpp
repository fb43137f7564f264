// A note on stderr when a command takes long: what it is at, and how to stop it.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "sim/base/control.hpp"

namespace sim {

// SlowNote tells after `first`, and then each time that three times as long is over. One thread at
// a time changes the phase.
class SlowNote {
 public:
  using Print = std::function<void(const std::string&)>;
  SlowNote();  // by print_note, after five seconds
  SlowNote(std::chrono::milliseconds first, Print print);

  // control tells the note what a computation is at; REQUIRES: it ends before the note.
  Control control();
  void is_at(std::string_view phase) { set({.phase = phase}); }

 private:
  void set(const Progress& progress);
  std::string text(std::chrono::milliseconds after);

  std::mutex mutex_;
  Progress progress_{.phase = "reading"};
  std::jthread thread_;
};

}  // namespace sim
