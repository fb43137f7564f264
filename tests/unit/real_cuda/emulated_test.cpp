// The whole backend with the kernels that run on a GPU: their sources on the emulator, launched by
// the backend's sources on the fakes of CUDA, cuBLASLt and NCCL.
#include <cmath>
#include <stdexcept>
#include <string>

#include "tests/catch.hpp"
#include "tests/unit/real_cuda/cases.hpp"

using namespace cuda_test;  // NOLINT(google-build-using-namespace)

namespace {

struct Named {
  const char* name;
  bool llama;
};

ToyRun run_of(const Named& named) {
  ToyRun run = base(named.llama);
  run.steps = 2;
  run.behaviour.seed = 7;
  for (const Case& at : cases()) {
    if (std::string{named.name} != at.name) continue;
    at.change(run);
    return run;
  }
  throw std::logic_error(std::string{"no case "} + named.name);
}

}  // namespace

TEST_CASE("in fp32 the kernels of the GPU train what the host trains", "[real_cuda_emulated]") {
  const Named named = GENERATE(
      Named{"micro-batches and recomputation", true}, Named{"ZeRO-3", false},
      Named{"recomputation by operators", true},
      Named{"tensor parallel, recomputation by operators", false},
      Named{"tensor and sequence parallel", false}, Named{"tensor and sequence parallel", true},
      Named{"packed sequences, tensor and sequence parallel", true}, Named{"pipeline 1F1B", false},
      Named{"tied head over two stages", false}, Named{"mixture, ep 2 of dp 4, ZeRO-1", true},
      Named{"mixture, tp 2 ep 4 over tensor ranks", true},
      Named{"mixture, tp 2 ep 2 etp 2, recomputed", false},
      Named{"mixture of one expert per token, pp 2 ep 2", true},
      Named{"adapters, full recomputation, ZeRO-1", false},
      Named{"adapters of weights in NF4, pp 2", true},
      Named{"ring of 2, tensor and sequence parallel, ZeRO-1", false},
      Named{"all-to-all of 2, pp 2, attention again", true},
      Named{"torchtitan, FSDP2, tensor parallel, kept logits", true},
      Named{"dropout, tp 2 sp dp 2, recomputed", true}, Named{"dropout over a ring of 2", true},
      Named{"classifier of padded sentences, dropout, tp 2 ZeRO-1", false},
      Named{"latent attention, dp 2 ZeRO-1, recomputed", true},
      Named{"latent attention of compressed queries, LAMB, pp 2", false},
      Named{"windows over an all-to-all of 2", true});
  CAPTURE(named.name, named.llama);
  ToyRun run = run_of(named);
  run.graphs = named.llama;
  check_equal(run_toy(run), reference_of(run), 1e-5);
}

TEST_CASE("with moments in bf16 the kernels of the GPU train what the host trains",
          "[real_cuda_emulated]") {
  ToyRun run = run_of({"ZeRO-1", true});
  run.layout.moment_dtype = sim::DType::bf16;
  check_equal(run_toy(run), reference_of(run), 1e-5);
}

// The tolerance of equivalence_test.cpp, for its reason.
TEST_CASE("in bf16 the losses of the GPU's kernels follow the host's fp32 within one percent",
          "[real_cuda_emulated]") {
  const Named named = GENERATE(
      Named{"one rank", false}, Named{"ZeRO-3", true}, Named{"tensor and sequence parallel", false},
      Named{"mixture, tp 2 ep 2 etp 2, recomputed", true},
      Named{"ring of 2, tensor and sequence parallel, ZeRO-1", true},
      Named{"all-gather of 2, dp 2, ZeRO-3, packed sequences", false},
      Named{"shared key/value heads, sequence parallel", true},
      Named{"loss in place, gradients scaled before they are summed", false},
      Named{"adapters of weights in NF4, pp 2", false}, Named{"dropout over a ring of 2", false},
      Named{"classifier of padded sentences, dropout, tp 2 ZeRO-1", true},
      Named{"latent attention, dp 2 ZeRO-1, recomputed", false},
      Named{"latent attention of compressed queries, LAMB, pp 2", true},
      Named{"windows, tp 2 sp, attention again", true});
  CAPTURE(named.name, named.llama);
  ToyRun run = run_of(named);
  const ToyResult reference = reference_of(run);
  run.layout.compute_dtype = run.layout.activation_dtype = sim::DType::bf16;
  run.layout.gradient_dtype = run.layout.reduce_dtype = sim::DType::bf16;
  const ToyResult result = run_toy(run);
  require_success(result);
  for (std::size_t i = 0; i < result.loss.size(); ++i) {
    CHECK(std::abs(result.loss[i] / reference.loss[i] - 1) < 0.01);
    CHECK(std::abs(result.norm[i] / reference.norm[i] - 1) < 0.1);
  }
}

// The tolerance of eight_bit_test.cpp, for its reason.
TEST_CASE("in 8 bits the kernels of the GPU train what the host trains", "[real_cuda_emulated]") {
  const auto software =
      GENERATE(sim::EightBit::transformer_engine, sim::EightBit::transformer_engine_tensorwise);
  ToyRun run = base(true);
  run.steps = 2;
  run.eight_bit = software;
  run.layout.compute_dtype = sim::DType::fp8;
  run.layout.tensor_parallel = 2;
  check_equal(run_toy(run), reference_of(run), 1e-3);
}
