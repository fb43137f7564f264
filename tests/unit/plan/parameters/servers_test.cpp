// Parameter servers in place of a reduction (Layout::servers).
#include <algorithm>

#include "sim/plan/plan.hpp"
#include "sim/plan/server_exchange.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

Layout with(Servers servers) {
  Layout layout = test::layout_for(1, 4, 1, 2);
  layout.servers = servers;
  return layout;
}

Plan checked(const Layout& layout) {
  return test::checked_plan(test::transformer(0), layout);
}

int count(const Program& program, Action action) {
  return static_cast<int>(std::count(program.action.begin(), program.action.end(), action));
}

Bytes optimizer_bytes(const Program& program) {
  Bytes all{};
  for (const Buffer& buffer : program.buffers)
    if (buffer.category == BufferCategory::optimizer) all += buffer.size;
  return all;
}

std::string problem_of(const Layout& layout, const std::string& key) {
  for (const LayoutProblem& problem : layout_problems(layout, test::transformer(0)))
    if (problem.key == key) return problem.what;
  return {};
}

}  // namespace

TEST_CASE("every bucket goes to the servers once, and nobody reduces", "[plan]") {
  for (const Servers servers : {Servers::synchronous, Servers::asynchronous, Servers::bounded}) {
    INFO(word(servers));
    for (const DType wire : {DType::fp32, DType::bf16}) {
      Layout layout = with(servers);
      layout.gradient_dtype = DType::fp32;
      layout.reduce_dtype = wire;
      const Plan plan = checked(layout);
      const Program& program = plan.programs[0];
      CHECK(count(program, Action::reduce) == 0);
      const auto buckets = static_cast<int>(program.parameter_buckets.size());
      CHECK(count(program, Action::exchange_with_servers) == buckets);
      std::int64_t parameters = 0;
      for (std::uint32_t op = 0; op < program.size(); ++op)
        if (program.action[op] == Action::exchange_with_servers)
          parameters += program.kernels[program.work[op]].m;
      CHECK(parameters == plan.parameters);
    }
  }
}

TEST_CASE("servers that update hold the optimizer", "[plan]") {
  const Program sums = checked(with(Servers::synchronous)).programs[0];
  CHECK(count(sums, Action::adam) == 1);
  CHECK(optimizer_bytes(sums) > Bytes{});
  const Program updates = checked(with(Servers::asynchronous)).programs[0];
  CHECK(count(updates, Action::adam) == 0);
  CHECK(count(updates, Action::sum_gradient_norm) == 0);
  CHECK(optimizer_bytes(updates) == Bytes{});
  const ServerBytes bytes = server_bytes(with(Servers::asynchronous), 1000);
  // bf16 gradients and weights; a master and two moments of 4 bytes.
  CHECK(bytes.pushed == Bytes{2000});
  CHECK(bytes.pulled == Bytes{2000});
  CHECK(bytes.held == Bytes{12'000});
  CHECK(bytes.updated == Bytes{1000 * (2 + 24 + 2)});
}

TEST_CASE("GPUs of a worker reduce first, and each sends the shard that it owns", "[plan]") {
  for (const Servers servers : {Servers::synchronous, Servers::asynchronous}) {
    for (const int gpus : {2, 4}) {  // of four: one worker
      for (const DType wire : {DType::fp32, DType::bf16}) {
        for (const bool overlap : {true, false}) {
          CAPTURE(word(servers), gpus, word(wire), overlap);
          Layout layout = with(servers);
          layout.zero_stage = 1;
          layout.shard_group = gpus;
          layout.gradient_dtype = DType::fp32;
          layout.reduce_dtype = wire;
          layout.overlap_parameters = overlap;
          CHECK(layout.workers() == 4 / gpus);
          const Plan plan = checked(layout);
          const Program& program = plan.programs[0];
          const auto buckets = static_cast<int>(program.parameter_buckets.size());
          CHECK(count(program, Action::reduce) == buckets);
          CHECK(count(program, Action::replicate) == 0);
          CHECK(count(program, Action::exchange_with_servers) == buckets);
          CHECK(count(program, Action::gather_weights) == buckets);
          CHECK(count(program, Action::adam) == (servers == Servers::synchronous ? 1 : 0));
          std::int64_t sent = 0;
          for (std::uint32_t op = 0; op < program.size(); ++op) {
            if (program.action[op] == Action::exchange_with_servers)
              sent += program.kernels[program.work[op]].m;
            if (program.kind[op] != OpKind::collective) continue;
            const auto role = static_cast<std::size_t>(program.collectives[program.work[op]].group);
            const auto ranks = plan.groups.at(plan.group_of[0][role]).ranks.size();
            const bool norm = program.action[op] == Action::sum_gradient_norm;
            // A worker that updates nothing itself has a norm of its own.
            CHECK(ranks ==
                  (norm && servers == Servers::synchronous ? 4U : static_cast<unsigned>(gpus)));
          }
          CHECK(sent >= plan.parameters / gpus);
          CHECK(sent <= plan.parameters / gpus + buckets);
        }
      }
    }
  }
}

TEST_CASE("a partition is of the gradients of a whole worker", "[plan]") {
  Layout layout = with(Servers::synchronous);
  CHECK(server_part(layout, 1'000'000) == 1'000'000);
  layout.server_partition = Bytes{4'000'000};
  CHECK(server_part(layout, 10'000'000) == 2'000'000);  // bf16
  CHECK(server_part(layout, 1'000) == 1'000);
  layout.zero_stage = 1;
  layout.shard_group = 4;
  CHECK(server_part(layout, 10'000'000) == 500'000);
}

TEST_CASE("what servers cannot do is refused by key", "[plan]") {
  Layout layout = with(Servers::asynchronous);
  layout.zero_stage = 2;
  CHECK(problem_of(layout, "zero_stage").find("allowed: 0") != std::string::npos);
  layout.zero_stage = 1;
  CHECK(problem_of(layout, "shard_group").find("2 or more") != std::string::npos);
  layout.shard_group = 2;
  CHECK(layout_problems(layout, test::transformer(0)).empty());
  layout = with(Servers::asynchronous);
  layout.server_partition = Bytes{100};
  CHECK(problem_of(layout, "servers.partition").find("1024") != std::string::npos);
  layout = with(Servers::none);
  layout.server_partition = Bytes{4'000'000};
  CHECK_FALSE(problem_of(layout, "servers.mode").empty());
  layout = with(Servers::asynchronous);
  layout.staleness = 3;
  CHECK(problem_of(layout, "servers.staleness").find("bounded") != std::string::npos);
  layout = with(Servers::none);
  layout.staleness = 3;
  CHECK(problem_of(layout, "servers.mode").find("synchronous") != std::string::npos);
  layout = with(Servers::bounded);
  layout.server_place = ServerPlace::machines;
  CHECK_FALSE(problem_of(layout, "servers.machines").empty());
  layout.server_place = ServerPlace::workers;
  layout.server_machines = 2;
  CHECK_FALSE(problem_of(layout, "servers.place").empty());
  layout = with(Servers::synchronous);
  layout.compression = GradientCompression::top_k;
  CHECK_FALSE(problem_of(layout, "compression.gradients").empty());
  layout = test::layout_for(2, 2, 1, 2);
  layout.servers = Servers::synchronous;
  CHECK_FALSE(problem_of(layout, "tensor_parallel").empty());
}
