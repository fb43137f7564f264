#include "real/host/parameter_servers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "real/engine/scratch.hpp"
#include "real/host/kernels/host_kernels.hpp"
#include "sim/base/check.hpp"
#include "sim/plan/server_exchange.hpp"

namespace real {
namespace {

void require_finite(const ServerPush& push) {
  if (std::all_of(push.gradient.begin(), push.gradient.end(),
                  [](float value) { return std::isfinite(value); }))
    return;
  throw std::runtime_error(
      fmt::format("step {} of rank {}: a gradient that goes to the parameter servers is not "
                  "finite",
                  push.step, push.rank));
}

}  // namespace

ParameterServers::ParameterServers(const sim::Plan& plan, const sim::Training& training)
    : layout_{plan.layout},
      training_{training},
      workers_{plan.layout.workers()},
      steps_(static_cast<std::size_t>(plan.layout.replicas())) {
  SIM_CHECK(layout_.has_servers());
  const auto workers = static_cast<std::size_t>(workers_);
  for (const sim::ParameterBucket& bucket : plan.program(sim::RankId{0}).parameter_buckets) {
    const std::int64_t shard = bucket.padded / bucket.shards, part = part_of(shard);
    const std::int64_t count = (shard + part - 1) / part * bucket.shards;
    std::vector<std::unique_ptr<Part>>& parts = parts_.emplace_back();
    for (std::int64_t i = 0; i < count; ++i) {
      Part& made = *parts.emplace_back(std::make_unique<Part>());
      made.given.resize(workers);
      made.has_given.resize(workers);
      made.pulled.resize(workers);
    }
  }
}

std::int64_t ParameterServers::part_of(std::int64_t elements) const {
  return sim::server_part(layout_, elements);
}

ParameterServers::Part& ParameterServers::part_at(const ServerPush& push) {
  std::vector<std::unique_ptr<Part>>& parts = parts_.at(push.bucket);
  const auto gpus = static_cast<std::size_t>(layout_.worker_gpus());
  const std::size_t of_shard = parts.size() / gpus;
  return *parts.at(static_cast<std::size_t>(push.rank) % gpus * of_shard + push.part);
}

std::size_t ParameterServers::worker_of(const ServerPush& push) const {
  return static_cast<std::size_t>(push.rank / layout_.worker_gpus());
}

bool ParameterServers::exchange(const ServerPush& push) {
  Part& part = part_at(push);
  const std::lock_guard lock{part.mutex};
  if (layout_.servers == sim::Servers::synchronous) return add_up(part, push);
  require_finite(push);
  update(part, push);
  return true;
}

// A worker gives, and takes when all have given. The next round begins when all have taken. Added
// up in the order of their ranks, not of arrival.
bool ParameterServers::add_up(Part& part, const ServerPush& push) const {
  const auto worker = worker_of(push);
  if (!part.has_given[worker]) {
    if (part.taking > 0) return false;
    part.given[worker].assign(push.gradient.begin(), push.gradient.end());
    part.has_given[worker] = true;
    if (++part.giving < workers_) return false;
    part.sum.assign(push.gradient.size(), 0.0F);
    for (const std::vector<float>& one : part.given)
      std::transform(one.begin(), one.end(), part.sum.begin(), part.sum.begin(), std::plus{});
    for (float& value : part.sum)
      value /= static_cast<float>(workers_);
    part.taking = workers_;
  }
  if (part.taking == 0) return false;
  std::copy(part.sum.begin(), part.sum.end(), push.result.begin());
  part.has_given[worker] = false;
  if (--part.taking == 0) part.giving = 0;
  return true;
}

// Adam counts the updates of the part; the learning rate is that of the worker's step.
void ParameterServers::update(Part& part, const ServerPush& push) const {
  if (part.weights.empty()) {  // all workers begin with the same
    part.weights.assign(push.result.begin(), push.result.end());
    part.first_moment.resize(part.weights.size());
    part.second_moment.resize(part.weights.size());
  }
  kernels::AdamStep step = adam_step(training_, part.version);
  step.rate = training_.learning_rate.at(push.step);
  const auto elements = static_cast<std::int64_t>(push.gradient.size());
  SIM_CHECK(push.gradient.size() == part.weights.size(), elements, part.weights.size());
  host_kernels().adam(
      {.rate = step.rate,
       .beta1 = training_.beta1,
       .beta2 = training_.beta2,
       .epsilon = training_.epsilon,
       .decay = training_.weight_decay},
      {.weight_dtype = sim::DType::fp32,
       .gradient_dtype = sim::DType::fp32,
       .weight = part.weights.data(),
       .m = part.first_moment.data(),
       .v = part.second_moment.data(),
       .gradient = push.gradient.data(),
       .step = &step},
      elements,
      {.ranges = push.decayed.data(), .count = static_cast<std::int64_t>(push.decayed.size())},
      nullptr);
  std::copy(part.weights.begin(), part.weights.end(), push.result.begin());
  std::int64_t& pulled = part.pulled[worker_of(push)];
  part.staleness.add(part.version - pulled);
  pulled = ++part.version;
}

bool ParameterServers::may_begin(int rank, std::int64_t step) const {
  SIM_CHECK(rank >= 0 && rank < layout_.replicas(), rank);
  if (layout_.servers != sim::Servers::bounded || released_.load(std::memory_order_acquire))
    return true;
  return std::all_of(steps_.begin(), steps_.end(), [&](const auto& ended) {
    return step <= ended.load(std::memory_order_acquire) + layout_.staleness;
  });
}

void ParameterServers::end_step(int rank) {
  steps_.at(static_cast<std::size_t>(rank)).fetch_add(1, std::memory_order_release);
}

sim::Staleness ParameterServers::staleness() const {
  sim::Staleness all;
  for (const std::vector<std::unique_ptr<Part>>& parts : parts_)
    for (const std::unique_ptr<Part>& part : parts) {
      const std::lock_guard lock{part->mutex};
      all.add(part->staleness);
    }
  return all;
}

}  // namespace real
