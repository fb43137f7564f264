// The ways to run the ranks, one file each, and how a rank's process and its supervisor talk.
// Room-internal.
#pragma once

#include <sys/types.h>

#include <array>
#include <map>
#include <optional>
#include <string>

#include "real/launch/inject.hpp"
#include "real/launch/launch.hpp"
#include "real/launch/place_text.hpp"

namespace real {

using Body = std::function<void(Seat&)>;

RunResult run_as_threads(const Launch& launch, const Body& body);  // threads.cpp
RunResult supervise_processes(const Launch& launch);               // supervisor.cpp
// This process is one rank of a run that torchrun, mpirun, srun or the user has started.
RunResult run_joined(const Launch& launch, const World& world, const Body& body);  // member.cpp

// This process is one rank of supervise_processes().
struct Supervised {
  World world{};
  int control = -1;     // SOCK_SEQPACKET: a Report
  int heartbeats = -1;  // memory with one Heartbeat per rank
  int listener = -1;    // rank 0: the socket at world.master_port
  std::string secret{};
};
// take_supervised() reads the environment that RankProcess sets, and unsets it, lest a child takes
// it for its own.
std::optional<Supervised> take_supervised();
RunResult run_supervised(const Launch& launch, const Supervised& supervised, const Body& body);

enum class Ending : std::uint32_t { done = 1, interrupted, failed, refused, agreed, followed };
// Report is what a rank says last. `refused`: an InputError; `agreed`: a SharedFailure, which all
// ranks report; `followed`: another rank is to blame.
struct Report {
  Ending ending = Ending::done;
  std::int32_t blamed = -1;
  std::array<char, 2048> text{};  // ends with a zero
};

// Memory that processes share, with a Heartbeat per rank.
class SharedHeartbeats {
 public:
  static int create(int ranks);  // descriptor of new memory; the caller's to close
  SharedHeartbeats(int descriptor, int ranks);
  SharedHeartbeats(const SharedHeartbeats&) = delete;
  SharedHeartbeats& operator=(const SharedHeartbeats&) = delete;
  ~SharedHeartbeats();
  Heartbeat& of(int rank) const { return all_[rank]; }

 private:
  std::size_t bytes_;
  Heartbeat* all_ = nullptr;
};

// Ends the process at once: for a rank whose thread cannot be ended otherwise.
[[noreturn]] void end_process(const std::string& message);

}  // namespace real
