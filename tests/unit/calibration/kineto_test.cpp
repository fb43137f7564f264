// Traces of the PyTorch profiler in the exact format, events made up.
#include "sim/calibration/kineto.hpp"

#include <fmt/format.h>

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"

using namespace sim;
using namespace std::chrono_literals;

namespace {

// One product of 64 x 32 by 32 x 128 in two kernels, one all-reduce, three launches.
std::string trace(double all_reduce_us) {
  return fmt::format(R"json({{"schemaVersion": 1,
"deviceProperties": [{{"id": 0, "name": "NVIDIA X100", "numSms": 100}}],
"cuda_runtime_version": 13000, "traceEvents": [
{{"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 1, "tid": 1, "ts": 10.5, "dur": 30,
 "args": {{"External id": 7, "Input Dims": [[128], [64, 32], [32, 128], [], []],
 "Input type": ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar"]}}}},
{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 11,
 "dur": 3, "args": {{"correlation": 1}}}},
{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": 1, "tid": 1, "ts": 16,
 "dur": 3, "args": {{"correlation": 2}}}},
{{"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": 1, "tid": 1, "ts": 30,
 "dur": 900, "args": {{"correlation": 3}}}},
{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 1000,
 "dur": 3, "args": {{"correlation": 4}}}},
{{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 20, "dur": 9.5,
 "args": {{"External id": 7, "correlation": 1, "memory bandwidth (GB/s)": Infinity}}}},
{{"ph": "X", "cat": "kernel", "name": "splitKreduce_kernel", "pid": 0, "tid": 7, "ts": 30,
 "dur": 0.5, "args": {{"External id": 7, "correlation": 2}}}},
{{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "pid": 0,
 "tid": 20, "ts": 40, "dur": {}, "args": {{"External id": 9, "Collective name": "allreduce",
 "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": 2, "dtype": "BFloat16",
 "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}}}},
{{"ph": "M", "name": "process_name", "pid": "Spans", "args": {{"name": "x"}}}}
]}})json",
                     all_reduce_us);
}

}  // namespace

TEST_CASE("a product gets the time of all its kernels", "[kineto]") {
  const KinetoResult result = parse_kineto({{"0.json", trace(80)}});
  REQUIRE(result.machine.kernels.size() == 1);
  const MeasuredKernel& point = result.machine.kernels[0];
  CHECK(point.kernel.kind == OpKind::gemm);
  CHECK(point.kernel.dtype == DType::bf16);
  CHECK(point.kernel.m == 64);
  CHECK(point.kernel.n == 128);
  CHECK(point.kernel.k == 32);
  CHECK(point.kernel.bytes == Bytes{(64 * 32 + 32 * 128 + 64 * 128) * 2});
  CHECK(point.time == 10us);
  CHECK(point.load == Load::step);
  CHECK(result.machine.device == "NVIDIA X100");
  CHECK(result.machine.sms == 100);
  CHECK(result.machine.versions == std::vector<std::string>{"CUDA 13.0"});
}

TEST_CASE("launches give the host's time, and a synchronisation ends a run of them", "[kineto]") {
  // 11 -> 16 us; the launch behind the synchronisation follows no launch.
  CHECK(parse_kineto({{"0.json", trace(80)}}).machine.host_issue == Duration{5us});
}

TEST_CASE("a collective counts the rank that waited least", "[kineto]") {
  const KinetoResult both =
      parse_kineto({{"0.json", trace(80)}, {"1.json", trace(30)}}, {.gpus_per_node = 8});
  REQUIRE(both.machine.collectives.size() == 1);
  const MeasuredCollective& point = both.machine.collectives[0];
  CHECK(point.collective == "all_reduce");
  CHECK(point.bytes == Bytes{2000});
  CHECK(point.ranks == 2);
  CHECK(point.nodes == 1);
  CHECK(point.time == 30us);
  CHECK(both.notes.size() == 1);  // of host_issue
  // One rank per node: two nodes.
  CHECK(parse_kineto({{"0.json", trace(80)}}, {.gpus_per_node = 1}).machine.collectives[0].nodes ==
        2);
  const KinetoResult alone = parse_kineto({{"0.json", trace(80)}}, {.gpus_per_node = 8});
  CHECK(alone.notes[0] ==
        "fewer traces than ranks: the times of collectives hold waiting for other ranks");
  const KinetoResult unknown = parse_kineto({{"0.json", trace(80)}});
  CHECK(unknown.machine.collectives.empty());
}

TEST_CASE("what is no trace is refused", "[kineto]") {
  CHECK_THROWS_WITH(
      parse_kineto({{"a.json", "{\"nodes\": []}"}}),
      "a.json:1:11: error: no \"traceEvents\": this is no trace of the PyTorch profiler");
  CHECK_THROWS_WITH(parse_kineto({{"a.json", "[{\"ph\": \"X\", ]"}}),
                    "a.json:1:14: error: expected a key in double quotes");
  CHECK_THROWS_WITH(parse_kineto({{"a.json", "[]"}}),
                    "PyTorch trace a.json: error: nothing to measure: no kernels with shapes, no "
                    "collectives, no launches");
}
