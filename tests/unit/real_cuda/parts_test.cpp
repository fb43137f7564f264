// Communicators, matrix products and refusals.
#include <algorithm>
#include <map>
#include <set>

#include "real/cuda/cuda_backend.hpp"
#include "real/cuda/device.hpp"
#include "real/cuda/gemm/gemm.hpp"
#include "real/cuda/nccl/communicators.hpp"
#include "tests/catch.hpp"
#include "tests/gpu/fakes/fake_device.hpp"
#include "tests/unit/real_cuda/toy.hpp"

using namespace cuda_test;  // NOLINT(google-build-using-namespace)

namespace {

struct World {
  sim::Model model;
  sim::Plan plan;
};

World world_of(const sim::Layout& layout) {
  World world{sim::build_transformer(gpt_shape()), {}};
  world.plan = sim::make_plan(world.model, layout);
  return world;
}

sim::Layout mixed_layout() {
  sim::Layout layout = toy_layout();
  layout.tensor_parallel = 2;
  layout.pipeline_parallel = 2;
  layout.data_parallel = 2;
  return layout;
}

}  // namespace

TEST_CASE("the facts of CUDA are those of its libraries and of the driver", "[real_cuda]") {
  const real::CudaFacts facts = real::cuda_facts();
  CHECK(facts.not_built.empty());
  CHECK(facts.toolkit == "13.0");
  CHECK(facts.driver == "13.0");
  REQUIRE(!facts.gpus.empty());
  CHECK(facts.gpus.at(0).name == "played by the CPU");
  CHECK(real::cuda_summary().find("GPU 0: played by the CPU") != std::string::npos);
}

TEST_CASE("members of a communicator agree on it and on the order of making them", "[real_cuda]") {
  const bool hierarchical = GENERATE(false, true);
  const World world = world_of(mixed_layout());
  real::Algorithms algorithms;
  algorithms.ranks_per_node = 4;
  if (hierarchical) algorithms.of_role.fill(real::AlgorithmChoice::hierarchical);
  REQUIRE(real::algorithm_problems(world.plan, algorithms).empty());
  using Order = std::array<std::uint64_t, 3>;
  std::map<Order, std::vector<int>> members;
  std::map<Order, std::set<int>> makers;
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    const auto bound = real::bind(world.plan, world.model, sim::RankId{rank});
    const auto list = real::communicators_of(bound, algorithms);
    CHECK(std::is_sorted(list.begin(), list.end(),
                         [](const auto& a, const auto& b) { return a.order < b.order; }));
    std::set<std::pair<sim::Stream, Order>> seen;
    for (const auto& communicator : list) {
      CHECK(communicator.members[static_cast<std::size_t>(communicator.position)] ==
            static_cast<int>(rank));
      const auto [at, added] = members.emplace(communicator.order, communicator.members);
      CHECK(at->second == communicator.members);
      CHECK(makers[communicator.order].insert(static_cast<int>(rank)).second);
    }
  }
  for (const auto& [order, ranks] : members)
    CHECK(makers[order].size() == ranks.size());
}

TEST_CASE("what NCCL cannot do is refused by name", "[real_cuda]") {
  sim::Layout layout = mixed_layout();
  layout.attention = sim::AttentionKernel::unfused;
  layout.activation_dtype = sim::DType::fp16;
  const World world = world_of(layout);
  real::Algorithms algorithms;
  algorithms.of_role[static_cast<std::size_t>(sim::GroupRole::data)] =
      real::AlgorithmChoice::halving_doubling;
  const auto problems = real::cuda_problems(world.plan, world.model, algorithms);
  CHECK(problems ==
        std::vector<std::string>{
            "layout.activation_dtype: the CUDA backend computes in bf16 or fp32, not fp16",
            "layout.compute_dtype: the CUDA backend multiplies tensors in the format that they "
            "have, which is fp16 (activation_dtype), not fp32",
            "attention: the CUDA backend has fused attention only (layout.attention: flash or "
            "flash-2)",
            "data collectives: NCCL has no halving-doubling algorithm; allowed: ring, tree, "
            "hierarchical, auto"});
}

TEST_CASE("row-major products come out of a column-major library", "[real_cuda]") {
  const auto pass = GENERATE(real::GemmPass::forward, real::GemmPass::input_gradient,
                             real::GemmPass::weight_gradient);
  const bool accumulate = GENERATE(false, true);
  const std::int64_t tokens = 3;
  const std::int64_t in = 5;
  const std::int64_t out = 4;
  const real::GemmShape shape{.pass = pass,
                              .dtype = sim::DType::fp32,
                              .output = sim::DType::fp32,
                              .tokens = tokens,
                              .in = in,
                              .out = out,
                              .accumulate = accumulate};
  const auto numbers = [](std::int64_t count, int factor) {
    std::vector<float> values;
    values.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i)
      values.push_back(static_cast<float>(i * factor % 11 - 5));
    return values;
  };
  const auto x = numbers(tokens * in, 3);
  const auto w = numbers(out * in, 7);
  const auto dy = numbers(tokens * out, 5);
  const auto at = [](const std::vector<float>& m, std::int64_t columns, std::int64_t r,
                     std::int64_t c) { return m[static_cast<std::size_t>(r * columns + c)]; };
  std::vector<float> expected;
  const auto fill = [&](std::int64_t rows, std::int64_t columns, std::int64_t depth, auto term) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        float sum = accumulate ? 1.0F : 0.0F;
        for (std::int64_t k = 0; k < depth; ++k)
          sum += term(r, c, k);
        expected.push_back(sum);
      }
    }
  };
  real::GemmOperands operands{.first = dy.data(), .second = w.data()};
  if (pass == real::GemmPass::forward) {
    fill(tokens, out, in,
         [&](auto r, auto c, auto k) { return at(x, in, r, k) * at(w, in, c, k); });
    operands.first = x.data();
  } else if (pass == real::GemmPass::input_gradient) {
    fill(tokens, in, out,
         [&](auto r, auto c, auto k) { return at(dy, out, r, k) * at(w, in, k, c); });
  } else {
    fill(out, in, tokens,
         [&](auto r, auto c, auto k) { return at(dy, out, k, r) * at(x, in, k, c); });
    operands.second = x.data();
  }
  REQUIRE(cudaSetDevice(31) == cudaSuccess);
  const real::DeviceMemory workspace{real::gemm_workspace, "a test"};
  const real::DeviceStream stream{real::DeviceStream::Priority::normal};
  real::Gemms gemms{workspace.at(0)};
  std::vector<float> result(expected.size());
  operands.result = result.data();
  const auto& plan = gemms.prepare(shape, operands, stream.get());
  std::fill(result.begin(), result.end(), 1.0F);
  gemms.run(plan, operands, stream.get());
  REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  CHECK(result == expected);  // small whole numbers: exact
}
