// Inputs of SwiGLU that are kept in 8 bits (Execution::keeps_gate_inputs_in_fp8).
#include "sim/memory/memory.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

Model with_narrow_inputs(Model model) {
  model.execution.keeps_gate_inputs_in_fp8 = true;
  return model;
}

const ShardedOp& gate_of(const ShardedModel& sharded) {
  for (const ShardedBlock& block : sharded.blocks)
    for (const ShardedOp& op : block.ops)
      if (op.op->function == Function::swiglu) return op;
  FAIL("no SwiGLU");
  return sharded.blocks.front().ops.front();
}

}  // namespace

TEST_CASE("SwiGLU keeps half of its input in 8 bits, for a cast each way", "[plan]") {
  const Model plain = test::transformer(1);
  const Layout layout = test::layout_for(1, 2, 1, 2);
  Model narrow = with_narrow_inputs(plain);
  const ShardedModel wide_job = shard(plain, layout), narrow_job = shard(narrow, layout);
  const ShardedOp &wide = gate_of(wide_job), &cast = gate_of(narrow_job);
  CHECK(wide.saved == wide.input);
  CHECK(cast.saved * 2 == wide.saved);
  CHECK(cast.forward->bytes == wide.forward->bytes + wide.saved + cast.saved);
  CHECK(cast.backward->bytes == wide.backward->bytes + wide.saved + cast.saved);
  CHECK(cast.forward->launches == wide.forward->launches + 1);
  CHECK(cast.backward->launches == wide.backward->launches + 1);
  narrow.execution.operation_fuser = true;
  const ShardedModel fused_job = shard(narrow, layout);
  CHECK(gate_of(fused_job).forward->bytes == cast.forward->bytes + wide.saved);
}

TEST_CASE("a step with inputs of SwiGLU in 8 bits needs less, in every recomputation", "[plan]") {
  const Model plain = test::transformer(1);
  Layout layout = test::layout_for(2, 2, 1, 2);
  layout.sequence_parallel = true;
  const auto peak = [&](const Model& model) {
    return memory_use(test::checked_plan(model, layout).programs[0]).peak;
  };
  CHECK(peak(with_narrow_inputs(plain)) < peak(plain));
  layout.recompute = Recompute::full;
  CHECK_NOTHROW(test::checked_plan(with_narrow_inputs(plain), layout));
}

TEST_CASE("inputs in 8 bits are of SwiGLU alone", "[plan]") {
  const auto problem = [](const Model& model, const Layout& layout) {
    const std::vector<LayoutProblem> problems = layout_problems(layout, model);
    return problems.size() == 1 ? problems.front().what : std::string{"none or several"};
  };
  Layout layout = test::layout_for(1, 2, 1, 2);
  const Model gpt = test::transformer(0);
  CHECK(problem(with_narrow_inputs(gpt), layout) ==
        "framework.activation_func_fp8_input_store is true, and " + gpt.name +
            " has no SwiGLU in one kernel; allowed: false");
  layout.mlp_tiles = 2;
  CHECK(problem(with_narrow_inputs(test::transformer(1)), layout) ==
        "framework.activation_func_fp8_input_store is true, which is not modelled with mlp_tiles; "
        "allowed: false");
}
