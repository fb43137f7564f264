#include "sim/memory/arena.hpp"

#include <algorithm>

#include "sim/memory/memory.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/models.hpp"
#include "tests/unit/plan/random_layout.hpp"
#include "tests/unit/plan/sketch.hpp"

using namespace sim;

namespace {

// A life of a buffer: where it lies, and the operators that use it in issue order.
struct Stay {
  std::int64_t begin = 0, end = 0;
  std::vector<std::uint32_t> users;
  bool persistent = false;
};

// Behind the arena of the device.
bool on_host(const Program& program, std::size_t buffer) {
  return program.buffers[buffer].host.count() > 0;
}

std::vector<Stay> stays_of(const Program& program, const ArenaLayout& arena) {
  std::vector<Stay> stays;
  std::vector<std::size_t> open(program.buffers.size(), SIZE_MAX);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    if (!program.buffers[i].persistent || on_host(program, i)) continue;
    open[i] = stays.size();
    const std::int64_t begin = arena.offset_of_persistent[i];
    stays.push_back({begin, begin + program.buffers[i].size.count(), {}, true});
  }
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    const auto uses = program.buffer_uses(OpId{op});
    for (std::size_t u = 0; u < uses.size(); ++u) {
      const std::size_t buffer = uses[u].buffer.value;
      if (on_host(program, buffer)) continue;
      const std::int64_t at = arena.offset_of_use[program.first_buffer_use[op] + u];
      if (open[buffer] == SIZE_MAX) {
        open[buffer] = stays.size();
        stays.push_back({at, at + program.buffers[buffer].size.count(), {}, false});
      }
      Stay& stay = stays[open[buffer]];
      REQUIRE(stay.begin == at);
      REQUIRE(at % arena_alignment == 0);
      REQUIRE(stay.end <= arena.size.count());
      stay.users.push_back(op);
      if (uses[u].access == Access::free) open[buffer] = SIZE_MAX;
    }
  }
  return stays;
}

// reach[a][b]: a is done before b starts. The obvious way: a walk over all edges.
std::vector<std::vector<bool>> reachable(const Program& program) {
  const std::size_t n = program.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n));
  std::array<std::uint32_t, stream_count> last{};
  last.fill(UINT32_MAX);
  for (std::uint32_t op = 0; op < n; ++op) {
    std::vector<std::uint32_t> edges;
    std::uint32_t& previous = last[static_cast<std::size_t>(program.stream[op])];
    if (previous != UINT32_MAX) edges.push_back(previous);
    for (const OpId dependency : program.dependencies(OpId{op}))
      edges.push_back(dependency.value);
    previous = op;
    for (const std::uint32_t edge : edges) {
      before[op][edge] = true;
      for (std::size_t i = 0; i < n; ++i)
        if (before[edge][i]) before[op][i] = true;
    }
  }
  return before;
}

// Two stays that overlap in the arena: every user of one is done before any user of the other
// starts.
void check_by_hand(const Program& program, const ArenaLayout& arena) {
  const std::vector<Stay> stays = stays_of(program, arena);
  const auto before = reachable(program);
  for (std::size_t a = 0; a < stays.size(); ++a) {
    for (std::size_t b = a + 1; b < stays.size(); ++b) {
      if (stays[a].end <= stays[b].begin || stays[b].end <= stays[a].begin) continue;
      REQUIRE_FALSE(stays[a].persistent);
      REQUIRE_FALSE(stays[b].persistent);
      const bool a_first = stays[a].users.front() <= stays[b].users.front();
      const Stay& first = a_first ? stays[a] : stays[b];
      const Stay& second = a_first ? stays[b] : stays[a];
      bool safe = true;
      for (const std::uint32_t early : first.users)
        for (const std::uint32_t late : second.users)
          safe = safe && before[late][early];
      CAPTURE(a, b);
      REQUIRE(safe);
    }
  }
}

// Producer on compute, its tensor sent from another stream; then another tensor of the same size.
Program send_then_compute(bool waits) {
  test::Sketch sketch{{{Bytes{1000}, BufferCategory::activations, false},
                       {Bytes{1000}, BufferCategory::activations, false}}};
  const BufferId first{0}, second{1};
  sketch.add(OpKind::elementwise, Stream::compute, {}, {{first, Access::write, Role::output}});
  sketch.add(OpKind::send, Stream::forward_send, {OpId{0}}, {{first, Access::free, Role::input}});
  sketch.add(OpKind::elementwise, Stream::compute,
             waits ? std::vector{OpId{1}} : std::vector<OpId>{},
             {{second, Access::write, Role::output}});
  sketch.add(OpKind::elementwise, Stream::compute, {}, {{second, Access::free, Role::input}});
  return sketch.program;
}

}  // namespace

TEST_CASE("A tensor under way on another stream keeps its place until compute has waited for it",
          "[plan][arena]") {
  // 1000 bytes take 1024, the next multiple of 256.
  CHECK(arena_layout(send_then_compute(true)).size == Bytes{1024});
  CHECK(arena_layout(send_then_compute(false)).size == Bytes{2048});
  CHECK(memory_use(send_then_compute(false)).peak == Bytes{1000});
}

TEST_CASE("No two live buffers overlap, and no place changes hands before its users are done",
          "[plan][arena][property]") {
  const Model model = test::gpt({.layers = 4, .hidden = 32, .vocabulary = 300, .tied = true});
  int checked = 0;
  for (std::uint64_t seed = 0; checked < 40 && seed < 2000; ++seed) {
    const Layout layout = test::random_layout(seed);
    if (!layout_problems(layout, model).empty()) continue;
    CAPTURE(seed, test::to_text(layout));
    const Plan plan = make_plan(model, layout);
    if (plan.programs[0].size() > 1200) continue;  // the oracle is quadratic
    ++checked;
    for (const Program& program : plan.programs) {
      const ArenaLayout arena = arena_layout(program);
      REQUIRE(arena.size.count() >= memory_use(program).peak.count());
      check_by_hand(program, arena);
    }
  }
  CHECK(checked == 40);
}
