// Traces of runs on CPUs: operators are the work, and collectives of gloo the communication.
#include <map>

#include "sim/base/input_error.hpp"
#include "sim/config/byte_source.hpp"
#include "sim/trace/read_trace.hpp"
#include "tests/catch.hpp"
#include "tests/unit/trace/kineto_events.hpp"

namespace {

using namespace sim;
using namespace sim::test;
using namespace std::chrono_literals;

// Rank 0 of two.
const std::string distributed =
    R"("distributedInfo":{"backend":"gloo","rank":0,"world_size":2,)"
    R"("pg_config":[{"pg_name":"0","pg_desc":"default_pg","pg_size":2,"ranks":[0,1]}]},)";

TracedRun cpu_run(const std::string& events, const std::string& head = distributed) {
  return read_trace(*open_text(trace_of(events, head), "a.json"));
}

std::string op(int id, const std::string& name, double at, double took,
               const std::string& shapes = "", int thread = 1) {
  return host_event("cpu_op", name, at, took, R"("External id":)" + std::to_string(id) + shapes,
                    thread);
}

std::string mark(int id, const std::string& name, double at, double took,
                 const std::string& shapes = "", int thread = 1) {
  return host_event("user_annotation", name, at, took,
                    R"("External id":)" + std::to_string(id) + shapes, thread);
}

const std::string product_shapes =
    R"(,"Input Dims":[[64,32],[32,128]],"Input type":["float","float"])";

// Of each operator, in us.
std::map<std::string, double> times_of(const TracedRun& run) {
  std::map<std::string, double> times;
  for (const DeviceActivity& activity : run.ranks.at(0).device)
    times[run.names[activity.name]] += to_seconds(activity.time()) * 1e6;
  return times;
}

const DeviceActivity& activity_named(const TracedRun& run, const std::string& name) {
  for (const DeviceActivity& activity : run.ranks.at(0).device)
    if (run.names[activity.name] == name) return activity;
  throw std::logic_error{"no " + name};
}

TEST_CASE("an instant of a CPU is of the innermost operator", "[trace]") {
  const TracedRun run = cpu_run(op(1, "aten::matmul", 0, 100) + op(2, "aten::clone", 10, 20) +
                                op(3, "aten::copy_", 15, 10) + op(4, "aten::reshape", 90, 10));
  CHECK(run.on_host);
  CHECK(run.device.name == "CPU");
  CHECK(times_of(run) ==
        std::map<std::string, double>{
            {"aten::matmul", 70}, {"aten::clone", 10}, {"aten::copy_", 10}, {"aten::reshape", 10}});
  CHECK(run.notes.at(0) == "no GPU kernels: the operators of the CPU are shown");
}

TEST_CASE("a product on a CPU has the time of what it calls", "[trace]") {
  const TracedRun run =
      cpu_run(op(1, "aten::mm", 0, 50, product_shapes) + op(2, "aten::resolve_conj", 10, 5));
  REQUIRE(run.ranks[0].device.size() == 1);
  const DeviceActivity& product = run.ranks[0].device[0];
  CHECK(product.time() == Duration{50'000'000});
  CHECK(product.kind == OpKind::gemm);
  REQUIRE(product.product != not_told);
  CHECK(run.ranks[0].products[0] == Product{64, 128, 32, 1});
}

TEST_CASE("what calls operators, waits or loads data is no work of a CPU", "[trace]") {
  const TracedRun run =
      cpu_run(op(1, "autograd::engine::evaluate_function: MmBackward0", 0, 100) +
              op(2, "MmBackward0", 10, 80) + op(3, "aten::mul_", 20, 30) +
              op(4, "c10d::allreduce_", 200, 50) + op(5, "_c10d_functional::wait_tensor", 300, 50) +
              mark(6, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 400, 50) +
              op(7, "aten::stack", 410, 30) + mark(8, "Optimizer.step#AdamW.step", 500, 50) +
              op(9, "aten::addcdiv_", 510, 5));
  CHECK(times_of(run) == std::map<std::string, double>{{"aten::mul_", 30}, {"aten::addcdiv_", 5}});
  CHECK(activity_named(run, "aten::mul_").kind == OpKind::elementwise);
  CHECK(activity_named(run, "aten::addcdiv_").kind == OpKind::optimizer);
}

TEST_CASE("gloo's collectives have their kind, group and full size", "[trace]") {
  const std::string shapes = R"(,"Input Dims":[[1000]],"Input type":["float"])";
  const std::string events = mark(1, "gloo:all_reduce", 0, 10, shapes, 2) +
                             mark(2, "gloo:all_gather", 20, 10, shapes, 2) +
                             op(3, "aten::copy_", 22, 5, "", 2);
  const TracedRun run = cpu_run(events);
  REQUIRE(run.ranks[0].calls.size() == 2);
  const CollectiveCall& reduce = run.ranks[0].calls[0];
  CHECK(reduce.kind == CollectiveKind::all_reduce);
  CHECK(reduce.bytes == Bytes{4000});
  REQUIRE(reduce.group != not_told);
  CHECK(run.groups[static_cast<std::size_t>(reduce.group)].description == "default_pg");
  const CollectiveCall& gather = run.ranks[0].calls[1];
  CHECK(gather.kind == CollectiveKind::all_gather);
  CHECK(gather.bytes == Bytes{8000});  // of both ranks
  CHECK(times_of(run).count("aten::copy_") == 0);

  // Of several groups, which is not told.
  const TracedRun several = cpu_run(
      events, R"("distributedInfo":{"rank":0,"world_size":4,"pg_config":[)"
              R"({"pg_name":"0","pg_size":4},{"pg_name":"1","pg_size":2,"ranks":[0,1]}]},)");
  CHECK(several.ranks[0].calls[0].group == not_told);
  CHECK(several.ranks[0].calls[0].bytes == Bytes{4000});
  CHECK(several.ranks[0].calls[1].bytes == Bytes{});
}

TEST_CASE("a trace of a GPU without its kernels is not one of a CPU", "[trace]") {
  const std::string work = op(1, "aten::mm", 0, 50, product_shapes);
  CHECK(cpu_run(work).on_host);
  CHECK_FALSE(cpu_run(work, R"("deviceProperties":[{"name":"NVIDIA H100"}],)").on_host);
  CHECK_FALSE(cpu_run(work + mark(2, "nccl:all_reduce", 60, 5)).on_host);
  CHECK_FALSE(
      cpu_run(work + launch(1, 5) + device_event("k", 20, 5, R"("correlation":1)")).on_host);
}

}  // namespace
