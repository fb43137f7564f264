#include <algorithm>
#include <numeric>
#include <optional>

#include "real/calibrate/agree.hpp"
#include "real/calibrate/core_clock.hpp"
#include "real/calibrate/measure.hpp"
#include "sim/base/check.hpp"
#include "sim/base/random.hpp"

namespace real {
namespace {

// Passes over all kernels: at least so many, and on until the medians are known well enough.
constexpr int fewest_passes = 5;
constexpr int most_passes = 200;
constexpr double enough_spread = 0.01;
constexpr double not_measured = -1;  // in what ranks tell each other

// Fisher and Yates' shuffle of 0 .. count - 1.
std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed, std::uint64_t pass) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = count; i > 1; --i) {
    const auto other =
        static_cast<std::size_t>(sim::uniform(seed, pass, i) * static_cast<double>(i));
    std::swap(order[i - 1], order[other]);
  }
  return order;
}

// Pass is the set of kernels that a pass takes samples of, and the generator of its order.
struct Pass {
  std::span<const KernelVariant> variants;
  std::uint64_t seed = 1;
  std::uint64_t number = 0;
  std::vector<std::size_t> chosen{};  // places in `variants`; empty: all
};

// One sample of every chosen variant: of one of its operators each, in random order, so that no
// kernel finds its own operands in a cache. Seconds by variant; below 0: not chosen.
std::vector<double> run_pass(KernelBench& bench, const BoundProgram& program, const Pass& pass) {
  std::vector<std::size_t> chosen = pass.chosen;
  if (chosen.empty()) {
    chosen.resize(pass.variants.size());
    std::iota(chosen.begin(), chosen.end(), 0);
  }
  std::vector<std::uint32_t> ops;
  std::vector<std::size_t> of, last;  // the variant, and the place in `ops` of what counts
  for (const std::size_t i : shuffled(chosen.size(), pass.seed, pass.number)) {
    const std::size_t v = chosen[i];
    const std::vector<std::uint32_t>& all = pass.variants[v].ops;
    const auto op = static_cast<std::size_t>(sim::uniform(pass.seed, pass.number, 1'000'000 + v) *
                                             static_cast<double>(all.size()));
    for (const std::uint32_t one : with_lead_in(program, all[op]))
      ops.push_back(one);
    of.push_back(v);
    last.push_back(ops.size() - 1);
  }
  const std::vector<double> seconds = bench.run(ops);
  SIM_CHECK(seconds.size() == ops.size(), seconds.size(), ops.size());
  std::vector<double> of_variant(pass.variants.size(), not_measured);
  for (std::size_t i = 0; i < of.size(); ++i)
    of_variant[of[i]] = seconds[last[i]];
  return of_variant;
}

// A pass between two marks of the reference, the second of which is made here.
void add_pass(KernelBench& bench, const BoundProgram& program, const Pass& pass, DriftMeter* drift,
              KernelTimes& times) {
  const std::vector<double> seconds = run_pass(bench, program, pass);
  if (drift != nullptr) drift->mark();
  for (std::size_t v = 0; v < seconds.size(); ++v) {
    if (seconds[v] == not_measured) continue;
    const double scale = drift != nullptr ? drift->scale(reference_of(pass.variants[v].kernel)) : 1;
    times.of_variant[v].push_back(seconds[v] * scale);
  }
}

bool any_rank(Transport& transport, bool mine) {
  const double value = mine ? 1 : 0;
  double sum = 0;
  for (const std::vector<double>& one : gather(transport, {&value, 1}))
    sum += one[0];
  return agree(transport, sum) > 0;
}

// The rank that a rank of the measurement stands for.
sim::RankId rank_of_plan(const sim::Plan& plan, int rank) {
  return sim::RankId{static_cast<std::uint32_t>(rank % plan.world_size())};
}

struct Planned {
  const sim::Plan& plan;
  const sim::Model& model;
};

struct MyTimes {
  const std::vector<double>& seconds;  // per variant
  int samples = 0;
};

