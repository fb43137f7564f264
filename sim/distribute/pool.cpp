#include <tbb/task_arena.h>

#include "sim/distribute/crew.hpp"

namespace sim {

// An arena, so that work which is parallel in itself shares these threads. None is kept for the
// thread that hands out: it only waits.
struct Pool::Arena {
  explicit Arena(int threads) : tasks{threads, 0} {}
  tbb::task_arena tasks;
};

Pool::Pool(Work work, int threads)
    : work_{std::move(work)}, threads_{threads}, arena_{std::make_unique<Arena>(threads)} {}

Pool::~Pool() {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return unfinished_ == 0; });
}

void Pool::compute(std::uint64_t unit) {
  Done done{{unit, {}}, nullptr};
  try {
    done.answered.answer = work_(unit);
  } catch (...) {
    done.failure = std::current_exception();
  }
  const std::scoped_lock lock{mutex_};
  done_.push_back(std::move(done));
  --unfinished_;
  changed_.notify_all();  // within the lock: behind it, this pool may be gone
}

void Pool::submit(std::uint64_t unit) {
  ++running_;
  {
    const std::scoped_lock lock{mutex_};
    ++unfinished_;
  }
  arena_->tasks.enqueue([this, unit] { compute(unit); });
}

std::optional<Answered> Pool::take(std::chrono::microseconds wait) {
  std::unique_lock lock{mutex_};
  if (!changed_.wait_for(lock, wait, [&] { return !done_.empty(); })) return std::nullopt;
  Done done = std::move(done_.front());
  done_.pop_front();
  --running_;
  if (done.failure) std::rethrow_exception(done.failure);
  return std::move(done.answered);
}

}  // namespace sim
