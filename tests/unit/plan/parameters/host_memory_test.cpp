// Parameters and activations on the host (Layout::offload_parameters, offload_activations), and the
// delayed update.
#include <algorithm>
#include <map>

#include "sim/memory/memory.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

constexpr int layers = 8;

Program program_of(const Layout& layout, const Execution& runs = {}) {
  Model model = test::transformer(1, layers);
  model.execution = runs;
  return test::checked_plan(model, layout).programs[0];
}

Layout sharded(int ranks, int micro_batches, OffloadTarget parameters) {
  Layout layout = test::layout_for(1, ranks, 1, micro_batches);
  layout.zero_stage = 3;
  if (parameters == OffloadTarget::none) return layout;
  layout.offload_parameters = parameters;
  layout.offload_optimizer = OffloadTarget::cpu;
  return layout;
}

struct Traffic {
  int operators = 0;
  std::int64_t bytes = 0, read = 0, written = 0;
};
std::map<Action, Traffic> traffic(const Program& program) {
  std::map<Action, Traffic> result;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (!is_of_host(program.kind[op])) continue;
    const Kernel& kernel = program.kernels[program.work[op]];
    Traffic& of = result[program.action[op]];
    ++of.operators;
    of.bytes += kernel.bytes.count();
    of.read += kernel.disk_read.count();
    of.written += kernel.disk_written.count();
  }
  return result;
}

std::int64_t owned(const Program& program) {
  std::int64_t elements = 0;
  for (const ParameterBucket& bucket : program.parameter_buckets)
    elements += bucket.padded / bucket.shards;
  return elements;
}

std::int64_t peak_of(const Program& program, BufferCategory category) {
  return memory_use(program).peak_of[static_cast<std::size_t>(category)].count();
}

std::int64_t on_host(const Program& program) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : program.buffers)
    bytes += buffer.host.count();
  return bytes;
}

std::uint32_t first(const Program& program, Action action) {
  const auto found = std::find(program.action.begin(), program.action.end(), action);
  REQUIRE(found != program.action.end());
  return static_cast<std::uint32_t>(found - program.action.begin());
}

}  // namespace

TEST_CASE("shards come from the host before they are gathered, gradients go there", "[plan]") {
  const int ranks = GENERATE(1, 4);
  const int micro_batches = GENERATE(1, 3);
  CAPTURE(ranks, micro_batches);
  const Program program = program_of(sharded(ranks, micro_batches, OffloadTarget::nvme));
  auto moved = traffic(program);
  const std::int64_t elements = owned(program);
  // Forward and backward, but for the block where the pass turns round; fp32 shards (FSDP).
  const std::int64_t all = 2 * micro_batches * 4 * elements;
  CHECK(moved[Action::parameters_from_host].bytes <= all);
  CHECK(moved[Action::parameters_from_host].bytes > all * 3 / 4);
  CHECK(moved[Action::parameters_from_host].read * 2 == moved[Action::parameters_from_host].bytes);
  CHECK(moved[Action::gradients_to_host].bytes == micro_batches * 2 * elements);
  CHECK(moved[Action::gradients_from_host].bytes == (micro_batches - 1) * 2 * elements);
  CHECK(moved[Action::update_on_host].bytes == elements * (2 + 2 * 12 + 2));
  CHECK(moved[Action::update_on_host].written == elements * 2);
  CHECK(moved.count(Action::weights_from_host) == 0);
  CHECK(on_host(program) == elements * 16);
  CHECK(host_memory_use(program, sharded(ranks, 1, OffloadTarget::nvme)).disk.count() ==
        elements * 2);

  // DeepSpeed's shards are 16 bits.
  Execution runs;
  runs.optimizer = OptimizerForm::deepspeed;
  const Program deepspeed = program_of(sharded(ranks, 1, OffloadTarget::cpu), runs);
  CHECK(traffic(deepspeed)[Action::parameters_from_host].bytes <= 4 * elements);
}

TEST_CASE("DeepSpeed's gradients pass over the disk, too", "[plan]") {
  Layout layout = sharded(4, 1, OffloadTarget::none);
  layout.offload_optimizer = OffloadTarget::nvme;
  Execution runs;
  const Program plain = program_of(layout, runs);
  CHECK(traffic(plain)[Action::update_on_host].read == owned(plain) * 12);
  runs.optimizer = OptimizerForm::deepspeed;
  CHECK(traffic(program_of(layout, runs))[Action::update_on_host].read == owned(plain) * 16);
}

