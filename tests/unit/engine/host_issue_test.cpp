// The host's time for the parts of a cut GEMM.
#include "sim/engine/host_issue.hpp"

#include "sim/engine/cost_table.hpp"
#include "tests/catch.hpp"
#include "tests/unit/engine/hand_plan.hpp"

using namespace sim;
using namespace std::chrono_literals;

namespace {

constexpr HostIssue modules{.kernel = 50us, .part = 10us};

// A GEMM in `parts`, with a slice of user buffers before each but the first, then another kernel.
HandProgram cut_product(int parts, Carrier carrier = Carrier::copy_engines) {
  HandProgram made;
  made.subject = 7;
  for (int part = 0; part < parts; ++part) {
    if (part > 0) {
      made.action = Action::exchange_part;
      made.collective(CollectiveKind::ring_shift, 1_MiB, GroupRole::tensor);
      made.program.collectives.back().carrier = carrier;
    }
    made.action = Action::multiply_part;
    made.gemm(256);
  }
  made.action = Action::forward;
  made.gemm(256);
  return made;
}

Duration issued(const Program& program) {
  return Duration{index_program(program, modules).issued.back()};
}

}  // namespace

TEST_CASE("a cut GEMM is one call of a module, its parts and slices bare calls", "[engine]") {
  // The call, 3 parts and 3 slices from C++, and the next kernel's module.
  CHECK(issued(cut_product(4).program) == 2 * 50us + 6 * 10us);
  CHECK(issued(cut_product(4, Carrier::user_buffers).program) == 2 * 50us + 6 * 10us);
  // NCCL is called by a module for each.
  CHECK(issued(cut_product(4, Carrier::nccl).program) == 5 * 50us + 3 * 10us);
  CHECK(issued(cut_product(1).program) == 2 * 50us);
}

TEST_CASE("the next cut GEMM, another micro-batch and another pass are calls of their own",
          "[engine]") {
  HandProgram made;
  made.action = Action::multiply_part;
  const auto add = [&](std::uint32_t subject, Pass pass, int microbatch) {
    made.subject = subject;
    made.gemm(256);
    made.program.pass.back() = pass;
    made.program.label.back().microbatch = microbatch;
  };
  add(1, Pass::forward, 0);
  add(1, Pass::forward, 0);
  add(2, Pass::forward, 0);
  add(2, Pass::forward, 1);
  add(2, Pass::recompute, 1);
  CHECK(issued(made.program) == 4 * 50us + 10us);
}

TEST_CASE("a bare call costs no more than a module's", "[engine]") {
  Device device;
  device.host_issue = 10us;
  const auto issue = [&](const SimulationOptions& options) {
    return host_issue_of(options, device);
  };
  CHECK(issue({.host_calls = 5}).kernel == 50us);
  CHECK(issue({.host_calls = 5}).part == 10us);
  CHECK(issue({.host_issue = 3us, .host_calls = 5}).kernel == 3us);
  CHECK(issue({.host_issue = 3us, .host_calls = 5}).part == 3us);
  CHECK(issue({.host_calls = 0.5}).part == 5us);
  CHECK(issue({.free_host = true}).part == 0us);
}
