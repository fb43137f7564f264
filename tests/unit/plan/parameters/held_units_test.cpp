// ZeRO-3 in torch.distributed.pipelining (sim/plan/block/gradient_sums.cpp).
#include "sim/memory/memory.hpp"
#include "tests/unit/plan/framework_programs.hpp"

using namespace sim;
using test::count;
using test::program_of;
using test::with;

namespace {

constexpr int micro_batches = 4;
constexpr std::uint32_t none = UINT32_MAX;

// Two stages of two replicas; gradients bf16 from autograd, reduced in fp32.
Layout held_layout() {
  Layout layout = test::layout_for(1, 2, 2, micro_batches);
  layout.zero_stage = 3;
  layout.reshard_after_forward = false;
  layout.reduce_dtype = DType::fp32;
  return layout;
}

Program held_program(const Layout& layout) {
  return program_of(with(&Execution::holds_units), layout);
}

std::uint32_t first(const Program& program, Action action) {
  for (std::uint32_t i = 0; i < program.size(); ++i)
    if (program.action[i] == action) return i;
  return none;
}

std::uint32_t last(const Program& program, Action action) {
  for (auto i = static_cast<std::uint32_t>(program.size()); i-- > 0;)
    if (program.action[i] == action) return i;
  return none;
}

}  // namespace

TEST_CASE("held units are gathered and reduced once per step", "[plan]") {
  const Program program = held_program(held_layout());
  const auto units = static_cast<int>(program.parameter_buckets.size());
  CHECK(count(program, Action::gather_weights) == units);
  CHECK(count(program, Action::reduce) == units);
  CHECK(count(program, Action::accumulate) == 0);
  // Behind the last backward pass and its message (the second stage sends gradients back).
  CHECK(first(program, Action::reduce) > last(program, Action::backward));
  const Program sender = program_of(with(&Execution::holds_units), held_layout(), 1);
  CHECK(first(sender, Action::reduce) > last(sender, Action::send));
}

TEST_CASE("every run of the pipeline gathers and reduces what is held", "[plan]") {
  Layout layout = held_layout();
  layout.pipeline_runs = 2;
  const Program program = held_program(layout);
  const auto units = static_cast<int>(program.parameter_buckets.size());
  for (const Action action : {Action::gather_weights, Action::reduce, Action::accumulate})
    CHECK(count(program, action) == 2 * units);
  // The first run has reduced all before the second begins; its first gradients are casts.
  std::uint32_t reductions = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.action[i] == Action::reduce) ++reductions;
    if (program.action[i] != Action::forward || program.label[i].microbatch < 2) continue;
    CHECK(reductions == static_cast<std::uint32_t>(units));
    break;
  }
  std::int64_t elements = 0, cast = 0;
  for (const ParameterBucket& unit : program.parameter_buckets)
    elements += unit.elements;
  for (std::uint32_t i = 0; i < program.size(); ++i)
    if (program.action[i] == Action::add_weight_gradient && program.label[i].microbatch % 2 == 0)
      cast += program.kernels[program.work[i]].bytes.count();
  CHECK(cast == 2 * elements * (2 + 4));
}

TEST_CASE("what is held over the runs is gathered and reduced once per step", "[plan]") {
  Layout layout = held_layout();
  layout.pipeline_runs = 2;
  Framework framework = with(&Execution::holds_units);
  framework.execution.holds_over_runs = true;
  const Program program = program_of(framework, layout);
  const auto units = static_cast<int>(program.parameter_buckets.size());
  CHECK(count(program, Action::gather_weights) == units);
  CHECK(count(program, Action::reduce) == units);
  CHECK(count(program, Action::accumulate) == 0);
}

TEST_CASE("the host waits between the batches of a step where a clock is read", "[plan]") {
  Layout layout = held_layout();
  layout.pipeline_runs = 2;
  layout.overlap_pipeline = true;
  const auto begun = [](const Program& program) {
    std::vector<int> batches;
    for (const HostWait& wait : program.host_waits) {
      std::uint32_t op = wait.before.value;
      while (op < program.size() && program.pass[op] != Pass::forward &&
             program.pass[op] != Pass::optimizer)
        ++op;
      const int batch = op < program.size() ? program.label[op].microbatch : -1;
      if (batches.empty() || batches.back() != batch) batches.push_back(batch);
    }
    return batches;
  };
  CHECK(begun(held_program(layout)).empty());
  Framework framework = with(&Execution::holds_units);
  framework.execution.waits_for_batches = true;
  // Before the first forward pass of the second run, and before the optimizer.
  CHECK(begun(program_of(framework, layout)) == std::vector{2, -1});
  Layout single = layout;
  single.pipeline_parallel = single.pipeline_runs = 1;
  CHECK(begun(program_of(framework, single)) == std::vector{1, 2, 3, -1});
}

