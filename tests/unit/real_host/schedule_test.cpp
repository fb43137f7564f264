// Which operators may start, which algorithm runs, what is refused.
#include <algorithm>

#include "real/host/communication.hpp"
#include "real/host/host_backend.hpp"
#include "real/host/stream_schedule.hpp"
#include "sim/base/random.hpp"
#include "sim/program/program_builder.hpp"
#include "tests/catch.hpp"

using real::AlgorithmChoice;
using real::CollectiveAlgorithm;
using sim::CollectiveKind;
using sim::OpId;
using sim::Stream;

namespace {

// Kernels on random streams with random dependencies on earlier ones.
sim::Program random_program(std::uint64_t seed, std::uint32_t size) {
  sim::Program program;
  program.first_dependency.push_back(0);
  for (std::uint32_t i = 0; i < size; ++i) {
    program.kind.push_back(sim::OpKind::elementwise);
    program.stream.push_back(
        static_cast<Stream>(static_cast<int>(sim::uniform(seed, 1, i) * sim::stream_count)));
    for (std::uint32_t d = 0; d < i; ++d) {
      if (sim::uniform(seed, 2, i * size + d) < 0.1) program.dependency.push_back(OpId{d});
    }
    program.first_dependency.push_back(static_cast<std::uint32_t>(program.dependency.size()));
  }
  return program;
}

std::vector<OpId> ready_now(const real::StreamSchedule& schedule) {
  std::vector<OpId> ready;
  for (int i = 0; i < sim::stream_count; ++i) {
    if (const auto op = schedule.ready(static_cast<Stream>(i))) ready.push_back(*op);
  }
  return ready;
}

}  // namespace

TEST_CASE("streams run in order and no operator starts before what it waits for", "[real_host]") {
  const std::uint64_t seed = GENERATE(range(0, 20));
  CAPTURE(seed);
  constexpr std::uint32_t size = 60;
  const sim::Program program = random_program(seed, size);
  real::StreamSchedule schedule{program};
  for (int round = 0; round < 2; ++round) {
    std::vector<bool> finished(size);
    std::vector<OpId> under_way;
    std::uint64_t draw = 0;
    std::size_t count = 0;
    while (!schedule.finished()) {
      const auto ready = ready_now(schedule);
      REQUIRE_FALSE((ready.empty() && under_way.empty()));
      const bool starts =
          under_way.empty() || (!ready.empty() && sim::uniform(seed, 3, ++draw) < 0.5);
      auto& from = starts ? const_cast<std::vector<OpId>&>(ready) : under_way;
      const auto pick = static_cast<std::size_t>(sim::uniform(seed, 4, ++draw) *
                                                 static_cast<double>(from.size()));
      const OpId op = from[pick];
      if (!starts) {
        schedule.finish(op);
        finished[op.value] = true;
        under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(pick));
        ++count;
        continue;
      }
      for (const OpId dependency : program.dependencies(op))
        CHECK(finished[dependency.value]);
      for (std::uint32_t before = 0; before < op.value; ++before) {
        if (program.stream[before] == program.stream[op.value]) CHECK(finished[before]);
      }
      schedule.start(op);
      under_way.push_back(op);
    }
    CHECK(count == size);
    schedule.restart();
  }
}

TEST_CASE("an all-reduce runs the algorithm that was chosen, scatters and gathers a ring",
          "[real_host]") {
  const std::vector<int> members{0, 1, 2, 3, 4, 5, 6, 7};
  const auto chosen = [&](CollectiveKind kind, AlgorithmChoice choice) {
    return real::algorithm_for(kind, choice, members, 4).algorithm;
  };
  CHECK(chosen(CollectiveKind::all_reduce, AlgorithmChoice::automatic) ==
        CollectiveAlgorithm::ring);
  CHECK(chosen(CollectiveKind::all_reduce, AlgorithmChoice::tree) == CollectiveAlgorithm::tree);
  CHECK(chosen(CollectiveKind::all_reduce, AlgorithmChoice::halving_doubling) ==
        CollectiveAlgorithm::halving_doubling);
  CHECK(chosen(CollectiveKind::all_reduce, AlgorithmChoice::hierarchical) ==
        CollectiveAlgorithm::hierarchical);
  for (const auto choice : {AlgorithmChoice::tree, AlgorithmChoice::hierarchical}) {
    CHECK(chosen(CollectiveKind::reduce_scatter, choice) == CollectiveAlgorithm::ring);
    CHECK(chosen(CollectiveKind::all_gather, choice) == CollectiveAlgorithm::ring);
    CHECK(chosen(CollectiveKind::barrier, choice) == CollectiveAlgorithm::tree);
  }
}

TEST_CASE("a hierarchy needs nodes with equally many neighbours of the group", "[real_host]") {
  const auto per_node = [](const std::vector<int>& members, int ranks_per_node) {
    return real::algorithm_for(CollectiveKind::all_reduce, AlgorithmChoice::hierarchical, members,
                               ranks_per_node)
        .members_per_node;
  };
  CHECK(per_node({0, 1, 2, 3, 4, 5, 6, 7}, 4) == 4);
  CHECK(per_node({0, 2, 4, 6}, 4) == 2);  // every second rank: two on each node
  CHECK(per_node({1, 5, 9}, 4) == 1);     // one on each
  CHECK(per_node({0, 1, 2, 3}, 0) == 4);  // one node
  CHECK(per_node({0, 1, 2, 4}, 4) == 0);  // three and one
  CHECK(per_node({0, 1, 2, 3, 4, 5}, 4) == 0);
}

TEST_CASE("channels of communicators, streams and directions are all different", "[real_host]") {
  std::vector<std::uint32_t> channels{real::stage_channel(true), real::stage_channel(false)};
  for (std::uint32_t group = 0; group < 50; ++group) {
    for (int stream = 0; stream < sim::stream_count; ++stream)
      channels.push_back(real::collective_channel(group, static_cast<Stream>(stream)));
  }
  std::sort(channels.begin(), channels.end());
  CHECK(std::adjacent_find(channels.begin(), channels.end()) == channels.end());
}

TEST_CASE("formats other than fp32 are refused by the name of their key", "[real_host]") {
  sim::Plan plan;
  plan.layout.compute_dtype = sim::DType::bf16;
  plan.layout.activation_dtype = sim::DType::fp32;
  plan.layout.gradient_dtype = sim::DType::fp16;
  plan.layout.reduce_dtype = sim::DType::fp32;
  const std::vector<std::string> problems = real::host_problems(plan, {});
  REQUIRE(problems.size() == 2);
  CHECK(problems[0] == "layout.compute_dtype: the host backend computes in fp32, not bf16");
  CHECK(problems[1] == "layout.gradient_dtype: the host backend computes in fp32, not fp16");
  plan.layout.compute_dtype = plan.layout.gradient_dtype = sim::DType::fp32;
  CHECK(real::host_problems(plan, {}).empty());
}
