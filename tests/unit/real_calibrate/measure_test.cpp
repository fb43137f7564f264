// The method on the host backend: everything that a plan needs is measured, once, by all ranks.
#include "real/calibrate/measure.hpp"

#include <algorithm>

#include "real/calibrate/agree.hpp"
#include "real/calibrate/measure_machine.hpp"
#include "tests/catch.hpp"
#include "tests/unit/real_calibrate/small_plans.hpp"

namespace {

using namespace real;

using calibrate_test::on_all_ranks;
using calibrate_test::two_ranks;

TEST_CASE("ranks agree on the number of rank 0, and rank 0 hears all") {
  on_all_ranks(3, [](Transport& transport) {
    barrier(transport);
    const double own = 10.0 + transport.rank();
    if (agree(transport, own) != 10) throw std::logic_error("not the number of rank 0");
    const std::vector<double> values(static_cast<std::size_t>(transport.rank()), own);
    const std::vector<std::vector<double>> all = gather(transport, values);
    if (transport.rank() == 0 && all != std::vector<std::vector<double>>{{}, {11}, {12, 12}})
      throw std::logic_error("rank 0 heard something else");
  });
}

TEST_CASE("every kernel of every rank's program gets a time") {
  const GridProgram pipeline = two_ranks(1, 2);
  KernelTable table;
  on_all_ranks(2, [&](Transport& transport) {
    const std::unique_ptr<Bench> bench = make_host_bench(transport);
    KernelTable own;
    KernelTable& mine = transport.rank() == 0 ? table : own;
    measure_kernels(*bench, transport, pipeline.plan, pipeline.model, {.seconds = 0.01}, mine);
    // A second time nothing is left to measure.
    measure_kernels(*bench, transport, pipeline.plan, pipeline.model, {.seconds = 0.01}, mine);
  });
  for (const sim::Program& program : pipeline.plan.programs)
    for (const sim::Kernel& kernel : program.kernels)
      CHECK(table.has(kernel));
  for (const sim::MeasuredKernel& row : table.rows(""))
    CHECK(row.time > sim::Duration{});
}

TEST_CASE(
    "collectives are measured from small ones to twice the plan's largest, in whole elements") {
  const GridProgram tensor = two_ranks(2, 1);
  const GridProgram pipeline = two_ranks(1, 2);
  const std::vector<CollectiveSizes> wanted =
      collective_sizes({&tensor.plan, &pipeline.plan}, 2, sim::DType::fp32);
  const auto has = [&](bool message) {
    return std::any_of(wanted.begin(), wanted.end(),
                       [&](const CollectiveSizes& one) { return one.shape.message == message; });
  };
  CHECK(has(true));
  CHECK(has(false));
  for (const CollectiveSizes& one : wanted) {
    CHECK(one.shape.ranks == 2);
    CHECK(std::is_sorted(one.sizes.begin(), one.sizes.end()));
    CHECK(one.sizes.front() <= 256);
    CHECK(one.largest == one.sizes.back());
    for (const std::int64_t size : one.sizes)
      CHECK(size % 8 == 0);
  }
  // One rank has nobody to talk to.
  CHECK(collective_sizes({}, 1, sim::DType::fp32).empty());
  CHECK(collective_sizes({}, 2, sim::DType::fp32).size() == 4);
}

TEST_CASE("a machine is measured with all of its parts, and says what it is") {
  const GridProgram data = two_ranks(1, 1);
  MeasureRequest request;
  request.ranks = 2;
  request.plans = {{.plan = &data.plan, .model = &data.model}};
  request.grid = false;
  request.seconds = 0.1;
  int calls = 0;
  const RunResult result = measure_machine(request, [&](const sim::MeasuredMachine& machine) {
    ++calls;
    CHECK_FALSE(machine.host.empty());
    CHECK_FALSE(machine.device.empty());
    CHECK(machine.date.size() == 20);
    CHECK(machine.kernels.size() == data.plan.programs[0].kernels.size());
    CHECK_FALSE(machine.collectives.empty());
    CHECK_FALSE(machine.copies.empty());
    // Two sizes of all-reduce beside the largest product, one beside attention and beside a kernel
    // of another kind; data parallel has nothing else.
    REQUIRE(machine.interference.size() == 4);
    for (const sim::MeasuredInterference& row : machine.interference) {
      CHECK(row.collective.collective == "all_reduce");
      CHECK(row.together >= row.kernels_beside);
    }
    CHECK(machine.interference[1].kernel.kind == sim::OpKind::gemm);
    CHECK(machine.interference[2].kernel.kind == sim::OpKind::attention);
    CHECK(machine.interference[3].kernel.kind != sim::OpKind::gemm);
    CHECK_FALSE(machine.host_issue);  // a host runs what it issues
    REQUIRE(machine.reference);
    CHECK(machine.reference->product > sim::Duration{});
    CHECK(machine.reference->samples > 5);  // one behind each pass
  });
  CHECK(result.end == RunEnd::done);
  CHECK(result.message.empty());
  CHECK(calls == 1);
}

TEST_CASE("kernels are measured beside every kind of communication that a plan has") {
  const auto kinds_beside = [](const GridProgram& program) {
    std::vector<std::string> kinds;
    on_all_ranks(2, [&](Transport& transport) {
      const std::unique_ptr<Bench> bench = make_host_bench(transport);
      const auto rows =
          measure_interference(*bench, transport, program.plan, program.model, {.seconds = 0.1});
      if (transport.rank() != 0) return;
      for (const sim::MeasuredInterference& row : rows) {
        kinds.push_back(row.collective.collective);
        CHECK(row.collective.bytes > sim::Bytes{});
        CHECK(row.collective.ranks == 2);
        CHECK(row.collective_beside > sim::Duration{});
      }
    });
    return kinds;
  };
  const auto has = [](const std::vector<std::string>& kinds, const char* kind) {
    return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  };
  CHECK(has(kinds_beside(two_ranks(1, 2)), "send_receive"));
  GridProgram sharded = two_ranks(1, 1);
  sim::Layout layout = sharded.plan.layout;
  layout.zero_stage = 3;
  sharded.plan = sim::make_plan(sharded.model, layout);
  const std::vector<std::string> kinds = kinds_beside(sharded);
  CHECK(has(kinds, "all_reduce"));
  CHECK(has(kinds, "reduce_scatter"));
  CHECK(has(kinds, "all_gather"));
  CHECK_FALSE(has(kinds, "send_receive"));
}

TEST_CASE("time goes to the plans whose kernels no plan before them has") {
  const GridProgram data = two_ranks(1, 1);
  const GridProgram pipeline = two_ranks(1, 2);
  KernelTable none, seen;
  CHECK(new_share(data.plan, data.model, 0, 4, none, seen) == 1);
  CHECK(new_share(data.plan, data.model, 0, 4, none, seen) == 0);
  const double rest = new_share(pipeline.plan, pipeline.model, 0, 4, none, seen);
  CHECK(rest < 0.5);
}

TEST_CASE("all-reduces of three ranks and more are measured by ring and by tree apart") {
  std::vector<CollectiveSizes> sizes{
      {.shape = {.kind = sim::CollectiveKind::all_reduce, .ranks = 2}, .largest = 4096},
      {.shape = {.kind = sim::CollectiveKind::all_reduce, .ranks = 4}, .largest = 5000},
      {.shape = {.kind = sim::CollectiveKind::all_gather, .ranks = 4}, .largest = 4096}};
  add_algorithms(sizes);
  REQUIRE(sizes.size() == 5);
  CHECK(sizes[3].shape.algorithm == AlgorithmChoice::ring);
  CHECK(sizes[4].shape.algorithm == AlgorithmChoice::tree);
  CHECK(sizes[4].sizes == std::vector<std::int64_t>{256, 1024, 4096, 4992});
  const std::vector<CollectiveSizes> both{{.shape = sizes[3].shape, .sizes = {4096}},
                                          {.shape = sizes[4].shape, .sizes = {4096}}};
  on_all_ranks(4, [&](Transport& transport) {
    const std::unique_ptr<Bench> bench = make_host_bench(transport);
    const auto points = measure_collectives(*bench, transport, both, {.seconds = 0.01}, "test");
    if (transport.rank() != 0) return;
    CHECK(points.at(0).algorithm == "ring");
    CHECK(points.at(1).algorithm == "tree");
  });
}

TEST_CASE("a measurement of more ranks than there are is refused") {
  const GridProgram data = two_ranks(1, 1);
  MeasureRequest request;
  request.plans = {{.plan = &data.plan, .model = &data.model, .source = "two.yaml"}};
  CHECK_THROWS_WITH(measure_machine(request, {}),
                    "two.yaml: error: its plan has 2 ranks, the measurement 1: each rank measures "
                    "its own program");
}

}  // namespace
