// How many threads the program uses for work that is parallel in itself (TBB).
#pragma once

#include <memory>

namespace sim {

// The limit of the whole process while it lives; 0: all cores.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
  ~ThreadLimit();

 private:
  struct Limit;
  std::unique_ptr<Limit> limit_;
};

}  // namespace sim
