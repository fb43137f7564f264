#include "real/calibrate/measure_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "real/calibrate/agree.hpp"
#include "real/calibrate/core_clock.hpp"
#include "real/calibrate/grid.hpp"
#include "real/calibrate/machine_facts.hpp"
#include "real/calibrate/measure.hpp"
#include "real/cuda/environment.hpp"
#include "real/cuda/gemm/algorithm_file.hpp"
#include "sim/base/input_error.hpp"

namespace real {
namespace {

// Shares of the time.
constexpr double kernels_share = 0.55, grid_share = 0.1, collectives_share = 0.25;
// Programs have to be loaded, and every kernel runs a few times: kernels may take so much more than
// their share until the rest of them is left to the formulas, and so do not cost the collectives.
constexpr double kernels_patience = 1.5;

// FLOP that a device computes while it moves a byte, to weigh kernels with: an H100 SXM (989
// TFLOP/s in bf16 at 3.35 TB/s: topologies/devices/h100_sxm.yaml), a core (40 GFLOP/s at 10 GB/s).
constexpr double cuda_intensity = 295, host_intensity = 4;
// A card takes a second or two under load to settle: the largest product runs so long before
// anything is measured, or for this share of a short measurement.
constexpr double soak_seconds = 3, soak_share = 0.3;

sim::DType dtype_of(const MeasureRequest& request) {
  if (request.backend == MeasuredBackend::host) return sim::DType::fp32;
  return request.plans.empty() ? sim::DType::bf16 : request.plans[0].plan->layout.activation_dtype;
}

std::string command_of(const MeasureRequest& request) {
  return fmt::format("stepcast calibrate, {} backend, {} rank{} at once",
                     sim::word(request.backend), request.ranks, request.ranks == 1 ? "" : "s");
}

// Everything at the typical speed of the machine while it was measured, and what that was.
void take_out_drift(const DriftMeter& drift, sim::MeasuredMachine& machine) {
  const auto scale = [&](sim::Duration& time, ReferenceKind kind) {
    time = sim::duration_from_seconds(sim::to_seconds(time) * drift.rescale(kind));
  };
  for (sim::MeasuredKernel& row : machine.kernels)
    scale(row.time, reference_of(row.kernel));
  for (sim::MeasuredCollective& row : machine.collectives)
    scale(row.time, ReferenceKind::copy);
  const ReferenceSample typical = drift.typical();
  const std::vector<double> slowdowns = drift.slowdowns();
  machine.reference = sim::MeasuredReference{
      .product = sim::duration_from_seconds(typical.typical.product),
      .copy = sim::duration_from_seconds(typical.typical.copy),
      .whole = sim::duration_from_seconds(typical.whole),
      .samples = static_cast<int>(slowdowns.size()),
      .median_slowdown = median(slowdowns),
      .worst_slowdown = *std::max_element(slowdowns.begin(), slowdowns.end())};
}

// One rank's part.
class Measurement {
 public:
  Measurement(const MeasureRequest& request, Bench& bench, Transport& transport,
              const std::function<bool()>& stop_wanted)
      : request_{request}, bench_{bench}, transport_{transport}, stop_wanted_{stop_wanted} {
    if (request.backend != MeasuredBackend::host) return;
    share_cores_ = ranks_share_cores(request.ranks);
    typical_ = share_cores_ ? Typical::mean : Typical::lower_quartile;
  }

  sim::MeasuredMachine run() {
    sim::MeasuredMachine machine;
    machine.host = host_name();
    machine.date = date_and_time();
    soak();
    drift_.emplace(bench_.reference(), transport_, share_cores_);
    drift_->begin_part("kernels");
    machine.kernels = kernels();
    drift_->begin_part("collectives");
    machine.collectives = collectives();
    drift_->begin_part("kernels beside communication, copies");
    const MeasuredPlan* widest = largest_plan();
    if (widest != nullptr && !stop_wanted_())
      machine.interference =
          measure_interference(bench_, transport_, *widest->plan, *widest->model, part(1));
    if (!stop_wanted_()) machine.copies = measure_copies(bench_, transport_, part(1));
    drift_->mark();
    if (!stop_wanted_()) measure_issue(machine);
    take_out_drift(*drift_, machine);
    machine.conditions = drift_->conditions();
    barrier(transport_);
    bench_.describe(machine);
    barrier(transport_);  // no rank gives its memory back before
    return machine;
  }

