#include "sim/interop/job_batch.hpp"

#include <algorithm>

namespace sim {
namespace {

constexpr std::int64_t largest_factor = 1LL << 32;

void add_option(std::int64_t option, std::string_view name, Whole& into) {
  if (option == 0) return;
  if (!into)
    into = option;
  else if (*into != option && into.place)
    into.place->problem(fmt::format("is {}, but {} says {}", *into, name, option));
}

// `a` x `b` where it is no more than `most` squared. REQUIRES: both at least 1.
std::int64_t product(std::int64_t a, std::int64_t b) {
  return std::min(a, largest_factor) * std::min(b, largest_factor / 2);
}

}  // namespace

void add_options(const ImportRequest& request, JobBatch& batch) {
  add_option(request.micro_batch, "--micro-batch-size", batch.micro);
  add_option(request.accumulation_steps, "--gradient-accumulation-steps", batch.steps);
  add_option(request.global_batch, "--global-batch-size", batch.whole);
}

std::optional<BatchSizes> sizes_of(const JobBatch& batch, std::int64_t replicas,
                                   const ObjectReader& root) {
  const SettingProblems problems{root};
  for (const Whole* value : {&batch.whole, &batch.micro, &batch.steps}) {
    if (!*value || (**value >= 1 && **value <= largest_factor)) continue;
    problems.problem(*value, "is {}; allowed: 1 to {}", **value, largest_factor);
    return std::nullopt;
  }
  const std::int64_t steps = batch.steps.value_or(1);
  const std::int64_t each = product(steps, replicas);  // micro-batches of a step
  const std::int64_t micro = batch.micro ? *batch.micro : *batch.whole / each;
  const std::int64_t unit = product(std::max<std::int64_t>(1, micro), replicas);
  const std::int64_t whole = batch.whole ? *batch.whole : product(unit, steps);
  const bool fits = batch.steps ? micro >= 1 && whole / unit == steps : micro >= 1;
  if (fits && whole % unit == 0) return BatchSizes{.global = whole, .micro = micro};
  const Whole& at = batch.whole.place ? batch.whole : batch.micro.place ? batch.micro : batch.steps;
  problems.problem(at, "a batch of {} is not micro-batch{} x{} accumulation steps x {} replicas",
                   whole, batch.micro ? fmt::format(" {}", micro) : "",
                   batch.steps ? fmt::format(" {}", steps) : "", replicas);
  return std::nullopt;
}

}  // namespace sim
