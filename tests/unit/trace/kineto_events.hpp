// Events of the PyTorch profiler in its format, made up.
#pragma once

#include <fmt/format.h>

#include <string>

namespace sim::test {

inline std::string host_event(const std::string& category, const std::string& name, double at,
                              double took, const std::string& arguments = "", int thread = 1) {
  return fmt::format(
      R"({{"ph":"X","cat":"{}","name":"{}","pid":9,"tid":{},"ts":{},"dur":{},"args":{{{}}}}},)",
      category, name, thread, at, took, arguments);
}

inline std::string launch(int correlation, double at,
                          const std::string& name = "cudaLaunchKernel") {
  return host_event("cuda_runtime", name, at, 1, fmt::format(R"("correlation":{})", correlation));
}

inline std::string device_event(const std::string& name, double at, double took,
                                const std::string& arguments, int stream = 7,
                                const std::string& category = "kernel") {
  return fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":0,"tid":{},"ts":{},"dur":{},)"
                     R"("args":{{"device":0,"stream":{},{}}}}},)",
                     category, name, stream, at, took, stream, arguments);
}

// `head`: entries before the events, each with a comma behind it.
inline std::string trace_of(const std::string& events, const std::string& head = "") {
  return "{" + head + R"("traceEvents":[)" + events + R"({"ph":"M","name":"x"}]})";
}

inline std::string all_reduce(int correlation, double at, double took) {
  return device_event(
      "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", at, took,
      fmt::format(R"("correlation":{},"Collective name":"allreduce","In msg nelems":1000,)"
                  R"("Out msg nelems":1000,"Group size":2,"dtype":"BFloat16",)"
                  R"("Process Group Name":"0","Process Group Ranks":"[0, 1]")",
                  correlation),
      20);
}

}  // namespace sim::test
