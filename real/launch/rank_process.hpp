// Starting one rank as a process of this program. Room-internal.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace real {

inline constexpr const char* supervised_variable = "STEPCAST_SUPERVISED_RANK";

struct RankProcess {
  int rank = 0;
  int size = 1;
  std::vector<std::string> arguments{};              // without the program's name
  std::map<std::string, std::string> environment{};  // set beside what this process has
  // Descriptors that it inherits, in this process; -1: none.
  int control = -1;
  int heartbeats = -1;
  int listener = -1;
  int output = -1;  // -1: /dev/null; its standard output and error
  int errors = -1;
  int port = 0;
  std::string job{};
  std::string secret{};
  sigset_t signal_mask{};
};

// The variables of rank `rank`, beside those that GPU sharing adds: what torchrun's children have,
// so that libraries that look for them agree.
std::map<std::string, std::string> rank_environment(int rank, int size, int port);

// The process is the leader of a group of its own and dies with this thread. Throws
// std::runtime_error if there cannot be another process.
pid_t start(const RankProcess& process);

}  // namespace real