// Rank 0 enters the times of all ranks, every other rank its own.
void add_times_of_all(Transport& transport, const Planned& planned, const MyTimes& mine,
                      const std::vector<KernelVariant>& every, KernelTable& table) {
  std::vector<std::vector<double>> all = gather(transport, mine.seconds);
  if (all.empty()) all.push_back(mine.seconds);
  for (int i = 0; i < static_cast<int>(all.size()); ++i) {
    const int rank = transport.rank() == 0 ? i : transport.rank();
    const std::optional<BoundProgram> theirs =
        rank == transport.rank()
            ? std::nullopt
            : std::optional{bind(planned.plan, planned.model, rank_of_plan(planned.plan, rank))};
    const std::vector<KernelVariant> rows = theirs ? kernel_variants(*theirs) : every;
    const std::vector<double>& seconds = all[static_cast<std::size_t>(i)];
    SIM_CHECK(rows.size() == seconds.size(), rows.size(), seconds.size());
    for (std::size_t v = 0; v < rows.size(); ++v)
      if (seconds[v] != not_measured)
        table.add(rows[v].kernel, seconds[v], static_cast<double>(rows[v].ops.size()),
                  mine.samples);
  }
}

}  // namespace

ReferenceKind reference_of(const sim::Kernel& kernel) {
  return kernel.kind == sim::OpKind::gemm || kernel.kind == sim::OpKind::attention
             ? ReferenceKind::product
             : ReferenceKind::copy;
}

double typical(const std::vector<double>& values, Typical how) {
  if (how == Typical::median) return median(values);
  if (how == Typical::lower_quartile) {
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 4];
  }
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double new_share(const sim::Plan& plan, const sim::Model& model, int rank, double flops_per_byte,
                 const KernelTable& known, KernelTable& seen) {
  const BoundProgram program = bind(plan, model, rank_of_plan(plan, rank));
  double all = 0, fresh = 0;
  for (const KernelVariant& variant : kernel_variants(program)) {
    const sim::Kernel& kernel = variant.kernel;
    const double one =
        kernel.flops.count() / flops_per_byte + static_cast<double>(kernel.bytes.count());
    const double cost = one * static_cast<double>(variant.ops.size());
    all += cost;
    if (known.has(kernel) || seen.has(kernel)) continue;
    fresh += cost;
  }
  for (const KernelVariant& variant : kernel_variants(program))
    seen.add(variant.kernel, 1, 1, 1);
  return all > 0 ? fresh / all : 0;
}

void measure_kernels(Bench& bench, Transport& transport, const sim::Plan& plan,
                     const sim::Model& model, const PartRequest& request, KernelTable& table) {
  const BoundProgram program = bind(plan, model, rank_of_plan(plan, transport.rank()));
  const std::vector<KernelVariant> every = kernel_variants(program);
  // Kernels of an earlier plan are known: plans of one model share most of their kernels.
  std::vector<KernelVariant> variants;
  std::vector<std::size_t> number_of;  // among all variants
  for (std::size_t v = 0; v < every.size(); ++v) {
    if (table.has(every[v].kernel)) continue;
    variants.push_back(every[v]);
    number_of.push_back(v);
  }
  if (!any_rank(transport, !variants.empty())) return;
  const std::unique_ptr<KernelBench> kernels = bench.load(program, request.seed);
  KernelTimes times;
  times.of_variant.resize(variants.size());
  // The first pass brings pages, code and clocks to where they stay.
  barrier(transport);
  static_cast<void>(run_pass(*kernels, program, {.variants = variants, .seed = request.seed}));
  if (request.drift != nullptr) request.drift->mark();
  const double begin = wall_now();
  for (int pass = 1; pass <= most_passes; ++pass) {
    const auto number = static_cast<std::uint64_t>(pass);
    kernels->refill(request.seed + number);
    barrier(transport);
    // Beyond the fewest: those whose interval still moves the step. Where there is none, all.
    std::vector<std::size_t> chosen;
    if (pass > fewest_passes) chosen = times.unsure(variants, enough_spread / 10);
    add_pass(*kernels, program, {variants, request.seed, number, chosen}, request.drift, times);
    const bool known = request.typical == Typical::median && times.spread(variants) < enough_spread;
    const bool stop = pass >= fewest_passes && (known || wall_now() - begin > request.seconds);
    if (agree(transport, stop ? 1 : 0) > 0) break;
  }
  std::vector<double> mine(every.size(), not_measured);
  for (std::size_t v = 0; v < variants.size(); ++v)
    mine[number_of[v]] = typical(times.of_variant[v], request.typical);
  int samples = 0;  // the fewest
  for (const std::vector<double>& of_it : times.of_variant)
    samples = samples == 0 ? static_cast<int>(of_it.size())
                           : std::min(samples, static_cast<int>(of_it.size()));
  add_times_of_all(transport, {plan, model}, {mine, samples}, every, table);
}

}  // namespace real
