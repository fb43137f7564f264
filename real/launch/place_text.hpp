// Sentences about ranks, for the one message that a failed run ends with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "real/launch/hang_detector.hpp"
#include "real/net/heartbeat.hpp"

namespace real {

using OperatorName = std::function<std::string(int rank, std::int64_t op)>;

// "in forward of layers.3.qkv of step 2", "before step 0", "while it prepared the run"
std::string place_text(const HeartbeatState& state, int rank, const OperatorName& name);
// "rank 1 failed in ...: CAUSE"
std::string failure_text(int rank, const HeartbeatState& state, const OperatorName& name,
                         const std::string& cause);
// "rank 1 hangs in ...: nothing has happened for 30 s"
std::string hang_text(const Hang& hang, const HeartbeatState& state, const OperatorName& name);
// "rank 1 was killed by signal 9 (Killed) in ...", from what waitpid says.
std::string exit_text(int rank, int status, const HeartbeatState& state, const OperatorName& name);
// "0.4 s": tenths of a second, rounded down.
std::string seconds_text(std::chrono::milliseconds time);
// cause_text() is what an exception says; std::bad_alloc in words.
std::string cause_text(const std::exception& error);

}  // namespace real