TEST_CASE("held gradients add up in the format in which they are reduced", "[plan]") {
  const Layout layout = held_layout();
  const Program program = held_program(layout);
  const int each = count(program, Action::add_weight_gradient, 0);
  CHECK(each > 0);
  CHECK(count(program, Action::add_weight_gradient) == micro_batches * each);
  std::int64_t elements = 0, cast = 0, added = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.action[i] != Action::add_weight_gradient) continue;
    const std::int64_t bytes = program.kernels[program.work[i]].bytes.count();
    (program.label[i].microbatch == 0 ? cast : added) += bytes;
  }
  for (const ParameterBucket& unit : program.parameter_buckets)
    elements += unit.elements;
  CHECK(cast == elements * (2 + 4));
  CHECK(added == (micro_batches - 1) * elements * (4 + 2 + 4));
  // Gradients that are reduced are fp32 before: put together, not cast back.
  CHECK(count(program, Action::cast_out) == count(program, Action::reduce));
  CHECK(count(program, Action::cast_in) == 0);
}

// torchtitan's ZBVZeroBubble and InterleavedZeroBubble under FSDP.
TEST_CASE("held gradients of a split backward pass are added where they are made", "[plan]") {
  Layout whole = held_layout(), split = held_layout();
  split.schedule = Schedule::zb_h1;
  split.overlap_pipeline = true;
  const Program one = held_program(whole), two = held_program(split);
  for (const Action action : {Action::gather_weights, Action::reduce, Action::add_weight_gradient})
    CHECK(count(two, action) == count(one, action));
  CHECK(first(two, Action::reduce) > last(two, Action::weight_gradient));
  int of_matrices = 0;
  for (std::uint32_t i = 0; i < two.size(); ++i)
    if (two.action[i] == Action::add_weight_gradient && two.pass[i] == Pass::weight_backward)
      ++of_matrices;
  CHECK(of_matrices > 0);
}

TEST_CASE("held gradients of the format of the weights begin where autograd puts them", "[plan]") {
  Layout layout = held_layout();
  layout.reduce_dtype = DType::bf16;
  const Program program = held_program(layout);
  CHECK(count(program, Action::add_weight_gradient, 0) == 0);
  CHECK(count(program, Action::add_weight_gradient, 1) > 0);
}

TEST_CASE("with reshard_after_forward held units are gathered for every micro-batch", "[plan]") {
  Layout layout = held_layout();
  layout.reshard_after_forward = true;
  const Program program = held_program(layout);
  const auto units = static_cast<int>(program.parameter_buckets.size());
  // The first stage runs two forward passes ahead: then a backward pass leaves them for the forward
  // pass behind it.
  CHECK(count(program, Action::gather_weights) > micro_batches * units);
  CHECK(count(program, Action::gather_weights) < 2 * micro_batches * units);
  CHECK(count(program, Action::reduce) == units);
}

TEST_CASE("held units take their memory", "[plan]") {
  const Layout layout = held_layout();
  const Program held = held_program(layout), freed = program_of({}, layout);
  Bytes gradients{};
  for (const ParameterBucket& unit : held.parameter_buckets)
    gradients += Bytes{unit.padded * 4};
  // All of them whole in fp32, where the other has one unit at a time.
  CHECK(memory_use(held).peak > memory_use(freed).peak);
  CHECK(memory_use(held).peak > gradients);
}

TEST_CASE("units are held in pipelines under ZeRO-3 alone", "[plan]") {
  for (const int stage : {0, 1, 2, 3}) {
    Layout layout = held_layout();
    layout.zero_stage = stage;
    if (stage == 3) layout.pipeline_parallel = 1;
    CAPTURE(stage);
    const Program held = held_program(layout), other = program_of({}, layout);
    CHECK(held.action == other.action);
    CHECK(memory_use(held).peak == memory_use(other).peak);
  }
}

namespace {

// Four replicas without a pipeline.
Layout flat_layout() {
  Layout layout = held_layout();
  layout.pipeline_parallel = 1;
  layout.data_parallel = 4;
  return layout;
}

Program flat_program(bool keeps_gathered) {
  Framework framework = with(&Execution::accumulates_whole);
  framework.execution.keeps_gathered = keeps_gathered;
  return program_of(framework, flat_layout());
}

}  // namespace

TEST_CASE("without a pipeline whole gradients are reduced in the last backward pass", "[plan]") {
  const Program program = flat_program(false), each = program_of({}, flat_layout());
  const auto units = static_cast<int>(program.parameter_buckets.size());
  CHECK(count(program, Action::reduce) == units);
  CHECK(count(each, Action::reduce) == flat_layout().micro_batches() * units);
  CHECK(count(program, Action::accumulate) == 0);
  // Weights come and go with every micro-batch, as without.
  CHECK(count(program, Action::gather_weights) == count(each, Action::gather_weights));
  // A unit is reduced beside the backward pass of those before it, and behind its own sums.
  CHECK(first(program, Action::reduce) < last(program, Action::backward));
  CHECK(first(program, Action::reduce) > first(program, Action::add_weight_gradient));
  CHECK(memory_use(program).peak > memory_use(each).peak);
}

TEST_CASE("without a pipeline gathered units may stay, too", "[plan]") {
  const Program program = flat_program(true);
  const auto units = static_cast<int>(program.parameter_buckets.size());
  CHECK(count(program, Action::gather_weights) == units);
  CHECK(count(program, Action::reduce) == units);
  CHECK(memory_use(program).peak >= memory_use(flat_program(false)).peak);
  // One micro-batch has nothing to wait for.
  Layout single = flat_layout();
  single.global_batch = single.micro_batch * single.data_parallel;
  CHECK(program_of(with(&Execution::accumulates_whole), single).action ==
        program_of({}, single).action);
}
