#include "tests/property/injected_trouble.hpp"

#include <algorithm>

#include "sim/base/random.hpp"

namespace sim::test {
namespace {

// A number below `count`, by seed.
std::size_t drawn(std::uint64_t seed, std::size_t count) {
  return std::min(count - 1,
                  static_cast<std::size_t>(uniform(seed, 0, 0) * static_cast<double>(count)));
}

Duration time_of(const Forecast& forecast, RankId rank, OpId op) {
  for (const RankTrack& track : forecast.timeline.tracks)
    if (track.rank == rank) return track.spans[op.value].end - track.spans[op.value].active;
  return {};
}

Duration scaled(Duration time, double factor) {
  return Duration{static_cast<std::int64_t>(static_cast<double>(time.count()) * factor)};
}

bool on_compute(const Program& program, OpId op) {
  return program.stream[op.value] == Stream::compute && runs_kernel(program.kind[op.value]);
}

TroubleOf slower_kind(const Forecast& forecast, OpKind kind, double by) {
  return [&forecast, kind, by](RankId rank, const Program& program, OpId op) {
    OpTrouble made;
    if (on_compute(program, op) && program.kind[op.value] == kind)
      made.longer = scaled(time_of(forecast, rank, op), by);
    return made;
  };
}

// The products of a pass.
TroubleOf slower_products(const Forecast& forecast, std::uint64_t seed) {
  constexpr std::array passes{Pass::forward, Pass::backward};
  const Pass chosen = passes[drawn(seed, passes.size())];
  return [&forecast, chosen](RankId rank, const Program& of, OpId op) {
    OpTrouble made;
    if (on_compute(of, op) && of.kind[op.value] == OpKind::gemm && of.pass[op.value] == chosen)
      made.longer = scaled(time_of(forecast, rank, op), 0.2);
    return made;
  };
}

TroubleOf slower_memory_bound(const Forecast& forecast, std::uint64_t seed) {
  constexpr std::array kinds{OpKind::elementwise, OpKind::norm};
  return slower_kind(forecast, kinds[drawn(seed, kinds.size())], 0.4);
}

TroubleOf extra_kernels(std::uint64_t seed) {
  const auto offset = static_cast<std::uint32_t>(drawn(seed, 8));
  return [offset](RankId, const Program& program, OpId op) {
    OpTrouble made;
    if (on_compute(program, op) && op.value % 8 == offset)
      made.following = {{"void at::native::copy_kernel<int>()", std::chrono::microseconds{5}}};
    return made;
  };
}

TroubleOf not_fused(const Forecast& forecast) {
  return [&forecast](RankId rank, const Program& program, OpId op) {
    OpTrouble made;
    if (!on_compute(program, op) || program.kind[op.value] != OpKind::elementwise) return made;
    const Duration time = time_of(forecast, rank, op);
    if (time.count() > 0)
      made.following = {{"void at::native::mul_kernel<int>()", time},
                        {"void at::native::add_kernel<int>()", time}};
    return made;
  };
}

TroubleOf half_rate(const Forecast& forecast, std::uint64_t seed) {
  std::vector<GroupRole> roles;
  for (const Program& program : forecast.plan->programs)
    for (const Collective& of : program.collectives)
      if (std::find(roles.begin(), roles.end(), of.group) == roles.end() &&
          of.group != GroupRole::world && of.group != GroupRole::tied_embedding)
        roles.push_back(of.group);
  const GroupRole chosen = roles.empty() ? GroupRole::world : roles[drawn(seed, roles.size())];
  return [&forecast, chosen](RankId rank, const Program& program, OpId op) {
    OpTrouble made;
    if (program.kind[op.value] == OpKind::collective &&
        program.collectives[program.work[op.value]].group == chosen)
      made.longer = time_of(forecast, rank, op);
    return made;
  };
}

TroubleOf slow_rank(const Forecast& forecast, std::uint64_t seed) {
  const RankId chosen{static_cast<std::uint32_t>(
      drawn(seed, static_cast<std::size_t>(forecast.plan->world_size())))};
  return [&forecast, chosen](RankId rank, const Program& program, OpId op) {
    OpTrouble made;
    if (rank == chosen && on_compute(program, op))
      made.longer = scaled(time_of(forecast, rank, op), 0.3);
    return made;
  };
}

TroubleOf blocking() {
  return [](RankId, const Program& program, OpId op) {
    OpTrouble made;
    made.blocking = program.kind[op.value] == OpKind::collective &&
                    program.stream[op.value] == Stream::data_comm;
    return made;
  };
}

TroubleOf host_gaps(std::uint64_t seed) {
  const auto offset = static_cast<std::uint32_t>(drawn(seed, 20));
  return [offset](RankId, const Program& program, OpId op) {
    OpTrouble made;
    if (on_compute(program, op) && op.value % 20 == offset)
      made.late = std::chrono::microseconds{30};
    return made;
  };
}

OpTrouble no_trouble(RankId, const Program&, OpId) {
  return {};
}

Duration part_of_step(const Forecast& forecast, double part) {
  return scaled(forecast.timeline.end - TimePoint{}, part);
}

}  // namespace

InjectedTrouble injected(Injection kind, const Forecast& forecast, std::uint64_t seed) {
  switch (kind) {
    case Injection::products:
      return {slower_products(forecast, seed)};
    case Injection::attention:
      return {slower_kind(forecast, OpKind::attention, 0.3)};
    case Injection::memory_bound:
      return {slower_memory_bound(forecast, seed)};
    case Injection::optimizer:
      return {slower_kind(forecast, OpKind::optimizer, 0.5)};
    case Injection::extra_kernels:
      return {extra_kernels(seed)};
    case Injection::not_fused:
      return {not_fused(forecast)};
    case Injection::half_rate:
      return {half_rate(forecast, seed)};
    case Injection::straggler:
      return {slow_rank(forecast, seed)};
    case Injection::exposed:
      return {blocking()};
    case Injection::host_gaps:
      return {host_gaps(seed)};
    case Injection::data_loading:
      return {no_trouble,
              {"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", HostSpan::What::mark,
               part_of_step(forecast, 0.1)}};
    case Injection::garbage:
      return {no_trouble, {"gc.collect", HostSpan::What::garbage, part_of_step(forecast, 0.05)}};
  }
  return {no_trouble};
}

InjectedTrouble both(const InjectedTrouble& a, const InjectedTrouble& b) {
  InjectedTrouble made;
  made.late = a.late.time.count() > 0 ? a.late : b.late;
  made.trouble = [a, b](RankId rank, const Program& program, OpId op) {
    OpTrouble first = a.trouble(rank, program, op);
    const OpTrouble second = b.trouble(rank, program, op);
    first.longer += second.longer;
    first.late += second.late;
    first.blocking = first.blocking || second.blocking;
    first.following.insert(first.following.end(), second.following.begin(), second.following.end());
    return first;
  };
  return made;
}

std::set<TroubleKind> named_by(Injection kind) {
  switch (kind) {
    case Injection::products:
      return {TroubleKind::products};
    case Injection::attention:
      return {TroubleKind::attention};
    case Injection::memory_bound:
      return {TroubleKind::memory_bound};
    case Injection::optimizer:
      return {TroubleKind::optimizer};
    case Injection::extra_kernels:
    case Injection::not_fused:
      return {TroubleKind::extra_kernels};
    case Injection::half_rate:
      return {TroubleKind::slower_collectives};
    case Injection::straggler:
      return {TroubleKind::stragglers};
    case Injection::exposed:
      return {TroubleKind::overlap};
    case Injection::host_gaps:
      return {TroubleKind::host};
    case Injection::data_loading:
      return {TroubleKind::data_loading};
    case Injection::garbage:
      return {TroubleKind::garbage};
  }
  return {};
}

Duration added_to(const Forecast& forecast, RankId rank, const InjectedTrouble& trouble) {
  Duration sum{};
  const Program& program = forecast.plan->program(rank);
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    const OpTrouble of = trouble.trouble(rank, program, OpId{op});
    sum += of.longer;
    for (const FollowingKernel& following : of.following)
      sum += following.time;
  }
  return sum;
}

}  // namespace sim::test
