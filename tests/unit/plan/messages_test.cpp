// Messages between stages: when they are asked for, and what waits for them.
#include "sim/program/happens_before.hpp"
#include "tests/unit/plan/framework_programs.hpp"

using namespace sim;
using test::program_of;

namespace {

// The first operator of a micro-batch's pass with this kind of work, of one chunk.
OpId first(const Program& program, Pass pass, int microbatch, bool receive) {
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    const bool is_receive = program.kind[op] == OpKind::recv;
    const bool is_kernel = program.stream[op] == Stream::compute;
    if (program.pass[op] == pass && program.label[op].microbatch == microbatch &&
        (receive ? is_receive : is_kernel))
      return {op};
  }
  FAIL("no such operator");
  return {};
}

}  // namespace

TEST_CASE("layers run again when the gradient has come, not before", "[plan]") {
  Layout layout = test::layout_for(1, 1, 2, 4);
  layout.recompute = Recompute::full;
  for (const bool overlap : {false, true}) {
    layout.overlap_pipeline = overlap;
    const Program program = program_of({}, layout);
    const HappensBefore order{program};
    for (int microbatch = 0; microbatch < 4; ++microbatch)
      CHECK(order.ordered(first(program, Pass::backward, microbatch, true),
                          first(program, Pass::recompute, microbatch, false)));
  }
}

TEST_CASE("a receive beside compute is posted before the slot before begins", "[plan]") {
  // The last of two stages: forward and backward passes take turns.
  Layout layout = test::layout_for(1, 1, 2, 4);
  for (const bool overlap : {true, false}) {
    layout.overlap_pipeline = overlap;
    const Program program = program_of({}, layout, 1);
    for (int microbatch = 1; microbatch < 4; ++microbatch) {
      const OpId posted = first(program, Pass::forward, microbatch, true);
      const OpId before = first(program, Pass::backward, microbatch - 1, false);
      CHECK((posted < before) == overlap);
      // Its kernels need not have been done then, those of the slot before that must.
      const HappensBefore order{program};
      CHECK(order.ordered(first(program, Pass::forward, microbatch - 1, false), posted));
      CHECK(order.ordered(before, posted) != overlap);
    }
  }
}
