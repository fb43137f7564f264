// What jobs of Megatron-LM hold beside the tensors of their model, by the device that they run on.
#include "tests/catch.hpp"
#include "tests/unit/interop/imports.hpp"

using namespace sim;

namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

Imported on(Generation generation, const std::string& more, Bytes workspaces = {}) {
  return import_megatron(parse_flags(test::decoder(more), "a.sh"),
                         {.gpus = 8, .generation = generation, .workspaces = workspaces});
}

bool copies_output(Generation generation, const std::string& more) {
  return on(generation, more).framework.execution.copies_flash_output;
}

std::int64_t workspaces(Generation generation, const std::string& more, Bytes usual = {}) {
  return on(generation, more, usual).framework.execution.workspaces.count();
}

}  // namespace

TEST_CASE("without a device nothing is said of what libraries hold", "[interop]") {
  const Execution& runs = test::from_flags(test::decoder("")).framework.execution;
  CHECK(runs.gradient_placeholders == Placeholders::temporary);
  CHECK(runs.workspaces == Bytes{});
}

TEST_CASE("placeholders of gradients follow the fusion of their products", "[interop]") {
  const auto placeholders = [](const std::string& more) {
    return on(Generation::hopper, more).framework.execution.gradient_placeholders;
  };
  CHECK(placeholders("") == Placeholders::all_kept);
  CHECK(placeholders("--no-gradient-accumulation-fusion") == Placeholders::none);
}

TEST_CASE("the output of FlashAttention is copied where Transformer Engine takes it", "[interop]") {
  CHECK(copies_output(Generation::ampere, ""));
  CHECK_FALSE(copies_output(Generation::hopper, ""));
  CHECK(copies_output(Generation::hopper, "--attention-backend flash"));
  CHECK_FALSE(copies_output(Generation::ampere, "--attention-backend fused"));
  CHECK_FALSE(copies_output(Generation::ampere, "--context-parallel-size 2"));
  const std::string drops = "--deterministic-mode --attention-backend auto";
  CHECK_FALSE(copies_output(Generation::blackwell, drops));  // the decoder has no dropout
}

TEST_CASE("workspaces follow device, experts and deterministic mode", "[interop]") {
  CHECK(workspaces(Generation::ampere, "") == 4 * mebibyte);
  CHECK(workspaces(Generation::hopper, "") == 32 * mebibyte + 1024);
  CHECK(workspaces(Generation::hopper, "--transformer-impl local") == 0);
  const std::string experts =
      "--num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 2 --disable-bias-linear ";
  CHECK(workspaces(Generation::ampere, experts) == 4 * mebibyte);
  CHECK(workspaces(Generation::ampere, experts + "--moe-grouped-gemm") == 20 * mebibyte);
  CHECK(workspaces(Generation::ampere, "--deterministic-mode", Bytes{16 * mebibyte}) ==
        (4 + 64 - 16) * mebibyte);
}

TEST_CASE("attention of the local implementation keeps scores", "[interop]") {
  const auto kernel = [](const std::string& more) {
    return test::from_flags(test::decoder(more)).layout.attention;
  };
  CHECK(kernel("--transformer-impl local") == AttentionKernel::unfused);
  CHECK(kernel("--transformer-impl transformer_engine") == AttentionKernel::flash);
}

TEST_CASE("a vocabulary is padded to what Megatron-LM divides it by", "[interop]") {
  const Imported job =
      test::from_flags(test::decoder("--make-vocab-size-divisible-by 3232 "
                                     "--tensor-model-parallel-size 2"));
  CHECK(job.shape.vocabulary == 8 * 6464);
}

TEST_CASE("the last batch of a schedule of batches is forecast", "[interop]") {
  const Imported job =
      test::from_flags(test::decoder("--step-batch-size-schedule '0:384 200B:768'"));
  CHECK(job.layout.global_batch == 768);
  CHECK(test::notes(job, "--step-batch-size-schedule"));
  CHECK_FALSE(test::flag_problems(test::decoder("--step-batch-size-schedule 0:many")).empty());
}
