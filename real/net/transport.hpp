// Messages between the ranks of a run: the control plane of every backend, and the data plane of
// the host backend. Ranks are threads of one process (local) or processes joined by TCP (tcp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace real {

// Another rank is gone, or a message did not come in time. `rank` is the one to blame; it may have
// announced the end itself, with abort().
class RankFailure : public std::runtime_error {
 public:
  RankFailure(int rank, const std::string& what, bool announced = false)
      : std::runtime_error{what}, rank_{rank}, announced_{announced} {}
  int rank() const { return rank_; }
  bool announced() const { return announced_; }

 private:
  int rank_ = -1;
  bool announced_ = false;
};

// SharedFailure is what all ranks have found together, so that no one of them is to blame: every
// rank throws it, with the same message, which says all.
class SharedFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Ticket = std::uint64_t;

// One rank's end. Not thread-safe: a rank uses it from one thread.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Start a message and return at once; the memory stays untouched until done(). Messages of one
  // pair of ranks on one channel meet in the order of their starts; a receive of another size than
  // its send throws std::logic_error. Self-sends are refused.
  virtual Ticket start_send(int to, std::uint32_t channel, std::span<const std::byte> data) = 0;
  virtual Ticket start_receive(int from, std::uint32_t channel, std::span<std::byte> data) = 0;
  // Moves what can be moved. Whether the message is through; a ticket may be asked once after it
  // was. Throws RankFailure if its partner is gone.
  virtual bool done(Ticket ticket) = 0;
  // Sleeps until something may have changed, a few milliseconds at most.
  virtual void idle() = 0;
  // Forgets a message that is not through: its memory is the caller's again. The channel must not
  // be used with that partner afterwards; of a tcp world, a message half sent ends the connection.
  virtual void cancel(Ticket ticket) = 0;
  // This rank gives up: done() of every rank throws RankFailure(blamed, reason) for what is not
  // through by then. Nothing happens when the world is aborted already.
  virtual void abort(int blamed, const std::string& reason) = 0;
};

// A world of `size` ranks in this process; one Transport for each, to be used from its own thread
// (abort() from any). A message has one copy, from the sender's memory into the receiver's. When a
// rank's Transport is gone, done() throws for the messages with it; when it goes while an exception
// unwinds its thread, that is an abort().
std::vector<std::unique_ptr<Transport>> make_local_world(int size);

// A message under way. One that is not through when this goes is cancelled: its memory may go next,
// and no partner may still copy into it.
class Pending {
 public:
  Pending(Transport& transport, Ticket ticket) : transport_{transport}, ticket_{ticket} {}
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  ~Pending();

  bool done();  // as Transport::done(), but may be asked again
  void wait();

 private:
  Transport& transport_;
  Ticket ticket_;
  bool over_ = false;
};

// Waits for one ticket.
void wait(Transport& transport, Ticket ticket);

}  // namespace real
