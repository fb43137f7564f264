// The measurements of a GPU, on fakes that are slow and truthful: what is measured, that it comes
// out as files, and that the simulator takes them.
#include "real/calibrate/cuda_bench.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "real/calibrate/agree.hpp"
#include "real/calibrate/measure.hpp"
#include "real/calibrate/measure_machine.hpp"
#include "sim/calibration/cluster_file.hpp"
#include "sim/calibration/fit.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/topology/cluster.hpp"
#include "tests/catch.hpp"
#include "tests/gpu/fakes/behaviour.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/real_calibrate/small_plans.hpp"

namespace {

using namespace real;
using calibrate_test::on_all_ranks;
using calibrate_test::two_ranks;

// Small devices: the copies that keep one busy are a share of its memory.
void small_devices() {
  ::setenv("STEPCAST_GEMM_CACHE", "off", 1);  // not the user's
  ::setenv("STEPCAST_NVML", STEPCAST_FAKE_NVML, 1);
  fakes::set_behaviour({.seed = 0, .memory = std::int64_t{256} << 20});
}

std::unique_ptr<Bench> bench_of(Transport& transport) {
  return make_cuda_bench(transport, {.device = transport.rank(), .ranks_per_device = 1});
}

MeasureRequest request_of(const GridProgram& program) {
  MeasureRequest request;
  request.backend = MeasuredBackend::cuda;
  request.ranks = 2;
  request.plans = {{.plan = &program.plan, .model = &program.model}};
  request.grid = false;
  request.seconds = 0.2;
  return request;
}

sim::MeasuredMachine measured(const GridProgram& program) {
  small_devices();
  sim::MeasuredMachine machine;
  on_all_ranks(2, [&](Transport& transport) {
    const std::unique_ptr<Bench> bench = bench_of(transport);
    const sim::MeasuredMachine mine = measure_rank(request_of(program), *bench, transport);
    if (transport.rank() == 0) machine = mine;
  });
  return machine;
}

// A split vocabulary leaves the kernel of the whole loss without an operator.
std::vector<sim::Kernel> kernels_that_run(const GridProgram& program) {
  std::vector<sim::Kernel> kernels;
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    for (const KernelVariant& variant :
         kernel_variants(bind(program.plan, program.model, sim::RankId{rank})))
      if (std::find(kernels.begin(), kernels.end(), variant.kernel) == kernels.end())
        kernels.push_back(variant.kernel);
  return kernels;
}

TEST_CASE("a GPU is measured with every kernel and collective of a plan", "[real_calibrate]") {
  const int tensor = GENERATE(1, 2);
  const int pipeline = GENERATE(1, 2);
  if (tensor * pipeline > 2) return;
  CAPTURE(tensor, pipeline);
  const GridProgram program = two_ranks(tensor, pipeline, sim::DType::bf16);
  const sim::MeasuredMachine machine = measured(program);
  KernelTable table;
  for (const sim::MeasuredKernel& row : machine.kernels) {
    CHECK(row.time >= sim::Duration{});
    table.add(row.kernel, 1, 1, row.samples);
  }
  for (const sim::Kernel& kernel : kernels_that_run(program))
    CHECK(table.has(kernel));
  for (const sim::Program& one : program.plan.programs) {
    CHECK((one.transfers.empty() ||
           std::any_of(machine.collectives.begin(), machine.collectives.end(),
                       [](const auto& point) { return point.collective == "send_receive"; })));
    for (const sim::Collective& collective : one.collectives) {
      if (collective.kind == sim::CollectiveKind::barrier) continue;
      CAPTURE(collective.bytes.count());
      CHECK(std::any_of(machine.collectives.begin(), machine.collectives.end(),
                        [&](const sim::MeasuredCollective& point) {
                          return point.collective == sim::word(collective.kind) &&
                                 point.bytes >= collective.bytes;
                        }));
    }
  }
  CHECK(machine.copies.size() == 3 * 6);
  REQUIRE(machine.interference.size() >= 4);
  CHECK(machine.interference[0].together >= machine.interference[0].kernels_beside);
  CHECK(std::any_of(machine.interference.begin(), machine.interference.end(),
                    [](const sim::MeasuredInterference& row) {
                      return row.collective.collective == "send_receive";
                    }) == (pipeline > 1));
  REQUIRE(machine.gaps);
  CHECK(std::abs(machine.gaps->replayed) < 60);
  // The played NVML: a line for each part with kernels or collectives in it.
  REQUIRE(machine.conditions.size() >= 2);
  CHECK(machine.conditions[0].find("kernels: SM 1755 MHz") == 0);
  CHECK(machine.conditions[1].find("collectives: SM 1755 MHz") == 0);
  REQUIRE(machine.host_issue);
  CHECK(*machine.host_issue > sim::Duration{});
  CHECK(machine.device == "played by the CPU");
  CHECK(machine.sms == 1);
  CHECK(machine.memory == sim::Bytes{std::int64_t{256} << 20});
  REQUIRE(machine.reserved);
  // The fakes take no memory of their own: all that was allocated is known as a buffer.
  CHECK(machine.reserved->context == sim::Bytes{0});
  CHECK(machine.reserved->nccl == sim::Bytes{0});
  CHECK(machine.versions.size() == 4);
  REQUIRE(machine.reference);
  CHECK(machine.reference->product > sim::Duration{});
  CHECK(machine.reference->copy > sim::Duration{});
}

TEST_CASE("what was measured of a GPU is a device and a cluster that simulate takes",
          "[real_calibrate]") {
  const GridProgram program = two_ranks(2, 1, sim::DType::bf16);
  const sim::MeasuredMachine machine = measured(program);
  const std::string machines =
      sim::test::source_dir() + "/validation/real/machines/h200-virtual-4/";
  const sim::DeviceCalibration fit =
      sim::calibrate_device(sim::Cluster::load(machines + "cluster.yaml").device(), machine);
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / "stepcast-cuda-bench-test";
  std::filesystem::create_directories(folder);
  std::ofstream{folder / "device.yaml"} << sim::device_yaml(fit, machine);
  std::ofstream{folder / "cluster.yaml"}
      << sim::cluster_yaml(machines + "cluster.yaml",
                           {.name = "fake",
                            .device = "device.yaml",
                            .curves = sim::measured_curves(machine.collectives),
                            .sources = {"a test"}},
                           folder.string());
  const sim::Cluster cluster = sim::Cluster::load((folder / "cluster.yaml").string());
  std::filesystem::remove_all(folder);
  const sim::Simulation simulation = sim::simulate(program.plan, cluster, {});
  CHECK(simulation.timeline.end.time_since_epoch() > sim::Duration{});
  // Every kernel of the plan takes its measured time.
  CHECK(cluster.device().measured_kernels.size() == kernels_that_run(program).size());
}

TEST_CASE("a rank measures its own kernels behind those before them, however long the sequence",
          "[real_calibrate]") {
  small_devices();
  const GridProgram program = two_ranks(1, 1, sim::DType::fp32);
  on_all_ranks(2, [&](Transport& transport) {
    const std::unique_ptr<Bench> bench = bench_of(transport);
    const BoundProgram bound = bind(program.plan, program.model,
                                    sim::RankId{static_cast<std::uint32_t>(transport.rank())});
    const std::unique_ptr<KernelBench> kernels = bench->load(bound, 1);
    std::vector<std::uint32_t> ops;
    while (ops.size() < 500)
      for (std::uint32_t op = 0; op < bound.ops.size(); ++op)
        if (bound.ops[op].kernel != nullptr) ops.push_back(op);
    const std::vector<double> seconds = kernels->run(ops);
    if (seconds.size() != ops.size()) throw std::logic_error("a time per operator");
    for (const double one : seconds)
      if (!(one >= 0) || one > 60) throw std::logic_error("no time");
    barrier(transport);
  });
}

TEST_CASE("groups of one size communicate side by side", "[real_calibrate]") {
  small_devices();
  const std::vector<CollectiveSizes> wanted{
      {.shape = {.kind = sim::CollectiveKind::reduce_scatter, .ranks = 2},
       .largest = 4096,
       .sizes = {1024, 4096}},
      {.shape = {.message = true, .ranks = 2}, .largest = 4096, .sizes = {4096}},
      {.shape = {.kind = sim::CollectiveKind::all_gather, .ranks = 4},
       .largest = 4096,
       .sizes = {4096}}};
  std::vector<sim::MeasuredCollective> points;
  on_all_ranks(4, [&](Transport& transport) {
    const std::unique_ptr<Bench> bench = bench_of(transport);
    const auto mine = measure_collectives(*bench, transport, wanted, {.seconds = 0.1}, "test");
    if (transport.rank() == 0) points = mine;
    barrier(transport);
  });
  REQUIRE(points.size() == 4);
  for (const sim::MeasuredCollective& point : points) {
    CHECK(point.time > sim::Duration{});
    CHECK(point.samples >= 3);
  }
  CHECK(points[2].collective == "send_receive");
}

TEST_CASE("a GPU without NVML is measured, and it is said") {
  small_devices();
  ::setenv("STEPCAST_NVML", "libno-such-nvml.so.1", 1);
  on_all_ranks(1, [](Transport& transport) {
    const std::unique_ptr<Bench> bench = bench_of(transport);
    DriftMeter drift{bench->reference(), transport, false};
    drift.begin_part("kernels");
    drift.mark();
    REQUIRE(drift.conditions().size() == 1);
    CHECK(drift.conditions()[0].find("no NVML: libno-such-nvml.so.1") == 0);
  });
}

TEST_CASE("a device that is not there is named", "[real_calibrate]") {
  on_all_ranks(1, [&](Transport& transport) {
    CHECK_THROWS_WITH(make_cuda_bench(transport, {.device = 99}),
                      "CUDA: there is no GPU 99; this process sees 32");
  });
}

}  // namespace
