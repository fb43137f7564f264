#include "sim/distribute/thread_limit.hpp"

#include <tbb/global_control.h>

namespace sim {

// Made in place: a copy of a control ends the limit when the original goes.
struct ThreadLimit::Limit {
  explicit Limit(std::size_t threads)
      : control{tbb::global_control::max_allowed_parallelism, threads} {}
  tbb::global_control control;
};

ThreadLimit::ThreadLimit(int threads) {
  if (threads > 0) limit_ = std::make_unique<Limit>(static_cast<std::size_t>(threads));
}
ThreadLimit::~ThreadLimit() = default;

}  // namespace sim
