#include "real/launch/rank_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

extern "C" {
extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program
}

namespace real {
namespace {

std::vector<std::string> environment_of(const RankProcess& process) {
  std::map<std::string, std::string> added = process.environment;
  added[supervised_variable] =
      fmt::format("{},{},{},{},{},{},{},{}", process.control, process.heartbeats, process.listener,
                  process.rank, process.size, process.port, process.job, process.secret);
  std::vector<std::string> all;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string entry = *at;
    if (!added.contains(entry.substr(0, entry.find('=')))) all.push_back(entry);
  }
  for (const auto& [name, value] : added)
    all.push_back(fmt::format("{}={}", name, value));
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts)
    pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

std::map<std::string, std::string> rank_environment(int rank, int size, int port) {
  return {{"RANK", fmt::format("{}", rank)},
          {"WORLD_SIZE", fmt::format("{}", size)},
          {"LOCAL_RANK", fmt::format("{}", rank)},
          {"LOCAL_WORLD_SIZE", fmt::format("{}", size)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", fmt::format("{}", port)}};
}

pid_t start(const RankProcess& process) {
  std::vector<std::string> arguments = process.arguments;
  arguments.insert(arguments.begin(), "stepcast");
  std::vector<std::string> environment = environment_of(process);
  // All memory is made before the fork: after it, only calls that are safe beside other threads.
  const std::vector<char*> argv = pointers_to(arguments);
  const std::vector<char*> envp = pointers_to(environment);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0)
    throw std::runtime_error{fmt::format("cannot start rank {}: {}", process.rank,
                                         std::generic_category().message(errno))};
  if (child > 0) return child;
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(process.output < 0 ? nothing : process.output, STDOUT_FILENO);
  ::dup2(process.errors < 0 ? nothing : process.errors, STDERR_FILENO);
  for (const int descriptor : {process.control, process.heartbeats, process.listener})
    if (descriptor >= 0) ::fcntl(descriptor, F_SETFD, 0);
  ::sigprocmask(SIG_SETMASK, &process.signal_mask, nullptr);
  ::execve("/proc/self/exe", argv.data(), envp.data());
  ::_exit(127);
}

}  // namespace real
