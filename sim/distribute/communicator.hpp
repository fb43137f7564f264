// The ranks of one mpirun, as a worker pool needs them: short texts from one to another.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace sim {

struct Message {
  int from = 0;
  std::string text;
};

// All calls from the thread that made it. Destroyed, it waits for the others to be destroyed.
class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int local_size() const = 0;    // of them on this machine
  virtual std::string host() const = 0;  // the name of this machine
  virtual void send(int to, const std::string& text) = 0;
  virtual std::optional<Message> poll() = 0;      // one that has arrived; does not wait
  [[noreturn]] virtual void abort(int code) = 0;  // ends all ranks at once
};

// mpi_library() is what joins ranks in this build: "Open MPI v4.1.4", or nullopt for a build
// without MPI.
std::optional<std::string> mpi_library();

// All ranks that MPI sees: perhaps not those that the launcher has started, if that is of another
// MPI. REQUIRES: mpi_library().
std::unique_ptr<Communicator> join_mpi();

}  // namespace sim