 private:
  PartRequest part(double seconds) {
    return {.seconds = seconds,
            .seed = request_.seed,
            .typical = typical_,
            .drift = &*drift_,
            .stop_wanted = stop_wanted_};
  }

  std::vector<sim::MeasuredKernel> kernels() {
    KernelTable table;
    const double begin = wall_now();
    const auto time_is_up = [&] {
      const double most = kernels_patience * (kernels_share + grid_share) * request_.seconds;
      return agree(transport_, wall_now() - begin > most ? 1 : 0) > 0 || stop_wanted_();
    };
    const std::vector<double> shares = shares_of_plans();
    std::size_t done = 0;
    for (const MeasuredPlan& wanted : request_.plans) {
      if (time_is_up()) break;
      measure_kernels(bench_, transport_, *wanted.plan, *wanted.model,
                      part(kernels_share * request_.seconds * shares[done]), table);
      ++done;
    }
    if (done < request_.plans.size() && transport_.rank() == 0) {
      const std::string note = fmt::format(
          "note: kernels that only the last {} of {} scenarios have were not reached: left to "
          "the formulas\n",
          request_.plans.size() - done, request_.plans.size());
      std::fwrite(note.data(), 1, note.size(), stderr);
    }
    if (request_.grid) {
      const std::vector<GridPoint> points = grid_points(dtype_of(request_));
      for (const GridPoint& point : points) {
        if (time_is_up()) break;
        const GridProgram program = grid_program(point, dtype_of(request_));
        measure_kernels(bench_, transport_, program.plan, program.model,
                        part(grid_share * request_.seconds / static_cast<double>(points.size())),
                        table);
      }
    }
    return table.rows(command_of(request_));
  }

  // Shares of the time for kernels, by plan: the part of each plan's step that is kernels which no
  // plan before it has.
  std::vector<double> shares_of_plans() const {
    const double intensity =
        request_.backend == MeasuredBackend::host ? host_intensity : cuda_intensity;
    std::vector<double> shares;
    double sum = 0;
    KernelTable none, seen;
    for (const MeasuredPlan& wanted : request_.plans) {
      shares.push_back(
          new_share(*wanted.plan, *wanted.model, transport_.rank(), intensity, none, seen));
      sum += shares.back();
    }
    for (double& share : shares)
      share = sum > 0 ? share / sum : 0;
    return shares;
  }

  std::vector<sim::MeasuredCollective> collectives() {
    std::vector<const sim::Plan*> plans;
    for (const MeasuredPlan& wanted : request_.plans)
      plans.push_back(wanted.plan);
    std::vector<CollectiveSizes> sizes =
        collective_sizes(plans, request_.ranks, dtype_of(request_));
    if (request_.backend == MeasuredBackend::cuda) add_algorithms(sizes);
    return measure_collectives(bench_, transport_, sizes,
                               part(collectives_share * request_.seconds), command_of(request_));
  }

  static bool smaller(const MeasuredPlan& a, const MeasuredPlan& b) {
    return a.plan->model_flops < b.plan->model_flops;
  }
  const MeasuredPlan* largest_plan() const {
    const auto found = std::max_element(request_.plans.begin(), request_.plans.end(), smaller);
    return found == request_.plans.end() ? nullptr : &*found;
  }
  const MeasuredPlan* smallest_plan() const {
    const auto found = std::min_element(request_.plans.begin(), request_.plans.end(), smaller);
    return found == request_.plans.end() ? nullptr : &*found;
  }

