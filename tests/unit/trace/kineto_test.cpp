// One trace of the PyTorch profiler: what is kept, and how it is linked.
#include "sim/base/input_error.hpp"
#include "sim/config/byte_source.hpp"
#include "sim/trace/read_trace.hpp"
#include "tests/catch.hpp"
#include "tests/unit/trace/kineto_events.hpp"

using namespace sim;
using namespace sim::test;
using namespace std::chrono_literals;

namespace {

TracedRun read(const std::string& text) {
  return read_trace(*open_text(text, "a.json"));
}
std::string problem_of(const std::string& text) {
  try {
    read(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}
bool has_note(const TracedRun& run, const std::string& part) {
  for (const std::string& note : run.notes)
    if (note.find(part) != std::string::npos) return true;
  return false;
}
const std::string& name_of(const TracedRun& run, std::int32_t host) {
  return run.names[run.ranks[0].host[static_cast<std::size_t>(host)].name];
}

const std::string product_op = host_event("cpu_op", "aten::mm", 9, 4,
                                          R"("External id":3,"Input Dims":[[64,32],[32,128]],)"
                                          R"("Input type":["c10::BFloat16","c10::BFloat16"])");

}  // namespace

TEST_CASE("a kernel finds its launch, its operator and its product", "[trace]") {
  const TracedRun run =
      read(trace_of(device_event("nvjet_tst", 20, 5.5, R"("correlation":1,"External id":3)") +
                    launch(1, 10) + product_op));
  REQUIRE(run.ranks.size() == 1);
  const RunRank& rank = run.ranks[0];
  REQUIRE(rank.device.size() == 1);
  const DeviceActivity& kernel = rank.device[0];
  CHECK(kernel.begin == TimePoint{11us});  // from the operator's begin
  CHECK(kernel.time() == Duration{5'500'000});
  CHECK(kernel.stream == 7);
  CHECK(kernel.kind == OpKind::gemm);
  CHECK(name_of(run, kernel.launch) == "cudaLaunchKernel");
  CHECK(name_of(run, kernel.issuer) == "aten::mm");
  REQUIRE(kernel.product != not_told);
  CHECK(rank.products[0] == Product{64, 128, 32, 1});
  CHECK(rank.works[static_cast<std::size_t>(kernel.work)].dtype == DType::bf16);
  CHECK(run.maker == "PyTorch profiler");
  CHECK(run.names[0].empty());
}

TEST_CASE("without External id the operator is the innermost one around the launch", "[trace]") {
  const TracedRun run = read(trace_of(
      host_event("cpu_op", "aten::linear", 8, 10, R"("External id":2)") + product_op +
      launch(1, 10) + launch(2, 14) + device_event("nvjet_tst", 20, 5, R"("correlation":1)") +
      device_event("k", 30, 5, R"("correlation":2)")));
  const RunRank& rank = run.ranks[0];
  CHECK(name_of(run, rank.device[0].issuer) == "aten::mm");
  CHECK(rank.device[0].product != not_told);
  CHECK(name_of(run, rank.device[1].issuer) == "aten::linear");
  CHECK(rank.device[1].product == not_told);
}

TEST_CASE("arrows tell the launch where there is no correlation", "[trace]") {
  const auto arrow = [](const char* phase, int id, int process, int thread, double at) {
    return fmt::format(
        R"({{"ph":"{}","id":{},"pid":{},"tid":{},"ts":{},"cat":"ac2g","name":"ac2g"}},)", phase, id,
        process, thread, at);
  };
  const TracedRun run = read(trace_of(
      host_event("cuda_runtime", "cudaLaunchKernel", 10, 1) +
      host_event("cuda_runtime", "cudaMemcpyAsync", 12, 1) + device_event("k", 20, 5, R"("x":0)") +
      device_event("c", 30, 5, R"("x":0)") + arrow("s", 5, 9, 1, 10) + arrow("f", 5, 0, 7, 20) +
      arrow("s", 6, 9, 1, 12) + arrow("f", 6, 0, 7, 30)));
  const RunRank& rank = run.ranks[0];
  CHECK(name_of(run, rank.device[0].launch) == "cudaLaunchKernel");
  CHECK(name_of(run, rank.device[1].launch) == "cudaMemcpyAsync");
}

TEST_CASE("steps, marks, calls of HIP and collections of garbage; Python is left out", "[trace]") {
  const TracedRun run = read(trace_of(host_event("user_annotation", "ProfilerStep#8", 100, 100) +
                                      host_event("user_annotation", "ProfilerStep#7", 0, 100) +
                                      host_event("user_annotation", "forward", 1, 20) +
                                      host_event("python_function", "model.py(3): forward", 1, 20) +
                                      host_event("python_function", "gc.collect", 40, 20) +
                                      host_event("cuda_sync", "Stream Sync", 41, 2) +
                                      launch(1, 3, "hipLaunchKernel") +
                                      device_event("Cijk_A", 5, 5, R"("correlation":1)")));
  const RunRank& rank = run.ranks[0];
  REQUIRE(rank.steps.size() == 2);
  CHECK(rank.steps[0].name == "ProfilerStep#7");
  CHECK(rank.steps[1].begin == TimePoint{100us});
  CHECK(run.device.hip);
  REQUIRE(rank.host.size() == 5);
  CHECK(rank.host[3].what == HostSpan::What::garbage);
  CHECK(rank.host[1].what == HostSpan::What::mark);
  CHECK(has_note(run, "1 Python functions were left out"));
  CHECK(has_note(run, "1 cuda_sync"));
}

TEST_CASE("a collective by its metadata, by its operator's, and by its name", "[trace]") {
  const std::string comms =
      host_event("cpu_op", "record_param_comms", 2, 1,
                 R"("External id":4,"Collective name":"_allgather_base","In msg nelems":10,)"
                 R"("Out msg nelems":20,"Group size":2,"dtype":"Float","Process Group Name":"1",)"
                 R"("Process Group Description":"tp","Process Group Ranks":"[1, 0]")");
  const TracedRun run = read(
      trace_of(comms + all_reduce(1, 10, 5) +
               device_event("ncclDevKernel_Generic", 20, 5, R"("External id":4)", 20) +
               device_event("ncclDevKernel_ReduceScatter_Sum", 30, 5, R"("correlation":3)", 20) +
               device_event("ncclDevKernel_SendRecv", 40, 5, R"("correlation":4)", 20) +
               device_event("void deep_ep::intranode::combine", 50, 5, R"("correlation":5)", 20)));
  const RunRank& rank = run.ranks[0];
  REQUIRE(rank.calls.size() == 5);
  CHECK(rank.calls[0].kind == CollectiveKind::all_reduce);
  CHECK(rank.calls[0].bytes == Bytes{2000});
  CHECK(rank.calls[1].kind == CollectiveKind::all_gather);
  CHECK(rank.calls[1].bytes == Bytes{80});
  REQUIRE(rank.calls[1].group != not_told);
  const TracedGroup& group = run.groups[static_cast<std::size_t>(rank.calls[1].group)];
  CHECK(group.description == "tp");
  CHECK(group.ranks == std::vector<RankId>{{0}, {1}});
  CHECK(rank.calls[2].kind == CollectiveKind::reduce_scatter);
  CHECK(rank.calls[2].bytes == Bytes{0});
  CHECK(rank.calls[2].group == not_told);
  CHECK(rank.device[3].kind == OpKind::send);
  CHECK(rank.device[4].kind == OpKind::collective);
  CHECK_FALSE(rank.calls[4].kind.has_value());
  for (std::int32_t i = 0; i < 5; ++i)
    CHECK(rank.device[static_cast<std::size_t>(i)].call == i);
}

TEST_CASE("the head of a trace: device, versions, groups in full", "[trace]") {
  const TracedRun run = read(trace_of(
      all_reduce(1, 10, 5),
      R"("deviceProperties":[{"name":"X100","totalGlobalMem":1000,"computeMajor":9,"warpSize":32,)"
      R"("numSms":10},{"name":"Y"}],"cuda_runtime_version":12080,"distributedInfo":{"rank":3,)"
      R"("world_size":4,"nccl_version":"2.28.9","pg_config":[{"pg_name":"0","pg_desc":"default_pg",)"
      R"("pg_size":2,"ranks":[0,1]},{"pg_name":"5","pg_desc":"pp","pg_size":2,"ranks":[2,3]}]},)"));
  CHECK(run.device.name == "X100");
  CHECK(run.device.memory == Bytes{1000});
  CHECK(run.device.multiprocessors == 10);
  CHECK(run.world_size == 4);
  CHECK(run.ranks[0].rank == RankId{3});
  CHECK(run.ranks[0].rank_told);
  CHECK(run.versions == std::vector<std::string>{"CUDA 12.8", "NCCL 2.28.9"});
  REQUIRE(run.groups.size() == 2);
  CHECK(run.groups[0].description == "default_pg");
  CHECK(run.groups[1].name == "5");
}

TEST_CASE("a message that names a group of one is of the communicator", "[trace]") {
  const TracedRun run = read(
      trace_of(all_reduce(1, 10, 5) +
                   device_event("ncclDevKernel_SendRecv", 20, 5,
                                R"("correlation":2,"Collective name":"send","In msg nelems":8,)"
                                R"("Group size":1,"dtype":"Float","Process Group Name":"0",)"
                                R"("Process Group Description":"default_pg")"),
               R"("distributedInfo":{"rank":0,"world_size":2,"pg_config":[{"pg_name":"0",)"
               R"("pg_desc":"default_pg","pg_size":2,"ranks":[0,1]}]},)"));
  REQUIRE(run.groups.size() == 1);
  CHECK(run.groups[0].size == 2);
  CHECK(run.ranks[0].calls[0].group == run.ranks[0].calls[1].group);
  CHECK(run.ranks[0].device[1].kind == OpKind::send);
}

TEST_CASE("absolute times and times out of order are exact", "[trace]") {
  const TracedRun run = read(
      R"([{"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":1790857026123456.789,"dur":1.001},)"
      R"({"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":1790857026123455.788,"dur":1}])");
  const RunRank& rank = run.ranks[0];
  REQUIRE(rank.device.size() == 2);
  CHECK(run.names[rank.device[0].name] == "a");
  CHECK(rank.device[0].begin == TimePoint{});
  CHECK(rank.device[1].begin == TimePoint{Duration{1'001'000}});
  CHECK(rank.device[1].time() == Duration{1'001'000});
}

TEST_CASE("what is odd is said: clocks, negative durations, spans far away", "[trace]") {
  const TracedRun run =
      read(trace_of(launch(1, 10) + device_event("k", 4, 2, R"("correlation":1)") +
                    host_event("cpu_op", "a", 5, -3) + host_event("cpu_op", "b", 5e14, 3) +
                    device_event("m", 5, 1, R"("correlation":9)", 7, "gpu_memcpy")));
  CHECK(has_note(run,
                 "1 kernels and copies begin before the call that launched them, by up to 6 us"));
  CHECK(has_note(run, "1 spans of the host end before they begin"));
  CHECK(has_note(run, "1 spans of the host are more than 46 days"));
  CHECK(has_note(run, "1 of 2 kernels and copies have no call"));
  CHECK(problem_of(trace_of(device_event("k", 4, -2, R"("correlation":1)")))
            .find("'k' takes -2 us") != std::string::npos);
  CHECK(problem_of(R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":NaN}]})")
            .find("dur is no number; expected microseconds") != std::string::npos);
}

TEST_CASE("a trace that is cut off says how far it was read", "[trace]") {
  std::string text = trace_of(all_reduce(1, 10, 5));
  text.resize(100);
  CHECK(problem_of(text) ==
        "a.json:1:101: error: not valid JSON: the file ends where the end of a string is "
        "expected, after 100 bytes");
}
