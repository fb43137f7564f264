#include "real/cuda/gemm/gemm_tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <vector>

#include "real/cuda/device.hpp"

namespace real {
namespace {

constexpr int rounds = 5;
constexpr double measured_us = 300;  // of a sample: an event counts half microseconds
constexpr int most_repetitions = 20;
constexpr std::chrono::milliseconds warm_up{500};
constexpr double worth = 0.99;  // of the best so far, to be chosen before what comes first

using Run = std::function<void(const cublasLtMatmulAlgo_t&)>;

class Clock {
 public:
  explicit Clock(cudaStream_t stream) : stream_{stream} {}
  // Microseconds of one of `count` products.
  double microseconds(int count, const std::function<void()>& run) {
    check(cudaEventRecord(begin_.get(), stream_), "cudaEventRecord");
    for (int i = 0; i < count; ++i)
      run();
    check(cudaEventRecord(end_.get(), stream_), "cudaEventRecord");
    check(cudaEventSynchronize(end_.get()), "a product that is measured");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cudaEventElapsedTime");
    return 1e3 * static_cast<double>(milliseconds) / count;
  }

 private:
  cudaStream_t stream_;
  DeviceEvent begin_{DeviceEvent::Kind::timing}, end_{DeviceEvent::Kind::timing};
};

void warm(Clock& clock, const std::function<void()>& run) {
  static std::atomic<bool> warmed{false};
  if (warmed.exchange(true)) return;
  const auto until = std::chrono::steady_clock::now() + warm_up;
  while (std::chrono::steady_clock::now() < until)
    clock.microseconds(most_repetitions, run);
}

template <class Value>
int value_of(const cublasLtMatmulAlgo_t& algorithm,
             cublasLtMatmulAlgoConfigAttributes_t attribute) {
  Value value{};
  std::size_t written = 0;
  const cublasStatus_t asked =
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written);
  return asked == CUBLAS_STATUS_SUCCESS ? static_cast<int>(value) : -1;
}

}  // namespace

FastestAlgorithm fastest_of(std::span<const cublasLtMatmulAlgo_t> candidates, const Run& run,
                            cudaStream_t stream) {
  Clock clock{stream};
  const std::size_t count = candidates.size();
  for (const cublasLtMatmulAlgo_t& candidate : candidates)
    run(candidate);  // loads it
  const auto first = [&] { run(candidates.front()); };
  warm(clock, first);
  const double one = std::max(clock.microseconds(1, first), 1e-3);
  const int repetitions =
      static_cast<int>(std::clamp(std::ceil(measured_us / one), 1.0, double{most_repetitions}));
  std::vector<double> least(count, std::numeric_limits<double>::max());
  for (std::size_t i = 0; i < rounds * count; ++i) {
    const std::size_t at = (i + i / count) % count;  // a round begins one further
    least[at] = std::min(least[at], clock.microseconds(repetitions, [&] { run(candidates[at]); }));
  }
  FastestAlgorithm fastest{.index = 0, .microseconds = least[0]};
  for (std::size_t i = 1; i < count; ++i)
    if (least[i] < worth * fastest.microseconds) fastest = {i, least[i]};
  return fastest;
}

std::string description_of(const cublasLtMatmulAlgo_t& algorithm) {
  return fmt::format("algorithm {}, tile {}, stages {}, split-K {}",
                     value_of<std::int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_ID),
                     value_of<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID),
                     value_of<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                     value_of<std::int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
}

}  // namespace real