  // Clocks, power and heat come to where a step has them. Not counted as a part of the time.
  void soak() {
    const MeasuredPlan* const large = largest_plan();
    if (large == nullptr) return;
    const BoundProgram bound = bind(*large->plan, *large->model, sim::RankId{0});
    const std::optional<std::uint32_t> product = largest_product(bound);
    if (!product) return;
    const std::unique_ptr<KernelBench> kernels = bench_.load(bound, request_.seed);
    const std::vector<std::uint32_t> ops(soak_batch, *product);
    const double end = wall_now() + std::min(soak_seconds, soak_share * request_.seconds);
    do
      static_cast<void>(kernels->run(ops));
    while (agree(transport_, wall_now() < end ? 1 : 0) > 0 && !stop_wanted_());
  }
  static constexpr std::size_t soak_batch = 8;

  // Measures the time to issue a kernel, and the gap between two.
  void measure_issue(sim::MeasuredMachine& machine) {
    const MeasuredPlan* const small = smallest_plan();
    const std::optional<GridProgram> grid =
        small != nullptr
            ? std::nullopt
            : std::optional{grid_program(grid_points(dtype_of(request_))[0], dtype_of(request_))};
    const BoundProgram bound =
        bind(grid ? grid->plan : *small->plan, grid ? grid->model : *small->model, sim::RankId{0});
    const std::unique_ptr<KernelBench> kernels = bench_.load(bound, request_.seed);
    std::vector<std::uint32_t> ops;
    for (std::uint32_t i = 0; i < bound.ops.size(); ++i)
      if (bound.ops[i].kernel != nullptr) ops.push_back(i);
    if (const std::optional<double> seconds = bench_.issue_cost(*kernels, ops))
      machine.host_issue = sim::duration_from_seconds(agree(transport_, *seconds));
    machine.gaps = bench_.gaps(*kernels, ops);
  }

  const MeasureRequest& request_;
  Bench& bench_;
  Transport& transport_;
  const std::function<bool()>& stop_wanted_;
  bool share_cores_ = false;
  Typical typical_ = Typical::median;
  std::optional<DriftMeter> drift_;
};

void check(const MeasureRequest& request) {
  if (request.ranks < 1) throw std::invalid_argument("a measurement has at least one rank");
  if (request.seconds <= 0) throw std::invalid_argument("a measurement takes some time");
  for (const MeasuredPlan& wanted : request.plans) {
    if (wanted.plan->world_size() > request.ranks)
      throw sim::InputError(
          sim::SourcePosition{.file = wanted.source},
          fmt::format("its plan has {} ranks, the measurement {}: each rank measures its own "
                      "program",
                      wanted.plan->world_size(), request.ranks));
    const std::vector<std::string> problems = engine_problems(*wanted.plan, *wanted.model);
    if (!problems.empty())
      throw sim::InputError(sim::SourcePosition{.file = wanted.source}, problems.front());
  }
}

}  // namespace

sim::MeasuredMachine measure_rank(const MeasureRequest& request, Bench& bench, Transport& transport,
                                  const std::function<bool()>& stop_wanted) {
  return Measurement{request, bench, transport, stop_wanted}.run();
}

RunResult measure_machine(const MeasureRequest& request,
                          const std::function<void(const sim::MeasuredMachine&)>& done) {
  check(request);
  set_cuda_environment(request.ranks_per_gpu);  // before there are threads and ranks
  const bool host = request.backend == MeasuredBackend::host;
  Launch launch;
  launch.ranks = request.ranks;
  launch.kind = host ? RankKind::threads : RankKind::processes;
  launch.arguments = request.arguments;
  launch.ranks_per_gpu = request.ranks_per_gpu;
  return run_ranks(launch, [&](Seat& seat) {
    seat.heartbeat().enter(RankPhase::preparing);
    const int gpu = device_of(seat.world(), request.ranks_per_gpu);
    const std::unique_ptr<Bench> bench =
        host ? make_host_bench(seat.transport())
             : make_cuda_bench(seat.transport(),
                               {.device = gpu,
                                .ranks_per_device = std::max(1, request.ranks_per_gpu),
                                .gemm_choices = algorithm_file_of_user()});
    const sim::MeasuredMachine machine =
        measure_rank(request, *bench, seat.transport(), [&seat] { return seat.stop_wanted(); });
    if (seat.world().rank == 0) done(machine);
    seat.heartbeat().enter(RankPhase::ending);
  });
}

}  // namespace real
