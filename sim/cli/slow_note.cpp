#include "sim/cli/slow_note.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <utility>

#include "sim/cli/command.hpp"

namespace sim {

SlowNote::SlowNote() : SlowNote{std::chrono::seconds{5}, print_note} {}

SlowNote::SlowNote(std::chrono::milliseconds first, Print print)
    : thread_{[this, first, print = std::move(print)](const std::stop_token& over) {
        std::mutex mutex;
        std::unique_lock lock{mutex};
        std::condition_variable_any wait;
        const auto begin = std::chrono::steady_clock::now();
        for (auto after = first;; after *= 3) {
          wait.wait_until(lock, over, begin + after, [] { return false; });
          if (over.stop_requested()) return;
          print(text(after));
        }
      }} {}

Control SlowNote::control() {
  return {.progress = [this](const Progress& progress) { set(progress); }};
}

void SlowNote::set(const Progress& progress) {
  const std::scoped_lock lock{mutex_};
  progress_ = progress;
}

std::string SlowNote::text(std::chrono::milliseconds after) {
  const std::scoped_lock lock{mutex_};
  const std::string share =
      progress_.share > 0 ? fmt::format(", {:.0f} % of it done", 100 * progress_.share) : "";
  return fmt::format("still at work after {:g} s: {}{}; Ctrl-C stops it",
                     static_cast<double>(after.count()) / 1000, progress_.phase, share);
}

}  // namespace sim
