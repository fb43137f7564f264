// Traces of the PyTorch profiler as timelines: every kernel of the step, of each rank.
#include "sim/calibration/read_traces.hpp"

#include <fmt/format.h>

#include "sim/base/input_error.hpp"
#include "sim/trace/kernel_words.hpp"
#include "tests/catch.hpp"

using namespace sim;
using namespace std::chrono_literals;

namespace {

std::string launch(int correlation, double at) {
  return fmt::format(
      R"({{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
          "ts": {}, "dur": 1, "args": {{"correlation": {}}}}},)",
      at, correlation);
}
std::string kernel(const std::string& name, int correlation, double at, double took, int stream,
                   const std::string& more = "", const std::string& category = "kernel") {
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 0, "tid": {}, "ts": {}, "dur": {},
          "args": {{"correlation": {}, "stream": {}{}}}}},)",
      category, name, stream, at, took, correlation, stream, more);
}

// Two steps: one product in the first; a norm, a copy and an all-reduce beside it in the second.
// The second step's kernels begin when its annotation is over.
std::string trace(int rank) {
  return fmt::format(R"({{"distributedInfo": {{"backend": "nccl", "rank": {}}}, "traceEvents": [)",
                     rank) +
         R"({"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#4", "pid": 1, "tid": 1,
             "ts": 0, "dur": 100},
            {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#5", "pid": 1, "tid": 1,
             "ts": 100, "dur": 100},
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 9,
             "dur": 3, "args": {"External id": 3, "Input Dims": [[64, 32], [32, 128]],
             "Input type": ["c10::BFloat16", "c10::BFloat16"]}},)" +
         launch(1, 10) + launch(2, 110) + launch(3, 120) + launch(4, 130) +
         kernel("nvjet_x", 1, 20, 5, 7, R"(, "External id": 3)") +
         kernel("layer_norm_kernel", 2, 300, 4, 7) +
         kernel("Memcpy DtoD", 3, 304, 2, 7, "", "gpu_memcpy") +
         kernel("ncclDevKernel_AllReduce", 4, 302, 10, 20,
                R"(, "Collective name": "allreduce", "In msg nelems": 1000,
                   "Out msg nelems": 1000, "dtype": "BFloat16")") +
         R"({"ph": "M", "name": "x"}]})";
}

template <class Call>
std::string problem_of(const Call& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.problems().front().what;
  }
  return {};
}

}  // namespace

TEST_CASE("the last step with kernels, by who launched them; copies too; from its first kernel",
          "[kineto]") {
  const TracedTimeline timeline = parse_traces({{"1.json", trace(1)}, {"0.json", trace(0)}});
  CHECK(timeline.step == "ProfilerStep#5");
  REQUIRE(timeline.ranks.size() == 2);
  CHECK(timeline.ranks[0].rank.value == 0);
  CHECK(timeline.ranks[1].rank.value == 1);
  const std::vector<TracedKernel>& kernels = timeline.ranks[0].kernels;
  REQUIRE(kernels.size() == 3);
  CHECK(kernels[0].kind == OpKind::norm);
  CHECK(kernels[0].begin == TimePoint{});
  CHECK(kernels[1].kind == OpKind::collective);
  CHECK(kernels[1].collective == CollectiveKind::all_reduce);
  CHECK(kernels[1].bytes == Bytes{2000});
  CHECK(kernels[1].stream == 20);
  CHECK(kernels[1].begin == TimePoint{2us});
  CHECK(kernels[2].name == "Memcpy DtoD");
  CHECK(timeline.end == TimePoint{12us});
}

TEST_CASE("a step that is asked for, with the shapes of its products", "[kineto]") {
  const TracedTimeline timeline = parse_traces({{"0.json", trace(0)}}, 4);
  REQUIRE(timeline.ranks[0].kernels.size() == 1);
  const TracedKernel& product = timeline.ranks[0].kernels[0];
  CHECK(product.kind == OpKind::gemm);
  CHECK(product.m == 64);
  CHECK(product.n == 128);
  CHECK(product.k == 32);
  CHECK(product.issued_by == 3);
}

