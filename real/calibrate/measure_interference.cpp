#include <algorithm>
#include <cmath>
#include <functional>
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

using Larger = std::function<double(const BoundOp&)>;

// The operator with a kernel of which `size` is largest, above 0.
std::optional<std::uint32_t> largest(const BoundProgram& program, const Larger& size) {
  std::optional<std::uint32_t> best;
  double most = 0;
  for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
    if (program.ops[i].kernel == nullptr || size(program.ops[i]) <= most) continue;
    most = size(program.ops[i]);
    best = i;
  }
  return best;
}

double flops_if(const BoundOp& op, sim::OpKind kind) {
  return op.kind == kind ? op.kernel->flops.count() : 0;
}

double bytes_of_rest(const BoundOp& op) {
  const bool computes = op.kind == sim::OpKind::gemm || op.kind == sim::OpKind::attention;
  return computes ? 0 : static_cast<double>(op.kernel->bytes.count());
}

// Communication that runs beside kernels.
struct Company {
  sim::CollectiveKind kind = sim::CollectiveKind::all_reduce;
  bool message = false;
  std::int64_t bytes = 0;
};

std::int64_t within(std::int64_t bytes) {
  return std::clamp(bytes, least_beside, most_beside);
}

std::int64_t largest_collective(const sim::Plan& plan, std::optional<sim::CollectiveKind> kind) {
  std::int64_t found = 0;
  for (const sim::Program& program : plan.programs)
    for (const sim::Collective& collective : program.collectives)
      if (!kind || collective.kind == *kind) found = std::max(found, collective.bytes.count());
  return found;
}

std::int64_t largest_message(const sim::Plan& plan) {
  std::int64_t found = 0;
  for (const sim::Program& program : plan.programs)
    for (const sim::Transfer& transfer : program.transfers)
      found = std::max(found, transfer.bytes.count());
  return found;
}

std::vector<Company> companies(const sim::Plan& plan, int ranks) {
  std::vector<Company> found;
  for (const std::int64_t part : beside_parts)
    found.push_back({.bytes = within(largest_collective(plan, {}) / part)});
  for (const sim::CollectiveKind kind :
       {sim::CollectiveKind::reduce_scatter, sim::CollectiveKind::all_gather})
    if (const std::int64_t bytes = largest_collective(plan, kind); bytes > 0)
      found.push_back({.kind = kind, .bytes = within(bytes)});
  // Neighbours in pairs: no rank is left over.
  if (const std::int64_t bytes = largest_message(plan); bytes > 0 && ranks % 2 == 0)
    found.push_back({.message = true, .bytes = within(bytes)});
  return found;
}

// Kernels and communication, alone and together, on all ranks at once.
class BesideTimer {
 public:
  BesideTimer(Bench& bench, Transport& transport, KernelBench& kernels)
      : bench_{bench}, transport_{transport}, kernels_{kernels} {}

  sim::MeasuredInterference time(const BoundProgram& program, std::uint32_t op,
                                 const Company& company) {
    const CollectiveCase with = case_of(company);
    const int repeats = repeats_of(op, with);
    const std::vector<std::uint32_t> ops(static_cast<std::size_t>(repeats), op);
    std::vector<double> alone, collective_alone, beside, collective_beside, together;
    for (int i = 0; i < samples; ++i) {
      barrier(transport_);
      const std::vector<double> times = kernels_.run(ops);
      alone.push_back(std::accumulate(times.begin(), times.end(), 0.0));
      barrier(transport_);
      collective_alone.push_back(bench_.run(with, 1).length());
      barrier(transport_);
      const Beside both = kernels_.run_beside(op, repeats, with);
      beside.push_back(both.kernels);
      collective_beside.push_back(both.collective);
      together.push_back(both.together);
    }
    return {.kernel = *program.ops[op].kernel,
            .repeats = repeats,
            .kernels_alone = sim::duration_from_seconds(median(alone)),
            .kernels_beside = sim::duration_from_seconds(median(beside)),
            .collective = {.collective = company.message ? "send_receive"
                                                         : std::string{sim::word(company.kind)},
                           .ranks = static_cast<int>(with.members.size()),
                           .bytes = sim::Bytes{with.bytes},
                           .time = sim::duration_from_seconds(median(collective_alone)),
                           .algorithm = {},
                           .samples = samples,
                           .source = {}},
            .collective_beside = sim::duration_from_seconds(median(collective_beside)),
            .together = sim::duration_from_seconds(median(together))};
  }

 private:
  CollectiveCase case_of(const Company& company) const {
    const int size = company.message ? 2 : transport_.size();
    CollectiveCase made{.kind = company.kind, .message = company.message, .members = {}};
    const std::int64_t unit = std::int64_t{size} * sim::bytes_of(sim::DType::fp32);
    made.bytes = company.bytes / unit * unit;
    made.members.resize(static_cast<std::size_t>(size));
    std::iota(made.members.begin(), made.members.end(), transport_.rank() / size * size);
    return made;
  }

  int repeats_of(std::uint32_t op, const CollectiveCase& with) {
    const std::vector<std::uint32_t> one{op};
    kernels_.run(one);
    barrier(transport_);
    const double alone = agree(transport_, median(kernels_.run(one)));
    barrier(transport_);
    const Interval pilot = bench_.run(with, 1);
    const double wanted = kernels_over_collective * pilot.length() / std::max(alone, 1e-9);
    return static_cast<int>(agree(transport_, std::clamp(std::ceil(wanted), 1.0, most_repeats)));
  }

  static constexpr double most_repeats = 10'000;
  Bench& bench_;
  Transport& transport_;
  KernelBench& kernels_;
};

}  // namespace

std::optional<std::uint32_t> largest_product(const BoundProgram& program) {
  return largest(program, [](const BoundOp& op) { return flops_if(op, sim::OpKind::gemm); });
}

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
  BesideTimer timer{bench, transport, *kernels};
  for (const Company& company : companies(plan, transport.size())) {
    if (request.stop_wanted()) return measured;
    measured.push_back(timer.time(program, *product, company));
  }
  const Company all_reduce{.bytes = within(largest_collective(plan, {}))};
  for (const Larger& size :
       {Larger{[](const BoundOp& op) { return flops_if(op, sim::OpKind::attention); }},
        Larger{bytes_of_rest}}) {
    const std::optional<std::uint32_t> op = largest(program, size);
    if (!op || request.stop_wanted()) continue;
    measured.push_back(timer.time(program, *op, all_reduce));
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
