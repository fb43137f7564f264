// Products of persistent thread blocks beside communication: the late blocks run behind the first,
// and communication waits for SMs that they hold.
#include "sim/engine/cost_table.hpp"
#include "sim/engine/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/unit/engine/hand_plan.hpp"

namespace sim {
namespace {

const Cluster& h100() {
  static const Cluster cluster = load_cluster("dgx-h100", 1);
  return cluster;
}

const Span& span_of(const Simulation& result, OpId op) {
  return result.timeline.tracks[0].spans[op.value];
}

Duration alone(const Plan& plan, OpId op) {
  const Program& program = plan.programs[0];
  return kernel_cost(program.kernels[program.work[op.value]], h100().device()).time;
}

Duration collective_time(const Plan& plan, OpId op, int ranks) {
  const Program& program = plan.programs[0];
  const CollectiveCost cost = collective_cost(h100(), group_shape(h100(), first_gpus(ranks)),
                                              program.collectives[program.work[op.value]], {});
  return cost.latency + cost.transfer;
}

}  // namespace

TEST_CASE("products are persistent on Hopper alone", "[engine]") {
  const Kernel product{.kind = OpKind::gemm, .dtype = DType::bf16, .m = 4096, .n = 4096, .k = 4096};
  const auto persistent = [&](const char* name) {
    return kernel_cost(product, load_cluster(name, 1).device()).persistent;
  };
  CHECK(persistent("dgx-h100"));
  CHECK(persistent("dgx-h200"));
  CHECK_FALSE(persistent("dgx-a100-80"));
  CHECK_FALSE(persistent("dgx-b200"));
  const Kernel copy{.kind = OpKind::elementwise, .bytes = 1_GiB};
  CHECK_FALSE(kernel_cost(copy, h100().device()).persistent);
}

TEST_CASE("late blocks start when communication ends", "[engine]") {
  HandProgram program;
  const OpId reduce = program.collective(CollectiveKind::all_reduce, 64_MiB, GroupRole::data);
  const OpId work = program.gemm(16384);
  const Plan plan = hand_plan({program.program}, 1, 8);
  const Duration time = alone(plan, work), beside = collective_time(plan, reduce, 8);
  REQUIRE(beside < time);
  const Simulation result = simulate(plan, h100(), no_host());
  CHECK(span_of(result, reduce).end == TimePoint{} + beside);
  CHECK(span_of(result, work).end == TimePoint{} + beside + time);
}

TEST_CASE("late blocks start at the latest when the first are done", "[engine]") {
  HandProgram program;
  const OpId reduce = program.collective(CollectiveKind::all_reduce, 1_GiB, GroupRole::data);
  const OpId first = program.gemm(8192);
  const OpId second = program.gemm(8192);
  const Plan plan = hand_plan({program.program}, 1, 8);
  const Duration time = alone(plan, first), beside = collective_time(plan, reduce, 8);
  REQUIRE(beside > time * 2);
  REQUIRE(beside < time * 3);
  const Simulation result = simulate(plan, h100(), no_host());
  CHECK(span_of(result, first).end == TimePoint{} + time * 2);
  CHECK(span_of(result, second).end == TimePoint{} + beside + time);
}

TEST_CASE("communication waits for the blocks of a product that runs", "[engine]") {
  // The second collective follows the first; the late blocks have taken the SMs by then.
  HandProgram program;
  const OpId before = program.collective(CollectiveKind::all_reduce, 16_MiB, GroupRole::data);
  const OpId after = program.collective(CollectiveKind::all_reduce, 16_MiB, GroupRole::data);
  const OpId work = program.gemm(8192);
  const Plan plan = hand_plan({program.program}, 1, 8);
  const Duration time = alone(plan, work), beside = collective_time(plan, before, 8);
  REQUIRE(beside * 2 < time);
  const Simulation result = simulate(plan, h100(), no_host());
  CHECK(span_of(result, after).begin == TimePoint{} + time);
  CHECK(span_of(result, after).end == TimePoint{} + time + beside);
  // It finds room beside the late blocks and takes nothing from them.
  CHECK(span_of(result, work).end == TimePoint{} + time + beside);
}

TEST_CASE("a product that began alone keeps its SMs", "[engine]") {
  // The collective is ready in the middle of the second product.
  HandProgram program;
  const OpId first = program.gemm(8192);
  const OpId copy = program.kernel_on(Stream::data_comm, 256_MiB, {first});
  const OpId reduce = program.collective(CollectiveKind::all_reduce, 16_MiB, GroupRole::data);
  const OpId second = program.gemm(8192);
  const OpId third = program.stream_bytes(1_MiB);
  const Plan plan = hand_plan({program.program}, 1, 8);
  const Simulation result = simulate(plan, h100(), no_host());
  const TimePoint begun = span_of(result, second).begin;
  REQUIRE(span_of(result, copy).end > begun);
  REQUIRE(span_of(result, copy).end < span_of(result, second).end);
  CHECK(span_of(result, reduce).begin == span_of(result, second).end);
  CHECK(span_of(result, third).begin == span_of(result, second).end);
}

TEST_CASE("a product that leaves SMs free shares the device", "[engine]") {
  HandProgram program;
  const OpId reduce = program.collective(CollectiveKind::all_reduce, 64_MiB, GroupRole::data);
  const OpId work = program.gemm(512);
  const Plan plan = hand_plan({program.program}, 1, 8);
  REQUIRE(alone(plan, work) < collective_time(plan, reduce, 8));
  const Simulation result = simulate(plan, h100(), no_host());
  CHECK(span_of(result, work).end == TimePoint{} + alone(plan, work));
}

TEST_CASE("a product abreast of others gives communication its SMs, and late blocks theirs",
          "[engine]") {
  HandProgram program;
  const OpId reduce = program.collective(CollectiveKind::all_reduce, 64_MiB, GroupRole::data);
  const OpId work = program.gemm(16384);
  program.program.kernels.back().abreast = 2;
  const Plan plan = hand_plan({program.program}, 1, 8);
  const Duration time = alone(plan, work), beside = collective_time(plan, reduce, 8);
  REQUIRE(beside < time);
  const Simulation result = simulate(plan, h100(), no_host());
  const CommCost held = priced_collective(h100(), group_shape(h100(), first_gpus(8)),
                                          program.program.collectives.back(), {});
  const double share = held.sm / 1024.0 / h100().device().sms;
  const Duration end = span_of(result, work).end - TimePoint{};
  CHECK(to_seconds(end) == Approx(to_seconds(time) + share * to_seconds(beside)));
}

TEST_CASE("NCCL comes before a product that starts with it, abreast or not", "[engine]") {
  HandProgram program;
  const OpId first = program.gemm(4096);
  program.program.kernels.back().abreast = 2;
  const OpId reduce =
      program.collective(CollectiveKind::all_reduce, 16_MiB, GroupRole::data, {first});
  program.gemm(8192);
  program.program.kernels.back().abreast = 2;
  const Simulation result = simulate(hand_plan({program.program}, 1, 8), h100(), no_host());
  CHECK(span_of(result, reduce).begin == span_of(result, first).end);
}

TEST_CASE("without persistence, or interference, products give way, or lose nothing", "[engine]") {
  HandProgram program;
  program.collective(CollectiveKind::all_reduce, 64_MiB, GroupRole::data);
  const OpId work = program.gemm(16384);
  const Plan plan = hand_plan({program.program}, 1, 8);
  const auto end = [&](SimulationOptions options) {
    options.graphs = true;
    return span_of(simulate(plan, h100(), options), work).end;
  };
  const TimePoint waits = end({}), gives_way = end({.persistent = false});
  const TimePoint undisturbed = end({.interference = false});
  CHECK(undisturbed == TimePoint{} + alone(plan, work));
  CHECK(gives_way > undisturbed);
  CHECK(waits > gives_way);
  CHECK(end({.free_data = true}) == undisturbed);
}

}  // namespace sim
