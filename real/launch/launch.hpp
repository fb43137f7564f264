// Runs a function once per rank: as threads of this process, as processes of this program on this
// machine, or as the one rank that torchrun, mpirun or srun made of this process. Whatever ends a
// rank ends the run, with one message that names rank, operator and cause; nothing is left behind.
//
// The one call that a command makes (the same in every process of the run):
//
//   real::Launch launch{.ranks = plan.ranks(), .kind = RankKind::processes, ...};
//   const real::RunResult result = real::run_ranks(launch, [&](real::Seat& seat) {
//     // everything of one rank: bind, make the backend with &seat.transport() and
//     // &seat.heartbeat(), train; rank 0 prints. Throws what goes wrong.
//     while (steps are left && !seat.stop_wanted()) ...;
//   });
//   if (!result.message.empty())
//     print_note((result.end == RunEnd::refused ? "" : "stepcast: ") + result.message);
//   return exit code by result.end (done 0, failed 1, refused 3, interrupted 130);
//
// Nothing of a run may be printed to stdout outside the body: with processes, the code around
// run_ranks runs in the launcher and in every rank. `result.supervisor` is true in the launcher,
// where the body was not called.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "real/launch/world.hpp"
#include "real/net/heartbeat.hpp"
#include "real/net/transport.hpp"

namespace real {

enum class RankKind : std::uint8_t { threads, processes };

struct Launch {
  int ranks = 1;                      // of the plan
  RankKind kind = RankKind::threads;  // unless this process was started by a launcher
  WorldOptions world{};               // --rank, --world-size, --master
  // Processes: the arguments of this program, without its name; each rank gets the same.
  std::vector<std::string> arguments{};
  bool all_output = false;  // stdout of the ranks beside 0 as well, each line with "[rank N] "
  std::chrono::milliseconds failure_timeout{30'000};  // hang of an operator; ending of a run
  std::chrono::milliseconds setup_timeout{600'000};   // of a phase beside the steps
  std::chrono::milliseconds join_timeout{60'000};
  int ranks_per_gpu = 0;  // > 0: several ranks share a GPU through a service of our own (mps.hpp)
  // "forward of layers.3.qkv, micro-batch 1": of an operator of the program of `rank`. Called when
  // a run has failed, from a thread of its own.
  std::function<std::string(int rank, std::int64_t op)> operator_name{};
  std::string inject{};  // a fault to test with (inject.hpp): "kill:1:step 2"
  // Threads: asked to stop, the run ends as it does behind SIGINT.
  std::stop_token stop{};
};

// One rank's place in a run, used from its thread.
class Seat {
 public:
  virtual ~Seat() = default;
  virtual const World& world() const = 0;
  virtual Transport& transport() = 0;
  virtual Heartbeat& heartbeat() = 0;
  // SIGINT or SIGTERM came: finish, keep what is there, return. Collective: all ranks ask at the
  // same place (between steps) and get the same answer.
  virtual bool stop_wanted() = 0;
  // The same of this process alone, for ranks that do not wait for each other.
  virtual bool interrupted() = 0;
  // Between steps, for tests: does to this rank what Launch::inject says. `before_step` counts from
  // 0.
  virtual void inject_fault(std::int64_t before_step) = 0;
};

enum class RunEnd : std::uint8_t {
  done,
  failed,
  refused,  // an InputError: a file that the run reads is not what it should be
  interrupted,
};

struct RunResult {
  RunEnd end = RunEnd::done;
  // message says what failed; empty where another process of the run prints it. `refused`: as
  // main() prints an InputError, FILE:LINE:COLUMN first.
  std::string message{};
  bool supervisor = false;  // processes: this is the launcher, the ranks were others
};

// The arguments of this process, without its name: those of the ranks that it starts.
std::vector<std::string> own_arguments();

// Throws std::invalid_argument for options and launcher variables that do not fit together.
RunResult run_ranks(const Launch& launch, const std::function<void(Seat&)>& body);

}  // namespace real
