#include "sim/search/costs/tail_costs.hpp"

#include <algorithm>
#include <array>

#include "sim/plan/lowering/stage_lowering.hpp"
#include "sim/plan/meeting.hpp"
#include "sim/program/unroll.hpp"
#include "sim/search/walk.hpp"

namespace sim {
namespace {

// Least times of a program's operators. Messages count nothing here.
class OpTimes {
 public:
  OpTimes(const Program& program, const TailPricing& pricing) : program_{program} {
    for (const KernelCost& cost : pricing.kernels.costs_of(program))
      kernels_.push_back(
          pricing.slowness == 1
              ? cost.time.count()
              : duration_from_seconds(to_seconds(cost.time) * pricing.slowness).count());
    for (const Collective& collective : program.collectives)
      collectives_.push_back(pricing.collective(collective));
  }

  std::int64_t operator()(std::uint32_t op) const {
    const std::uint32_t work = program_.work[op];
    if (program_.kind[op] == OpKind::collective) return collectives_[work].time;
    return runs_kernel(program_.kind[op]) ? kernels_[work] : 0;
  }

  std::int64_t held(std::uint32_t op) const {
    if (program_.kind[op] != OpKind::collective) return 0;
    const LeastCollective& cost = collectives_[program_.work[op]];
    return cost.sm >= least_data_sms * 1024 ? cost.transfer : 0;
  }

 private:
  const Program& program_;
  std::vector<std::int64_t> kernels_;
  std::vector<LeastCollective> collectives_;
};

struct DataStream {
  std::int64_t time = 0, held = 0;
};

DataStream data_stream(const Program& program, const OpTimes& times) {
  DataStream sum;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.stream[op] != Stream::data_comm) continue;
    sum.time += times(op);
    sum.held += times.held(op);
  }
  return sum;
}

// The time of each stream of the host for so many micro-batches.
std::array<std::int64_t, 3> host_streams(const Program& program, const OpTimes& times) {
  constexpr std::array streams{Stream::host_copy, Stream::host_compute, Stream::host_load};
  std::array<std::int64_t, 3> sums{};
  for (std::uint32_t op = 0; op < program.size(); ++op)
    for (std::size_t i = 0; i < streams.size(); ++i)
      if (program.stream[op] == streams[i]) sums[i] += times(op);
  return sums;
}

// add_epilogue() adds what is behind the last kernel of the last pass.
void add_epilogue(const Program& program, const OpTimes& times, TailCosts& costs) {
  std::uint32_t first = program.size() > 0 ? static_cast<std::uint32_t>(program.size()) : 0;
  while (first > 0 && !(program.stream[first - 1] == Stream::compute &&
                        program.label[first - 1].microbatch >= 0))
    --first;
  const auto last = static_cast<std::uint32_t>(program.size());
  const Walk path = walk(program, first, last, 0, times);
  std::int64_t end = 0, sync = 0;
  bool has_sync = false;
  for (std::uint32_t op = first; op < last; ++op) {
    const std::int64_t ends = path.ends[op - first];
    if (ends == Walk::unknown) continue;
    end = std::max(end, ends);
    if (program.action[op] != Action::sum_gradient_norm) continue;
    sync = ends - times(op);
    has_sync = true;
  }
  costs.before_sync = has_sync ? std::max<std::int64_t>(0, sync) : end;
  costs.after_sync = has_sync ? end - costs.before_sync : 0;
}

// The program of a step without a meeting, where groups train apart.
Program program_of(const ShardedModel& sharded, int stage) {
  Program program = lowering::StageLowering{sharded, pipeline_order(sharded.layout), stage}.lower();
  if (!sharded.layout.trains_apart()) return program;
  std::vector<bool> runs(program.size());
  for (std::uint32_t op = 0; op < program.size(); ++op)
    runs[op] = runs_in_step(program, OpId{op}, std::nullopt, std::nullopt);
  return unroll(program, {runs});
}

}  // namespace

TailCosts tail_costs(const ShardedModel& sharded, const ShardedModel& more, int stage,
                     const TailPricing& pricing) {
  const Program program = program_of(sharded, stage);
  const OpTimes times{program, pricing};
  TailCosts costs;
  add_epilogue(program, times, costs);
  const DataStream all = data_stream(program, times);
  const std::int64_t some = sharded.layout.micro_batches();
  const std::int64_t many = more.layout.micro_batches();
  const std::array<std::int64_t, 3> host = host_streams(program, times);
  for (std::size_t i = 0; i < host.size(); ++i)
    costs.host[i].fixed = host[i];
  if (many > some) {
    const Program longer = program_of(more, stage);
    const DataStream more_of_it = data_stream(longer, OpTimes{longer, pricing});
    costs.data_each = (more_of_it.time - all.time) / (many - some);
    costs.held_each = (more_of_it.held - all.held) / (many - some);
    const std::array<std::int64_t, 3> longer_host = host_streams(longer, OpTimes{longer, pricing});
    for (std::size_t i = 0; i < host.size(); ++i)
      costs.host[i].each = (longer_host[i] - host[i]) / (many - some);
  }
  for (StreamTime& stream : costs.host)
    stream.fixed -= stream.each * some;
  costs.data_fixed = all.time - costs.data_each * some;
  costs.held_fixed = all.held - costs.held_each * some;
  const Layout& layout = sharded.layout;
  const int first_chunk = stage;
  const bool split = splits_backward(layout.schedule);
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.stream[op] != Stream::data_comm) continue;
    // Weights updated by the step before, in forward order.
    if (layout.zero_stage < 3 && layout.overlap_parameters &&
        program.pass[op] == Pass::parameter_sync && program.label[op].chunk == first_chunk)
      costs.gathers += times(op);
    // Under ZeRO-2 and 3 every micro-batch reduces, which data_each has.
    if (layout.zero_stage < 2 && !split && program.pass[op] == Pass::gradient_sync)
      costs.reductions += times(op);
  }
  return costs;
}

}  // namespace sim