TEST_CASE("traces without kernels, without the step, or twice of a rank are refused", "[kineto]") {
  REQUIRE_THROWS_AS(parse_traces({{"0.json", R"({"traceEvents": []})"}}), InputError);
  CHECK(problem_of([] {
          parse_traces({{"0.json", trace(0)}}, 9);
        }) == "no kernels of step 9; marked are 4, 5");
  CHECK(problem_of([] {
          parse_traces({{"0.json", trace(0)}, {"1.json", trace(0)}});
        }) == "a second trace of rank 0");
}

TEST_CASE("a kernel's kind is read off its name", "[kineto]") {
  CHECK(kind_of_kernel("ncclDevKernel_AllReduce_Sum_bf16", "") == OpKind::collective);
  CHECK(kind_of_kernel("cudnn_generated_fort_native_sdpa_sm90_flash_bprop", "") ==
        OpKind::attention);
  CHECK(kind_of_kernel("void vectorized_layer_norm_kernel", "") == OpKind::norm);
  CHECK(kind_of_kernel("nvjet_sm90_tst_64x64", "aten::mm") == OpKind::gemm);
  CHECK(kind_of_kernel("multi_tensor_apply_kernel", "") == OpKind::optimizer);
  CHECK(kind_of_kernel("vectorized_elementwise_kernel", "aten::add") == OpKind::elementwise);
}

TEST_CASE("a trace that Stepcast wrote has every rank on one clock, and names its operators",
          "[kineto]") {
  const auto slice = [](int rank, int op, double at, double took, const std::string& more) {
    return fmt::format(
        R"({{"ph": "X", "cat": "forward", "name": "op{}", "args": {{"op": {}{}}}, "pid": {},
            "tid": 1, "ts": {}, "dur": {}}},)",
        op, op, more, rank, at, took);
  };
  const std::string text =
      R"({"otherData": {"engine": "simulation"}, "traceEvents": [)" +
      slice(3, 0, 2, 5, R"(, "m": 64, "n": 32, "k": 16, "batch": 1)") +
      slice(0, 0, 1, 4, R"(, "operation": "all_reduce", "bytes": 4096)") +
      slice(0, 1, 5, 1, R"(, "bytes": 100)") +
      R"({"ph": "X", "cat": "wait", "name": "wait", "pid": 0, "tid": 1, "ts": 0, "dur": 1}]})";
  const TracedTimeline timeline = parse_traces({{"a.json", text}});
  REQUIRE(timeline.ranks.size() == 2);
  CHECK(timeline.ranks[0].rank.value == 0);
  CHECK(timeline.ranks[1].rank.value == 3);
  REQUIRE(timeline.ranks[0].kernels.size() == 2);
  const TracedKernel& reduce = timeline.ranks[0].kernels[0];
  CHECK(reduce.collective == CollectiveKind::all_reduce);
  CHECK(reduce.bytes == Bytes{4096});
  CHECK(reduce.op == 0);
  CHECK(timeline.ranks[0].kernels[1].kind == OpKind::send);
  const TracedKernel& product = timeline.ranks[1].kernels[0];
  CHECK(product.kind == OpKind::gemm);
  CHECK(product.m == 64);
  CHECK(product.begin == TimePoint{1us});  // the first slice of all ranks is the begin
  CHECK(timeline.end == TimePoint{6us});
}

TEST_CASE("times that no kernel can have are refused, with their place", "[kineto]") {
  const auto refusal = [](const std::string& text) {
    return problem_of([&] { parse_traces({{"a.json", text}}); });
  };
  CHECK(refusal("[" + kernel("k", 1, 5, -2, 7) + "{}]") ==
        "'k' takes -2 us; expected 0 to 10000000000000");
  CHECK(refusal("[" + kernel("k", 1, 0, 1, 7) + kernel("k", 2, 9e17, 1, 7) + "{}]") ==
        "its kernels span 9e+11 s; at most 4e+06 s are read");
}
