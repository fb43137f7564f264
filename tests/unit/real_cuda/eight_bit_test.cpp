// Products in 8 bits by the CUDA backend on the fakes: codes, scales and their order are the
// host's.
#include <cmath>

#include "tests/catch.hpp"
#include "tests/unit/real_cuda/cases.hpp"

using namespace cuda_test;  // NOLINT(google-build-using-namespace)

namespace {

// Tokens of a micro-batch: 16, as tensor cores want them.
const std::vector<Case>& coded_cases() {
  static const std::vector<Case> all{
      {"micro-batches", [](ToyRun&) {}},
      {"data parallel, ZeRO-3",
       [](ToyRun& r) { r.layout.data_parallel = 2, r.layout.zero_stage = 3; }},
      {"tensor parallel", [](ToyRun& r) { r.layout.tensor_parallel = 2; }},
      {"ZB-H1, recomputed",
       [](ToyRun& r) {
         r.layout.pipeline_parallel = 2;
         r.layout.schedule = sim::Schedule::zb_h1;
         r.layout.recompute = sim::Recompute::full;
       }},
  };
  return all;
}

ToyRun coded_run(bool llama, sim::EightBit software) {
  ToyRun run = base(llama);
  run.layout.compute_dtype = sim::DType::fp8;
  run.eight_bit = software;
  return run;
}

}  // namespace

// A sum in another order moves a number by 1e-7, which is another code now and then: a step of 2^-3
// (E4M3) or 2^-2 (E5M2) in one of many terms.
TEST_CASE("in 8 bits the CUDA backend trains what the host trains", "[real_cuda][eight_bit]") {
  const auto software =
      GENERATE(sim::EightBit::transformer_engine, sim::EightBit::transformer_engine_tensorwise,
               sim::EightBit::torchao);
  const bool llama = GENERATE(false, true);
  for (const Case& one : coded_cases()) {
    CAPTURE(one.name, sim::word(software), llama);
    ToyRun run = coded_run(llama, software);
    one.change(run);
    run.graphs = llama && run.layout.tensor_parallel == 1;
    run.behaviour.seed = 3;
    check_equal(run_toy(run), reference_of(run), 1e-3);
  }
}

// E4M3 rounds by 2^-4 at most, E5M2 by 2^-3; sums of 16 terms and more average that out.
TEST_CASE("in 8 bits from bf16 losses follow the fp32 run within three percent",
          "[real_cuda][eight_bit]") {
  const bool llama = GENERATE(false, true);
  ToyRun run = base(llama);
  const ToyResult reference = reference_of(run);
  run.layout.compute_dtype = sim::DType::fp8;
  run.layout.activation_dtype = run.layout.reduce_dtype = sim::DType::bf16;
  run.eight_bit = sim::EightBit::transformer_engine_tensorwise;
  const ToyResult result = run_toy(run);
  require_success(result);
  for (std::size_t i = 0; i < result.loss.size(); ++i)
    CHECK(std::abs(result.loss[i] / reference.loss[i] - 1) < 0.03);
}

// A context rank takes the loss over its own tokens, so its gradients and their scales are others
// than those of one rank.
TEST_CASE("context ranks train in 8 bits what follows fp32 within three percent",
          "[real_cuda][eight_bit]") {
  ToyRun run = base(true);
  run.layout.micro_batch = 4;
  const ToyResult reference = reference_of(run);
  run.layout.context_parallel = 2;
  run.layout.compute_dtype = sim::DType::fp8;
  run.eight_bit = sim::EightBit::transformer_engine;
  const ToyResult result = run_toy(run);
  require_success(result);
  for (std::size_t i = 0; i < result.loss.size(); ++i)
    CHECK(std::abs(result.loss[i] / reference.loss[i] - 1) < 0.03);
}
