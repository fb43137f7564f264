// On a machine with a GPU: the CUDA backend trains what the host backend trains. Prints the largest
// relative difference of the losses of 5 steps, by format, with and without a captured graph; exits
// 1 beyond 1e-5 in fp32 and 1e-2 in bf16 (tests/unit/real_cuda/equivalence_test.cpp says why). As
// many ranks as there are GPUs, up to two: NCCL takes one rank of a process per GPU.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tests/unit/real_cuda/toy.hpp"

namespace fakes {
void set_behaviour(const Behaviour& /*behaviour*/) {}  // real GPUs behave as they do
}  // namespace fakes

namespace {

using namespace cuda_test;  // NOLINT(google-build-using-namespace)

struct Trial {
  const char* name;
  sim::DType dtype;
  bool graphs;
  double bound;
};

// The largest relative difference of a step's loss; infinity: it did not run.
double difference(const ToyRun& run) {
  ToyRun host = run;
  host.host = true;
  host.graphs = false;
  host.layout.compute_dtype = host.layout.activation_dtype = sim::DType::fp32;
  host.layout.gradient_dtype = host.layout.reduce_dtype = sim::DType::fp32;
  const ToyResult reference = run_toy(host);
  const ToyResult result = run_toy(run);
  double worst = 0;
  for (const std::string& failure : result.failures) {
    if (failure.empty()) continue;
    (void)std::fprintf(stderr, "%s\n", failure.c_str());
    return INFINITY;
  }
  for (std::size_t i = 0; i < result.loss.size(); ++i) {
    const double error = std::abs(result.loss[i] / reference.loss[i] - 1);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

}  // namespace

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    (void)std::printf("skipped: no GPU\n");
    return 0;
  }
  const Trial trials[] = {{"fp32", sim::DType::fp32, false, 1e-5},
                          {"fp32, graph", sim::DType::fp32, true, 1e-5},
                          {"bf16", sim::DType::bf16, false, 1e-2},
                          {"bf16, graph", sim::DType::bf16, true, 1e-2}};
  bool good = true;
  for (int ranks = 1; ranks <= std::min(gpus, 2); ++ranks) {
    for (const bool llama : {false, true}) {
      for (const Trial& trial : trials) {
        ToyRun run{.shape = llama ? llama_shape() : gpt_shape(), .layout = toy_layout(trial.dtype)};
        run.layout.data_parallel = ranks;
        run.steps = 5;
        run.graphs = trial.graphs;
        run.training.epsilon = 1e-5;
        const double worst = difference(run);
        good = good && worst <= trial.bound;
        (void)std::printf("%d rank(s), %s, %s: %.2e (at most %.0e)\n", ranks,
                          llama ? "llama" : "gpt", trial.name, worst, trial.bound);
      }
    }
  }
  return good ? 0 : 1;
}
