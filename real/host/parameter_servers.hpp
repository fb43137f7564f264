// Parameter servers of workers that are threads of one process (sim::Layout::servers): each worker
// gives its gradients and takes sums or new parameters, part by part of a bucket, under the part's
// lock. If a worker has several GPUs, each has a shard of every bucket, which is cut into parts of
// its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "real/engine/kernels.hpp"
#include "sim/layout/layout.hpp"
#include "sim/layout/training.hpp"
#include "sim/plan/plan.hpp"
#include "sim/servers/staleness.hpp"

namespace real {

// Gradients of one worker, and where what comes back goes: of synchronous servers into their place,
// of others into that of the worker's parameters.
struct ServerPush {
  int rank = 0;           // data-parallel
  std::int64_t step = 0;  // of the worker, from 0
  std::uint32_t bucket = 0;
  std::size_t part = 0;  // of the rank's shard
  std::span<const float> gradient;
  std::span<float> result;
  std::span<const kernels::Range> decayed;  // elements on which weight decay acts
};

class ParameterServers {
 public:
  // REQUIRES: plan.layout.has_servers(); both outlive it.
  ParameterServers(const sim::Plan& plan, const sim::Training& training);

  // Called until it is true, with the same push, which is one part; then `result` is written.
  // Synchronous servers wait for the gradients of all workers, whose mean is that of a reduction;
  // others update at once, as Adam of their own. Throws std::runtime_error where a gradient is not
  // finite.
  bool exchange(const ServerPush& push);

  // Elements of the parts of a shard of so many, but the last.
  std::int64_t part_of(std::int64_t elements) const;

  // Whether a rank may begin a step: with `bounded`, when none is more than so many behind.
  bool may_begin(int rank, std::int64_t step) const;
  void end_step(int rank);
  void release() { released_.store(true, std::memory_order_release); }  // all may begin

  sim::Staleness staleness() const;  // of all updates so far

 private:
  struct Part {
    std::mutex mutex;
    // Synchronous: what each worker has given; how many have, and are yet to take the sum.
    std::vector<std::vector<float>> given;
    std::vector<bool> has_given;
    int giving = 0, taking = 0;
    std::vector<float> sum;
    // Else: parameters and moments, of the first worker that comes the first.
    std::vector<float> weights, first_moment, second_moment;
    std::int64_t version = 0;
    std::vector<std::int64_t> pulled;  // by worker
    sim::Staleness staleness;
  };

  Part& part_at(const ServerPush& push);
  std::size_t worker_of(const ServerPush& push) const;
  bool add_up(Part& part, const ServerPush& push) const;
  void update(Part& part, const ServerPush& push) const;

  const sim::Layout& layout_;
  const sim::Training& training_;
  int workers_ = 1;
  std::vector<std::vector<std::unique_ptr<Part>>> parts_;  // by bucket; of shard after shard
  std::vector<std::atomic<std::int64_t>> steps_;           // ended, by rank
  std::atomic<bool> released_{false};
};

}  // namespace real
