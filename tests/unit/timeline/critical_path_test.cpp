#include "sim/timeline/critical_path.hpp"

#include "tests/catch.hpp"

namespace sim {
namespace {

TimePoint at(std::int64_t ps) {
  return TimePoint{Duration{ps}};
}

// Two ranks: the first computes and sends, the second receives and computes.
struct Two {
  Plan plan;
  Timeline timeline;
};

Program program_of(std::initializer_list<std::pair<OpKind, Stream>> operators) {
  Program program;
  program.first_dependency.push_back(0);
  for (const auto& [kind, stream] : operators) {
    program.kind.push_back(kind);
    program.stream.push_back(stream);
    program.first_dependency.push_back(0);
  }
  return program;
}

void depends(Program& program, std::uint32_t op, std::uint32_t on) {
  program.dependency.push_back(OpId{on});
  for (std::size_t i = op + 1; i < program.first_dependency.size(); ++i)
    ++program.first_dependency[i];
}

Two sender_and_receiver() {
  Two two;
  Program first =
      program_of({{OpKind::gemm, Stream::compute}, {OpKind::send, Stream::forward_send}});
  depends(first, 1, 0);
  Program second =
      program_of({{OpKind::recv, Stream::forward_recv}, {OpKind::gemm, Stream::compute}});
  depends(second, 1, 0);
  two.plan.programs = {first, second};
  two.plan.program_of_rank = {0, 1};
  two.timeline.end = at(130);
  two.timeline.tracks = {
      {RankId{0}, 1, {{OpId{0}, at(10), at(10), at(60)}, {OpId{1}, at(60), at(60), at(80)}}},
      {RankId{1}, 1, {{OpId{0}, at(0), at(60), at(80)}, {OpId{1}, at(85), at(85), at(130)}}}};
  return two;
}

}  // namespace

TEST_CASE("The critical path goes from the receiver to the sender that it waited for") {
  const Two two = sender_and_receiver();
  const std::vector<PathStep> path = critical_path(two.plan, two.timeline);
  REQUIRE(path.size() == 5);
  CHECK(path[0].idle);  // the host issues rank 0's kernel at 10
  CHECK(path[1].track == 0);
  CHECK(path[1].cause == Cause::host);
  CHECK(path[2].track == 1);  // the message, as its receiver has it
  CHECK(path[2].op.value == 0);
  CHECK(path[2].cause == Cause::partner);
  CHECK(path[3].idle);  // 80 to 85
  CHECK(path[3].cause == Cause::dependency);
  CHECK(path[4].track == 1);
  CHECK(path[4].cause == Cause::host);
}

TEST_CASE("The critical path has no gap from the begin of the step to its end") {
  const Two two = sender_and_receiver();
  TimePoint reached{};
  for (const PathStep& step : critical_path(two.plan, two.timeline)) {
    CHECK(step.begin == reached);
    reached = step.end;
  }
  CHECK(reached == two.timeline.end);
}

}  // namespace sim
