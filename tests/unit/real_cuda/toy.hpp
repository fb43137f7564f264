// A toy model trained for a few steps on any layout by the CUDA backend, on the fakes of CUDA;
// ranks are threads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "real/cuda/cuda_backend.hpp"
#include "sim/framework/framework.hpp"
#include "sim/model/transformer.hpp"
#include "sim/plan/plan.hpp"
#include "tests/gpu/fakes/behaviour.hpp"

namespace cuda_test {

struct ToyRun {
  sim::TransformerShape shape{};
  sim::Layout layout{};
  sim::Framework framework{};
  sim::Training training{};
  real::Algorithms algorithms{};
  sim::EightBit eight_bit = sim::EightBit::transformer_engine;
  int steps = 3;
  bool shares_key_heads = false;
  bool host = false;  // by the host backend instead
  bool graphs = false;
  bool record = false;
  int quits = -1;  // a rank that throws "quit" instead of running this step
  int hangs = -1;  // a rank that stops for good before this step until others give up
  int leaves_before = 1;
  std::string poison{};  // a parameter that begins with a number that is not finite
  fakes::Behaviour behaviour{};
  std::chrono::milliseconds timeout{60'000};
  std::chrono::milliseconds connect_timeout{60'000};
};

struct ToyResult {
  sim::Plan plan;
  std::vector<double> loss;                           // per step: the mean over all replicas
  std::vector<double> norm;                           // per step, of rank 0
  std::vector<std::vector<sim::Span>> spans;          // of the last step, by rank
  std::vector<std::int64_t> not_finite;               // of the last step, by rank
  std::map<std::string, std::vector<float>> weights;  // by name, whole; masters where there are any
  std::vector<std::string> failures;                  // by rank; empty: none
};

sim::TransformerShape gpt_shape();    // LayerNorm, biases, learned positions, GELU
sim::TransformerShape llama_shape();  // RMSNorm, rotary, SwiGLU, grouped queries
sim::Layout toy_layout(sim::DType dtype = sim::DType::fp32);
ToyResult run_toy(const ToyRun& run);

}  // namespace cuda_test
