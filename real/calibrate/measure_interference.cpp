#include <algorithm>
#include <cmath>
#include <numeric>

#include "real/calibrate/agree.hpp"
#include "real/calibrate/measure.hpp"
#include "sim/base/dtype.hpp"

namespace real {
namespace {

constexpr int samples = 9;
// All-reduces as large as the plan's largest collective, and a sixteenth of that; between 64 KiB
// (or there is hardly anything beside the kernels) and 16 MiB (more takes long and tells no more).
constexpr std::int64_t least_beside = 64 << 10, most_beside = 16 << 20;
constexpr std::int64_t beside_parts[] = {16, 1};
// The kernels shall last longer than the collective, so that it has company to its end.
constexpr double kernels_over_collective = 1.5;

std::optional<std::uint32_t> largest_product(const BoundProgram& program) {
  std::optional<std::uint32_t> best;
  for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
    const BoundOp& op = program.ops[i];
    if (op.kind != sim::OpKind::gemm || op.kernel == nullptr) continue;
    if (!best || op.kernel->flops > program.ops[*best].kernel->flops) best = i;
  }
  return best;
}

std::int64_t largest_collective(const sim::Plan& plan) {
  std::int64_t largest = least_beside;
  for (const sim::Program& program : plan.programs)
    for (const sim::Collective& collective : program.collectives)
      largest = std::max(largest, collective.bytes.count());
  return std::min(largest, most_beside);
}

}  // namespace

std::vector<sim::MeasuredInterference> measure_interference(Bench& bench, Transport& transport,
                                                            const sim::Plan& plan,
                                                            const sim::Model& model,
                                                            const PartRequest& request) {
  std::vector<sim::MeasuredInterference> measured;
  if (transport.size() < 2) return measured;
  // Rank 0's program on all ranks: the same work everywhere.
  const BoundProgram program = bind(plan, model, sim::RankId{0});
  const std::optional<std::uint32_t> product = largest_product(program);
  if (!product) return measured;
  const std::unique_ptr<KernelBench> kernels = bench.load(program, request.seed);
  std::vector<int> all(static_cast<std::size_t>(transport.size()));
  std::iota(all.begin(), all.end(), 0);
  const std::vector<std::uint32_t> one{*product};
  kernels->run(one);
  barrier(transport);
  const double kernel_alone = agree(transport, median(kernels->run(one)));
  for (const std::int64_t part : beside_parts) {
    const std::int64_t size = std::max(least_beside, largest_collective(plan) / part);
    const std::int64_t unit = std::int64_t{transport.size()} * sim::bytes_of(sim::DType::fp32);
    const CollectiveCase with{.bytes = size / unit * unit, .members = all};
    barrier(transport);
    const Interval pilot = bench.run(with, 1);
    const double wanted = kernels_over_collective * pilot.length() / std::max(kernel_alone, 1e-9);
    const int repeats =
        static_cast<int>(agree(transport, std::clamp(std::ceil(wanted), 1.0, 10'000.0)));
    std::vector<double> alone, collective_alone, beside, collective_beside, together;
    for (int i = 0; i < samples; ++i) {
      const std::vector<std::uint32_t> ops(static_cast<std::size_t>(repeats), *product);
      barrier(transport);
      const std::vector<double> times = kernels->run(ops);
      double sum = 0;
      for (const double time : times)
        sum += time;
      alone.push_back(sum);
      barrier(transport);
      collective_alone.push_back(bench.run(with, 1).length());
      barrier(transport);
      const Beside both = kernels->run_beside(*product, repeats, with);
      beside.push_back(both.kernels);
      collective_beside.push_back(both.collective);
      together.push_back(both.together);
    }
    measured.push_back({.kernel = *program.ops[*product].kernel,
                        .repeats = repeats,
                        .kernels_alone = sim::duration_from_seconds(median(alone)),
                        .kernels_beside = sim::duration_from_seconds(median(beside)),
                        .collective = {.collective = "all_reduce",
                                       .ranks = transport.size(),
                                       .bytes = sim::Bytes{with.bytes},
                                       .time = sim::duration_from_seconds(median(collective_alone)),
                                       .algorithm = {},
                                       .samples = samples,
                                       .source = {}},
                        .collective_beside = sim::duration_from_seconds(median(collective_beside)),
                        .together = sim::duration_from_seconds(median(together))});
  }
  return measured;
}

std::vector<sim::MeasuredCopy> measure_copies(Bench& bench, Transport& transport,
                                              const PartRequest& request) {
  std::vector<sim::MeasuredCopy> measured;
  for (const sim::MeasuredCopy::Way way : bench.copies()) {
    for (std::int64_t bytes = 64 << 10; bytes <= 64 << 20; bytes *= 4) {
      std::vector<double> times;
      for (int i = 0; i < samples; ++i) {
        barrier(transport);
        times.push_back(bench.copy(way, bytes));
      }
      measured.push_back({.way = way,
                          .bytes = sim::Bytes{bytes},
                          .time = sim::duration_from_seconds(typical(times, request.typical))});
    }
  }
  return measured;
}

}  // namespace real
