#include "real/host/parameter_servers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "real/engine/scratch.hpp"
#include "real/host/host_kernels.hpp"
#include "sim/base/check.hpp"

namespace real {
namespace {

void require_finite(const ServerPush& push) {
  if (std::all_of(push.gradient.begin(), push.gradient.end(),
                  [](float value) { return std::isfinite(value); }))
    return;
  throw std::runtime_error(
      fmt::format("step {} of worker {}: a gradient that goes to the parameter servers is not "
                  "finite",
                  push.step, push.worker));
}

}  // namespace

ParameterServers::ParameterServers(const sim::Plan& plan, const sim::Training& training)
    : layout_{plan.layout},
      training_{training},
      workers_{plan.layout.data_parallel},
      steps_(static_cast<std::size_t>(plan.layout.data_parallel)) {
  SIM_CHECK(layout_.has_servers());
  const auto workers = static_cast<std::size_t>(workers_);
  const auto count = plan.program(sim::RankId{0}).parameter_buckets.size();
  for (std::size_t i = 0; i < count; ++i) {
    Bucket& bucket = *buckets_.emplace_back(std::make_unique<Bucket>());
    bucket.given.resize(workers);
    bucket.has_given.resize(workers);
    bucket.pulled.resize(workers);
  }
}

bool ParameterServers::exchange(const ServerPush& push) {
  Bucket& bucket = *buckets_.at(push.bucket);
  const std::lock_guard lock{bucket.mutex};
  if (layout_.servers == sim::Servers::synchronous) return add_up(bucket, push);
  require_finite(push);
  update(bucket, push);
  return true;
}

// A worker gives, and takes when all have given. The next round begins when all have taken. Added
// up in the order of their ranks, not of arrival.
bool ParameterServers::add_up(Bucket& bucket, const ServerPush& push) const {
  const auto worker = static_cast<std::size_t>(push.worker);
  if (!bucket.has_given[worker]) {
    if (bucket.taking > 0) return false;
    bucket.given[worker].assign(push.gradient.begin(), push.gradient.end());
    bucket.has_given[worker] = true;
    if (++bucket.giving < workers_) return false;
    bucket.sum.assign(push.gradient.size(), 0.0F);
    for (const std::vector<float>& one : bucket.given)
      std::transform(one.begin(), one.end(), bucket.sum.begin(), bucket.sum.begin(), std::plus{});
    for (float& value : bucket.sum)
      value /= static_cast<float>(workers_);
    bucket.taking = workers_;
  }
  if (bucket.taking == 0) return false;
  std::copy(bucket.sum.begin(), bucket.sum.end(), push.result.begin());
  bucket.has_given[worker] = false;
  if (--bucket.taking == 0) bucket.giving = 0;
  return true;
}

// Adam counts the updates of the bucket; the learning rate is that of the worker's step.
void ParameterServers::update(Bucket& bucket, const ServerPush& push) const {
  if (bucket.weights.empty()) {  // all workers begin with the same
    bucket.weights.assign(push.result.begin(), push.result.end());
    bucket.first_moment.resize(bucket.weights.size());
    bucket.second_moment.resize(bucket.weights.size());
  }
  kernels::AdamStep step = adam_step(training_, bucket.version);
  step.rate = training_.learning_rate.at(push.step);
  const auto elements = static_cast<std::int64_t>(push.gradient.size());
  SIM_CHECK(push.gradient.size() == bucket.weights.size(), elements, bucket.weights.size());
  host_kernels().adam(
      {.rate = step.rate,
       .beta1 = training_.beta1,
       .beta2 = training_.beta2,
       .epsilon = training_.epsilon,
       .decay = training_.weight_decay},
      {.weight_dtype = sim::DType::fp32,
       .gradient_dtype = sim::DType::fp32,
       .weight = bucket.weights.data(),
       .m = bucket.first_moment.data(),
       .v = bucket.second_moment.data(),
       .gradient = push.gradient.data(),
       .step = &step},
      elements,
      {.ranges = push.decayed.data(), .count = static_cast<std::int64_t>(push.decayed.size())},
      nullptr);
  std::copy(bucket.weights.begin(), bucket.weights.end(), push.result.begin());
  std::int64_t& pulled = bucket.pulled[static_cast<std::size_t>(push.worker)];
  bucket.staleness.add(bucket.version - pulled);
  pulled = ++bucket.version;
}

bool ParameterServers::may_begin(int worker, std::int64_t step) const {
  SIM_CHECK(worker >= 0 && worker < workers_, worker);
  if (layout_.servers != sim::Servers::bounded || released_.load(std::memory_order_acquire))
    return true;
  return std::all_of(steps_.begin(), steps_.end(), [&](const auto& ended) {
    return step <= ended.load(std::memory_order_acquire) + layout_.staleness;
  });
}

void ParameterServers::end_step(int worker) {
  steps_.at(static_cast<std::size_t>(worker)).fetch_add(1, std::memory_order_release);
}

sim::Staleness ParameterServers::staleness() const {
  sim::Staleness all;
  for (const std::unique_ptr<Bucket>& bucket : buckets_) {
    const std::lock_guard lock{bucket->mutex};
    all.add(bucket->staleness);
  }
  return all;
}

}  // namespace real
