#include "sim/explain/states.hpp"

#include "sim/explain/gaps.hpp"
#include "sim/explain/step_parts.hpp"
#include "tests/catch.hpp"
#include "tests/unit/explain/run_maker.hpp"

namespace {

using namespace sim;
using namespace sim::test;

StateTimes parts_of_first(const TracedRun& run) {
  const RunSteps steps = find_steps(run);
  const std::vector<RankStep> list = rank_steps(run, steps, find_arrivals(run, steps));
  CHECK(list.front().parts.total() == list.front().window.time());
  return list.front().parts;
}

Duration us(std::int64_t n) {
  return std::chrono::microseconds{n};
}

TEST_CASE("communication beside a kernel is hidden; alone it is exposed") {
  RunMaker make;
  make.rank(0).step("s", 0, 1000).kernel("gemm", OpKind::gemm, 0, 500);
  make.collective(CollectiveKind::all_reduce, not_told, 0, 400, 300);
  const StateTimes parts = parts_of_first(make.run());
  CHECK(parts[StepState::compute] == us(500));
  CHECK(parts[StepState::transfer] == us(200));
  CHECK(parts.idle() == us(300));
}

TEST_CASE("of transfers at one time, the one that the next kernel waits for has the instant") {
  RunMaker make;
  const std::int32_t data = make.group("data", {0, 1}), tensor = make.group("tensor", {0, 1});
  make.rank(0).step("s", 0, 600).kernel("a", OpKind::gemm, 0, 100);
  make.collective(CollectiveKind::all_reduce, data, 1, 50, 450);  // to 500, beside "b"
  make.collective(CollectiveKind::all_gather, tensor, 1, 100, 200).on_stream(21);
  make.kernel("b", OpKind::gemm, 300, 300);
  const TracedRun run = make.run();
  const RunSteps steps = find_steps(run);
  const RankStep step = rank_steps(run, steps, find_arrivals(run, steps)).front();
  CHECK(step.parts[StepState::transfer] == us(200));
  CHECK(step.exposed.at("tensor") == us(200));
  CHECK(step.exposed.count("data") == 0);
}

TEST_CASE("idle until a late launch is the host's") {
  RunMaker make;
  make.rank(0).step("s", 0, 400);
  make.kernel("a", OpKind::gemm, 0, 100, 0).kernel("b", OpKind::gemm, 200, 200, 190);
  const StateTimes parts = parts_of_first(make.run());
  CHECK(parts[StepState::host] == us(100));
}

TEST_CASE("idle though the kernel was issued is between kernels") {
  RunMaker make;
  make.rank(0).step("s", 0, 400);
  make.kernel("a", OpKind::gemm, 0, 100, 0).kernel("b", OpKind::gemm, 103, 297, 50);
  CHECK(parts_of_first(make.run())[StepState::between_kernels] == us(3));
}

TEST_CASE("idle before a kernel whose launch is not told has no cause") {
  RunMaker make;
  make.rank(0).step("s", 0, 400).kernel("a", OpKind::gemm, 100, 300);
  CHECK(parts_of_first(make.run())[StepState::untold] == us(100));
}

TEST_CASE("a host that waited for the device and then issued is synchronisation") {
  RunMaker make;
  make.rank(0).step("s", 0, 400);
  make.kernel("a", OpKind::gemm, 0, 100, 0);
  make.host("cudaStreamSynchronize", HostSpan::What::runtime, 10, 105);
  make.kernel("b", OpKind::gemm, 150, 250, 140);
  const StateTimes parts = parts_of_first(make.run());
  CHECK(parts[StepState::synchronisation] == us(50));
  CHECK(parts[StepState::host] == us(0));
}

TEST_CASE("garbage and data loading have the part of a gap that they fill") {
  RunMaker make;
  make.rank(0).step("s", 0, 1000);
  make.kernel("a", OpKind::gemm, 0, 100, 0);
  make.host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", HostSpan::What::mark,
            120, 320);
  make.host("gc", HostSpan::What::garbage, 300, 400);
  make.kernel("b", OpKind::gemm, 500, 500, 490);
  const StateTimes parts = parts_of_first(make.run());
  CHECK(parts[StepState::data_loading] == us(180));
  CHECK(parts[StepState::garbage] == us(100));
  CHECK(parts[StepState::host] == us(120));
}

TEST_CASE("data loading that the device does not wait for costs nothing") {
  RunMaker make;
  make.rank(0).step("s", 0, 400);
  make.kernel("a", OpKind::gemm, 0, 200, 0).kernel("b", OpKind::gemm, 200, 200, 5);
  make.host("dataloader", HostSpan::What::mark, 50, 150);
  CHECK(parts_of_first(make.run())[StepState::data_loading] == us(0));
}

TEST_CASE("waiting for a rank that comes late is told apart from the transfer") {
  RunMaker make;
  const std::int32_t group = make.group("tensor", {0, 1});
  make.rank(0).step("s", 0, 1000).kernel("a", OpKind::gemm, 0, 100);
  make.collective(CollectiveKind::all_reduce, group, 100, 100, 900);
  make.rank(1).step("s", 0, 1000).kernel("a", OpKind::gemm, 0, 800);
  make.collective(CollectiveKind::all_reduce, group, 100, 800, 200);
  const StateTimes parts = parts_of_first(make.run());
  CHECK(parts[StepState::peer] == us(700));
  CHECK(parts[StepState::transfer] == us(200));
}

TEST_CASE("copies count where nothing else runs") {
  RunMaker make;
  make.rank(0).step("s", 0, 300).kernel("a", OpKind::gemm, 0, 200);
  make.kernel("Memcpy DtoH", OpKind::host_copy, 100, 200, -1, 9);
  CHECK(parts_of_first(make.run())[StepState::copy] == us(100));
}

}  // namespace
