// Which events a step needs: derived by hand, and for random programs against reachability.
#include "real/cuda/event_graph.hpp"

#include <algorithm>
#include <random>

#include "tests/catch.hpp"

using sim::OpId;
using sim::Stream;

namespace {

struct Line {
  Stream stream;
  std::vector<std::uint32_t> waits;
};

sim::Program program_of(const std::vector<Line>& lines) {
  sim::Program program;
  program.first_dependency.push_back(0);
  for (const Line& line : lines) {
    program.kind.push_back(sim::OpKind::elementwise);
    program.stream.push_back(line.stream);
    for (const std::uint32_t op : line.waits)
      program.dependency.push_back(OpId{op});
    program.first_dependency.push_back(static_cast<std::uint32_t>(program.dependency.size()));
  }
  return program;
}

std::vector<std::uint32_t> waits(const real::EventGraph& graph, std::uint32_t op) {
  std::vector<std::uint32_t> result;
  for (const auto& wait : graph.waits_of(OpId{op}))
    result.push_back(wait.op.value);
  return result;
}

using Ops = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("an edge that others imply needs no event", "[real_cuda]") {
  // 0 and 1 on compute; 2 (data) waits for 1, which is behind 0; 3 (tensor) waits for 0 and for 2,
  // which has seen 0; 4 (compute) waits for 3, which has seen 2.
  const auto graph = real::make_event_graph(program_of({{Stream::compute, {}},
                                                        {Stream::compute, {}},
                                                        {Stream::data_comm, {0, 1}},
                                                        {Stream::tensor_comm, {0, 2}},
                                                        {Stream::compute, {2, 3}}}));
  CHECK(waits(graph, 2) == Ops{1});
  CHECK(waits(graph, 3) == Ops{2});
  CHECK(waits(graph, 4) == Ops{3});
  CHECK(graph.records[0] == real::EventGraph::no_event);
  CHECK(graph.records[4] == real::EventGraph::no_event);
  CHECK(graph.join.empty());  // compute has seen the end of all streams
  // 1 is waited for by 2 alone, 2 by 3 alone: one event serves all.
  CHECK(graph.events == 1);
}

TEST_CASE("the host waits for an event that is not recorded again before", "[real_cuda]") {
  // The host waits for 0 before it issues 3: until then 0 keeps its event, though 1 has waited for
  // it; 2, for which 3 waits, has one of its own.
  sim::Program program = program_of({{Stream::compute, {}},
                                     {Stream::data_comm, {0}},
                                     {Stream::compute, {}},
                                     {Stream::data_comm, {2}},
                                     {Stream::compute, {}},
                                     {Stream::data_comm, {4}}});
  program.host_waits = {{OpId{3}, OpId{0}}};
  const auto graph = real::make_event_graph(program);
  REQUIRE(graph.host_waits.size() == 1);
  CHECK(graph.host_waits[0].op == OpId{0});
  CHECK(graph.host_waits[0].event == graph.records[0]);
  CHECK(graph.records[2] != graph.records[0]);
  CHECK(graph.events == 2);
  program.host_waits.clear();
  CHECK(real::make_event_graph(program).events == 1);
}

TEST_CASE("the compute stream ends behind what it has not seen", "[real_cuda]") {
  const auto graph = real::make_event_graph(program_of({{Stream::data_comm, {}},
                                                        {Stream::compute, {0}},
                                                        {Stream::data_comm, {}},
                                                        {Stream::tensor_comm, {2}}}));
  REQUIRE(graph.join.size() == 1);
  CHECK(graph.join[0].op.value == 3);  // which has seen 2
}

TEST_CASE("events order exactly what dependencies order, with none to spare", "[real_cuda]") {
  const int seed = GENERATE(range(0, 60));
  CAPTURE(seed);
  std::mt19937 random(static_cast<unsigned>(seed));
  const std::uint32_t size = 40;
  std::vector<Line> lines;
  for (std::uint32_t op = 0; op < size; ++op) {
    Line line{static_cast<Stream>(random() % 4), {}};
    for (unsigned i = random() % 4; op > 0 && i > 0; --i) {
      const auto from = static_cast<std::uint32_t>(random() % op);
      const bool known = std::count(line.waits.begin(), line.waits.end(), from) > 0;
      if (!known && lines[from].stream != line.stream) line.waits.push_back(from);
    }
    lines.push_back(line);
  }
  const auto graph = real::make_event_graph(program_of(lines));
  // before[i][j]: j is done when i starts. `skip`: without this wait.
  using Reach = std::vector<std::vector<bool>>;
  const auto reach = [&](auto edges) {
    Reach before(size, std::vector<bool>(size));
    for (std::uint32_t i = 0; i < size; ++i) {
      std::vector<std::uint32_t> from = edges(i);
      for (std::uint32_t j = 0; j < i; ++j) {
        if (lines[j].stream == lines[i].stream) from.push_back(j);
      }
      for (const std::uint32_t j : from) {
        before[i][j] = true;
        for (std::uint32_t k = 0; k < size; ++k)
          before[i][k] = before[i][k] || before[j][k];
      }
    }
    return before;
  };
  const Reach wanted = reach([&](std::uint32_t i) { return lines[i].waits; });
  CHECK(reach([&](std::uint32_t i) { return waits(graph, i); }) == wanted);
  for (std::uint32_t op = 0; op < size; ++op) {
    for (const std::uint32_t left_out : waits(graph, op)) {
      const Reach fewer = reach([&](std::uint32_t i) {
        std::vector<std::uint32_t> list = waits(graph, i);
        if (i == op) std::erase(list, left_out);
        return list;
      });
      CHECK(fewer != wanted);
    }
  }
  // An event is not recorded again before its last wait was issued.
  std::vector<std::uint32_t> holds(static_cast<std::size_t>(graph.events), UINT32_MAX);
  for (std::uint32_t op = 0; op < size; ++op) {
    for (const auto& wait : graph.waits_of(OpId{op})) {
      CHECK(holds[static_cast<std::size_t>(wait.event)] == wait.op.value);
    }
    if (graph.records[op] != real::EventGraph::no_event) {
      holds[static_cast<std::size_t>(graph.records[op])] = op;
    }
  }
  for (const auto& wait : graph.join) {
    CHECK(holds[static_cast<std::size_t>(wait.event)] == wait.op.value);
  }
}
