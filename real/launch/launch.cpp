#include "real/launch/launch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "real/launch/run_ways.hpp"

namespace real {
namespace {

void check(const Launch& launch) {
  if (launch.ranks < 1) throw std::invalid_argument{"a run needs a rank"};
  if (launch.ranks_per_gpu < 0 || launch.ranks_per_gpu > 100)
    throw std::invalid_argument{
        fmt::format("--ranks-per-gpu is {}: 1 to 100 is wanted", launch.ranks_per_gpu)};
  if (launch.ranks_per_gpu > 1 && launch.kind == RankKind::threads)
    throw std::invalid_argument{"--ranks-per-gpu needs ranks that are processes"};
  const std::optional<Fault> fault = parse_fault(launch.inject);
  if (!fault) return;
  if (fault->rank >= launch.ranks)
    throw std::invalid_argument{
        fmt::format("--inject is \"{}\", but there are {} ranks", launch.inject, launch.ranks)};
}

}  // namespace

void end_process(const std::string& message) {
  const std::string line = "stepcast: " + message + "\n";
  // Nothing can be done about a closed standard error.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(1);
}

std::vector<std::string> own_arguments() {
  std::ifstream in{"/proc/self/cmdline", std::ios::binary};
  const std::string text{std::istreambuf_iterator<char>{in}, std::istreambuf_iterator<char>{}};
  std::vector<std::string> arguments;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    arguments.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (!arguments.empty()) arguments.erase(arguments.begin());
  return arguments;
}

RunResult run_ranks(const Launch& launch, const Body& body) {
  check(launch);
  if (const std::optional<Supervised> supervised = take_supervised())
    return run_supervised(launch, *supervised, body);
  if (const std::optional<World> world = join_world(launch.world, process_environment())) {
    if (world->size != launch.ranks)
      throw std::invalid_argument{fmt::format("the layout has {} ranks, but {} has started {}",
                                              launch.ranks, world->source, world->size)};
    return run_joined(launch, *world, body);
  }
  if (launch.kind == RankKind::processes) return supervise_processes(launch);
  const std::optional<Fault> fault = parse_fault(launch.inject);
  if (fault && (fault->kind == FaultKind::kill || fault->kind == FaultKind::exit))
    throw std::invalid_argument{
        fmt::format("--inject is \"{}\", but threads cannot be killed", launch.inject)};
  return run_as_threads(launch, body);
}

}  // namespace real