TEST_CASE("of parameters on the host the device holds what is gathered or on its way", "[plan]") {
  for (const int ranks : {1, 4}) {
    INFO(ranks);
    const Program here = program_of(sharded(ranks, 1, OffloadTarget::none));
    const Program there = program_of(sharded(ranks, 1, OffloadTarget::cpu));
    CHECK(peak_of(there, BufferCategory::weights) < peak_of(here, BufferCategory::weights) / 2);
    CHECK(peak_of(there, BufferCategory::gradients) < peak_of(here, BufferCategory::gradients));
    CHECK(peak_of(there, BufferCategory::optimizer) == 0);
    CHECK(memory_use(there).peak.count() < memory_use(here).peak.count());
  }
}

TEST_CASE("under DeepSpeed gradients of an offloaded optimizer leave when they are reduced",
          "[plan]") {
  Execution runs;
  runs.optimizer = OptimizerForm::deepspeed;
  for (const int ranks : {1, 4}) {
    for (const int zero : {2, 3}) {
      INFO(ranks << " ranks, ZeRO-" << zero);
      Layout layout = test::layout_for(1, ranks, 1, 2);
      layout.zero_stage = zero;
      layout.offload_optimizer = OffloadTarget::cpu;
      layout.bucket = layout.first_bucket = Bytes{16 << 10};
      const Program program = program_of(layout, runs);
      auto moved = traffic(program);
      CHECK(moved[Action::gradients_to_host].bytes == 2 * 2 * owned(program));
      CHECK(moved[Action::weights_from_host].bytes == 2 * owned(program));
      CHECK(peak_of(program, BufferCategory::gradients) < 2 * owned(program) * ranks / 2);
    }
  }
}

TEST_CASE("activations go out and come back, each once", "[plan]") {
  const Recompute recompute = GENERATE(Recompute::none, Recompute::full);
  CAPTURE(word(recompute));
  Layout plain = test::layout_for(1, 1, 1, 1);
  plain.recompute = recompute;
  Layout layout = plain;
  layout.offload_activations = OffloadTarget::cpu;
  const Program program = program_of(layout);
  auto moved = traffic(program);
  CHECK(moved[Action::activations_to_host].bytes > 0);
  CHECK(moved[Action::activations_to_host].bytes == moved[Action::activations_from_host].bytes);
  CHECK(on_host(program) == moved[Action::activations_to_host].bytes);
  // One of eight layers stays, and two are there at a time.
  const std::int64_t before = peak_of(program_of(plain), BufferCategory::activations);
  const std::int64_t after = peak_of(program, BufferCategory::activations);
  CHECK(after < before);
  CHECK(before - after <= on_host(program));
  if (recompute == Recompute::full)
    CHECK(moved[Action::activations_to_host].operators == layers - 1);

  layout.offload_layers = 3;
  auto some = traffic(program_of(layout));
  CHECK(some[Action::activations_to_host].bytes * (layers - 1) ==
        3 * moved[Action::activations_to_host].bytes);
}

TEST_CASE("micro-batches use the host's buffers in turns", "[plan]") {
  Layout layout = test::layout_for(1, 1, 1, 1);
  layout.offload_activations = OffloadTarget::cpu;
  const std::int64_t one = on_host(program_of(layout));
  layout.global_batch *= 5;
  const Program five = program_of(layout);
  CHECK(on_host(five) == one);
  CHECK(traffic(five)[Action::activations_to_host].bytes == 5 * one);
  // A stage of a pipeline has several under way.
  Layout pipeline = test::layout_for(1, 1, 2, 4);
  pipeline.offload_activations = OffloadTarget::cpu;
  const Program first_stage = program_of(pipeline);
  CHECK(on_host(first_stage) * 2 == traffic(first_stage)[Action::activations_to_host].bytes);
}

