#include "sim/distribute/worker_pool.hpp"

namespace sim {

ThreadPool::ThreadPool(Task work, int threads) : work_{std::move(work)} {
  for (int i = 0; i < threads; ++i)
    threads_.emplace_back([this] { compute_until_closed(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::scoped_lock lock{mutex_};
    closed_ = true;
    waiting_.clear();
  }
  has_work_.notify_all();
}

void ThreadPool::compute_until_closed() {
  std::unique_lock lock{mutex_};
  while (true) {
    has_work_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
    if (closed_) return;
    Done done{{waiting_.front(), {}}, nullptr};
    waiting_.pop_front();
    lock.unlock();
    try {
      done.answered.answer = work_(done.answered.unit);
    } catch (...) {
      done.failure = std::current_exception();
    }
    lock.lock();
    done_.push_back(std::move(done));
    has_done_.notify_one();
  }
}

void ThreadPool::submit(std::uint64_t unit) {
  ++running_;
  {
    const std::scoped_lock lock{mutex_};
    waiting_.push_back(unit);
  }
  has_work_.notify_one();
}

std::optional<Answered> ThreadPool::take(std::chrono::microseconds wait) {
  std::unique_lock lock{mutex_};
  if (!has_done_.wait_for(lock, wait, [&] { return !done_.empty(); })) return std::nullopt;
  Done done = std::move(done_.front());
  done_.pop_front();
  --running_;
  if (done.failure) std::rethrow_exception(done.failure);
  return std::move(done.answered);
}

}  // namespace sim
