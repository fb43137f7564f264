// The optimizer on the host (Layout::offload_optimizer).
#include <algorithm>
#include <map>

#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

constexpr std::int64_t parameter_bytes = 2 + 2;  // bf16 weight, bf16 gradient
constexpr std::int64_t state_bytes = 4 + 8;      // fp32 master, two fp32 moments

Layout offloaded(int zero_stage, OffloadTarget target = OffloadTarget::cpu) {
  Layout layout = test::layout_for(1, 4, 1, 2);
  layout.zero_stage = zero_stage;
  layout.offload_optimizer = target;
  return layout;
}

Plan checked(const Layout& layout, const Execution& runs = {}) {
  Model model = test::transformer(0);
  model.execution = runs;
  return test::checked_plan(model, layout);
}

struct Traffic {
  int operators = 0;
  std::int64_t bytes = 0;
  std::int64_t disk = 0;
};

std::map<Action, Traffic> traffic(const Program& program) {
  std::map<Action, Traffic> result;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] != OpKind::host_copy && program.kind[op] != OpKind::host_update) continue;
    const Kernel& kernel = program.kernels[program.work[op]];
    Traffic& of_action = result[program.action[op]];
    ++of_action.operators;
    of_action.bytes += kernel.bytes.count();
    of_action.disk += kernel.disk_read.count() + kernel.disk_written.count();
  }
  return result;
}

std::int64_t held(const Program& program, BufferCategory category, bool host) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : program.buffers)
    if (host || buffer.category == category) bytes += (host ? buffer.host : buffer.size).count();
  return bytes;
}

std::vector<Action> order(const Program& program) {
  std::vector<Action> result;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    if (program.kind[op] == OpKind::host_copy || program.kind[op] == OpKind::host_update)
      result.push_back(program.action[op]);
  return result;
}

std::vector<std::uint32_t> gradients(const Program& program) {
  std::vector<std::uint32_t> copies;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    if (program.action[op] == Action::gradients_to_host) copies.push_back(op);
  return copies;
}

// The last of these copies that the first update waits for.
std::size_t first_awaited(const Program& program) {
  const std::vector<std::uint32_t> copies = gradients(program);
  const auto update =
      std::find(program.action.begin(), program.action.end(), Action::update_on_host);
  const OpId op{static_cast<std::uint32_t>(update - program.action.begin())};
  std::size_t last = 0;
  for (const OpId before : program.dependencies(op))
    for (std::size_t i = 0; i < copies.size(); ++i)
      if (copies[i] == before.value) last = std::max(last, i);
  return last;
}

}  // namespace

TEST_CASE("gradients go to the host, weights come back, each once", "[plan]") {
  for (const int zero : {0, 1, 2, 3}) {
    INFO("ZeRO-" << zero);
    const Program program = checked(offloaded(zero)).programs[0];
    const auto moved = traffic(program);
    REQUIRE(moved.count(Action::gradients_to_host) == 1);
    REQUIRE(moved.count(Action::update_on_host) == 1);
    REQUIRE(moved.count(Action::weights_from_host) == 1);
    const std::int64_t elements = moved.at(Action::weights_from_host).bytes / 2;
    CHECK(moved.at(Action::gradients_to_host).bytes == elements * 2);
    CHECK(moved.at(Action::update_on_host).bytes == elements * (2 + 2 * state_bytes + 2));
    CHECK(moved.at(Action::update_on_host).disk == 0);
    CHECK(held(program, BufferCategory::optimizer, false) == 0);
    CHECK(held(program, BufferCategory::optimizer, true) ==
          elements * (state_bytes + parameter_bytes));
  }
}

TEST_CASE("a part of the optimizer stays on the device", "[plan]") {
  Layout layout = offloaded(1);
  const Program all = checked(layout).programs[0];
  layout.offload_fraction = 0.25;
  const Program part = checked(layout).programs[0];
  Layout device = test::layout_for(1, 4, 1, 2);
  device.zero_stage = 1;
  const Program none = checked(device).programs[0];

  const auto bytes = [](const Program& program) {
    return static_cast<double>(traffic(program).at(Action::gradients_to_host).bytes);
  };
  CHECK(bytes(part) == Approx(0.25 * bytes(all)).epsilon(0.01));
  CHECK(static_cast<double>(held(part, BufferCategory::optimizer, false)) ==
        Approx(0.75 * static_cast<double>(held(none, BufferCategory::optimizer, false)))
            .epsilon(0.01));
  CHECK(traffic(none).empty());
}

TEST_CASE("states on disk are read and written in each step", "[plan]") {
  const auto moved = traffic(checked(offloaded(3, OffloadTarget::nvme)).programs[0]);
  const std::int64_t elements = moved.at(Action::weights_from_host).bytes / 2;
  CHECK(moved.at(Action::update_on_host).disk == 2 * elements * state_bytes);
}

TEST_CASE("masters that stay on the device, too, come back in fp32", "[plan]") {
  Execution runs;
  runs.offload_keeps_masters = true;
  const Program program = checked(offloaded(1), runs).programs[0];
  const auto moved = traffic(program);
  const std::int64_t elements = moved.at(Action::gradients_to_host).bytes / 2;
  CHECK(moved.at(Action::weights_from_host).bytes == 4 * elements);
  CHECK(held(program, BufferCategory::optimizer, false) == 4 * elements);
}

TEST_CASE("without overlap the host updates when all gradients are there", "[plan]") {
  Layout layout = offloaded(1);
  layout.bucket = layout.first_bucket = Bytes{64 << 10};
  const Program program = checked(layout).programs[0];
  const std::vector<Action> actions = order(program);
  CHECK(std::is_sorted(actions.begin(), actions.end()));

  CHECK(first_awaited(program) + 1 == gradients(program).size());
  REQUIRE(gradients(program).size() > 1);
  layout.offload_overlap = true;
  CHECK(first_awaited(checked(layout).programs[0]) == 0);
}
