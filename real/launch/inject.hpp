// Faults on purpose, to test with: `--inject KIND:RANK:step N`. A test aid; nothing else reads it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace real {

enum class FaultKind : std::uint8_t {
  kill,    // SIGKILL to itself (processes)
  hang,    // stops moving, as a process with SIGSTOP
  memory,  // asks for more memory than there is
  fail,    // throws
  exit,    // leaves with exit code 3 (processes)
};

struct Fault {
  FaultKind kind = FaultKind::fail;
  int rank = 0;
  std::int64_t step = 0;        // happens before this step, counted from 0
  bool before_joining = false;  // "KIND:RANK:start" instead of a step
};

// "kill:1:step 2", "exit:0:start"; nothing of an empty text. Throws std::invalid_argument.
std::optional<Fault> parse_fault(const std::string& text);
void cause(FaultKind kind);

}  // namespace real