TEST_CASE("of some modules the inputs alone go", "[plan]") {
  Layout layout = test::layout_for(1, 1, 1, 1);
  layout.offload_activations = OffloadTarget::cpu;
  const std::int64_t all = on_host(program_of(layout));
  layout.offload_modules = {OffloadModule::attn_proj};
  const Program program = program_of(layout);
  CHECK(on_host(program) > 0);
  CHECK(on_host(program) < all / 4);
  CHECK(traffic(program)[Action::activations_to_host].operators == layers - 1);
}

TEST_CASE("of the grouped MLP of experts what is large enough goes", "[plan]") {
  Model model = test::mixture(1);
  model.execution.operation_fuser = true;
  Layout layout = test::layout_for(1, 2, 1, 2);
  layout.offload_activations = OffloadTarget::cpu;
  const auto moved = [&] {
    REQUIRE(layout_problems(layout, model).empty());
    const Plan plan = make_plan(model, layout);
    check_plan(plan);
    return traffic(plan.programs.front())[Action::activations_to_host].bytes;
  };
  layout.offload_modules = {OffloadModule::expert_fc1, OffloadModule::moe_act};
  const std::int64_t parts = moved();
  layout.offload_modules = {OffloadModule::fused_group_mlp};
  const std::int64_t all = moved();
  CHECK(all > parts);
  // Nothing is so large.
  layout.offload_least = std::int64_t{1} << 40;
  CHECK(moved() == 0);
  layout.offload_least = 1;
  CHECK(moved() == all);
  const auto problem = [&](const char* what) {
    const auto problems = layout_problems(layout, model);
    REQUIRE(problems.size() == 1);
    CHECK(problems.front().what.find(what) != std::string::npos);
  };
  layout.offload_modules.push_back(OffloadModule::moe_act);
  problem("which are parts of it");
  layout.offload_modules.clear();
  problem("offload.least is 1 without offload.modules");
  layout.offload_modules = {OffloadModule::fused_group_mlp};
  model.execution.operation_fuser = false;
  problem("is the operation fuser's");
}

TEST_CASE("a delayed update waits for nothing, and gradients for it", "[plan]") {
  for (const int zero : {0, 1, 2, 3}) {
    INFO("ZeRO-" << zero);
    Layout layout = test::layout_for(1, 4, 1, 2);
    layout.zero_stage = zero;
    layout.offload_optimizer = OffloadTarget::cpu;
    layout.offload_delay = true;
    const Program program = program_of(layout);
    const std::uint32_t update = first(program, Action::update_on_host);
    CHECK(program.dependencies(OpId{update}).empty());
    CHECK(update < first(program, Action::forward));
    const auto waits = program.dependencies(OpId{first(program, Action::gradients_to_host)});
    CHECK(std::find(waits.begin(), waits.end(), OpId{update}) != waits.end());
    CHECK(first(program, Action::gradients_to_host) < first(program, Action::weights_from_host));
  }
}

TEST_CASE("what cannot lie on the host is refused by key", "[plan]") {
  const Model model = test::transformer(1);
  const auto problem = [&](const Layout& layout) {
    const auto problems = layout_problems(layout, model);
    REQUIRE(problems.size() == 1);
    return problems.front().what;
  };
  Layout layout = sharded(4, 1, OffloadTarget::cpu);
  layout.zero_stage = 2;
  CHECK(problem(layout) == "offload.parameters is cpu with zero_stage 2; allowed: zero_stage 3");
  layout = sharded(4, 1, OffloadTarget::cpu);
  layout.offload_optimizer = OffloadTarget::none;
  CHECK(problem(layout) ==
        "offload.parameters is cpu: the host updates them; allowed: offload.optimizer cpu or "
        "nvme, offload.fraction 1");
  layout = sharded(4, 1, OffloadTarget::cpu);
  layout.offload_delay = true;
  CHECK(problem(layout) == "offload.delay is not possible with offload.parameters");
  layout = test::layout_for(1, 4, 1, 1);
  layout.offload_activations = OffloadTarget::nvme;
  CHECK(problem(layout) ==
        "offload.activations is nvme: no framework does that; allowed: none, cpu");
  layout = test::layout_for(1, 4, 1, 1);
  layout.offload_layers = 2;
  CHECK(problem(layout) ==
        "offload.activations is none, but offload.layers or offload.modules is set; allowed: cpu");
}
