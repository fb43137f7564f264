// A worker pool over local threads and MPI ranks. Idle workers pull units of work, one by one.
//
// Rank 0 leads: it has a WorkerPool. The others serve(). Between them:
//   others   "ready THREADS DIGEST HOST", then "did UNIT ANSWER" or "failed CODE TEXT"; last "bye"
//   rank 0   "go" or "end", then "do UNIT", last "stop"
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sim/distribute/communicator.hpp"

namespace sim {

// The answer to a unit: a JSON object in one line. A pure function; thread-safe.
using Task = std::function<std::string(std::uint64_t unit)>;

struct Answered {
  std::uint64_t unit = 0;
  std::string answer;
};

// Another rank has failed: what it says, and the exit code that is due.
class RankFailed : public std::runtime_error {
 public:
  RankFailed(int code, const std::string& what) : std::runtime_error{what}, code_{code} {}
  int code() const { return code_; }

 private:
  int code_;
};

// The threads of this process. submit() and take() are of the thread that made it.
class ThreadPool {
 public:
  ThreadPool(Task work, int threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();  // waits for what has begun

  int threads() const { return static_cast<int>(threads_.size()); }
  int running() const { return running_; }  // submitted and not yet taken
  void submit(std::uint64_t unit);
  // One that is done; waits for it. Throws what the work has thrown.
  std::optional<Answered> take(std::chrono::microseconds wait);

 private:
  struct Done {
    Answered answered;
    std::exception_ptr failure;
  };
  void compute_until_closed();

  Task work_;
  int running_ = 0;
  std::mutex mutex_;
  std::condition_variable has_work_, has_done_;
  std::deque<std::uint64_t> waiting_;
  std::deque<Done> done_;
  bool closed_ = false;
  std::vector<std::jthread> threads_;  // the last: they are gone before what they use
};

class WorkerPool {
 public:
  // `communicator` may be null: this process alone. Waits until the others are ready; throws
  // InputError if one of them reads other input, which `digest` tells.
  WorkerPool(Task work, int threads, const std::string& digest, Communicator* communicator);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool() = default;

  int ranks() const { return communicator_ ? communicator_->size() : 1; }
  int threads() const { return threads_; }  // of all ranks
  bool is_free() const { return in_flight() < threads_; }
  int in_flight() const;
  void submit(std::uint64_t unit);  // REQUIRES: is_free()
  // One that is answered; empty if none is within `wait`. Throws what the work has thrown, and
  // RankFailed.
  std::optional<Answered> next(std::chrono::milliseconds wait);
  // Sends the others home; waits for what they are at. Nothing may be submitted then.
  void close();

 private:
  struct Rank {
    int threads = 0;  // 0: this one
    int running = 0;
    std::string host;
  };
  void wait_until_ready(const std::string& digest);
  std::optional<Answered> from_others();

  ThreadPool pool_;
  Communicator* communicator_;
  int threads_;
  std::vector<Rank> others_;  // by rank; the first is this process
};

// Service is what ranks other than 0 do until they are sent home. `load` reads the input and gives
// its digest; what it throws reaches rank 0.
struct Service {
  std::function<std::string()> load;
  Task work;
  int threads = 1;
  std::function<std::pair<int, std::string>()> failure;  // code and text of what is being handled
};
void serve(const Service& service, Communicator& communicator);

}  // namespace sim
