#include "real/launch/place_text.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cmath>
#include <cstring>
#include <exception>
#include <new>

namespace real {

std::string place_text(const HeartbeatState& state, int rank, const OperatorName& name) {
  switch (state.phase) {
    case RankPhase::starting:
      return "before it joined the others";
    case RankPhase::preparing:
      return "while it prepared the run";
    case RankPhase::saving:
      return "while it saved";
    case RankPhase::ending:
      return "at the end of the run";
    case RankPhase::step:
      break;
  }
  if (state.operator_index < 0) return fmt::format("at the start of step {}", state.step);
  std::string text;
  // Nothing that goes wrong in finding the name may hide the failure itself.
  try {
    if (name) text = name(rank, state.operator_index);
  } catch (const std::exception&) {
    text.clear();
  }
  return text.empty() ? fmt::format("in operator {} of step {}", state.operator_index, state.step)
                      : fmt::format("in {} of step {}", text, state.step);
}

std::string failure_text(int rank, const HeartbeatState& state, const OperatorName& name,
                         const std::string& cause) {
  return fmt::format("rank {} failed {}: {}", rank, place_text(state, rank, name), cause);
}

std::string hang_text(const Hang& hang, const HeartbeatState& state, const OperatorName& name) {
  const std::string place = place_text(state, hang.rank, name);
  const std::string time = seconds_text(hang.time);
  if (hang.waiting)
    return fmt::format(
        "all ranks wait for one another; rank {} first, {}: nothing has happened for {}", hang.rank,
        place, time);
  return fmt::format("rank {} hangs {}: nothing has happened for {}", hang.rank, place, time);
}

std::string exit_text(int rank, int status, const HeartbeatState& state, const OperatorName& name) {
  const std::string place = place_text(state, rank, name);
  if (WIFSIGNALED(status))
    return fmt::format("rank {} was killed by signal {} ({}) {}", rank, WTERMSIG(status),
                       ::strsignal(WTERMSIG(status)), place);
  return fmt::format("rank {} left with exit code {} {}", rank, WEXITSTATUS(status), place);
}

std::string seconds_text(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", std::floor(static_cast<double>(time.count()) / 100) / 10);
}

std::string cause_text(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return "out of memory: an allocation of the host failed";
  return error.what();
}

}  // namespace real
