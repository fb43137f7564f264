// Weights that are not trained beside low-rank adapters: their formats, and what casts them.
#include <cmath>

#include "sim/plan/sharding/low_rank.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/block/adapters.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/framework_programs.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;
using namespace sim::test;

namespace {

Layout frozen_in_eight_bits(FrozenOrders orders) {
  Layout layout = lora();
  layout.compute_dtype = DType::fp8;
  layout.eight_bit_parameters = true;
  layout.frozen_orders = orders;
  return layout;
}

std::int64_t frozen_elements(const Model& model) {
  std::int64_t elements = 0;
  for (const Block& layer : model.layers)
    for (const ModelOp& op : layer.ops)
      if (op.kind == ModelOpKind::linear) elements += op.weights;
  return elements;
}

double bytes_moved(const Program& program, Action action) {
  double bytes = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    if (program.action[op] == action)
      bytes += static_cast<double>(program.kernels[program.work[op]].bytes.count());
  return bytes;
}

}  // namespace

TEST_CASE("frozen weights in 8 bits alone: a byte for each order, and no cast in a step",
          "[plan][lora]") {
  const Model model = test::transformer(1);
  const auto program = [&](FrozenOrders orders) {
    return test::checked_plan(model, frozen_in_eight_bits(orders)).programs[0];
  };
  const Program one = program(FrozenOrders::one), both = program(FrozenOrders::both);
  const Program again = program(FrozenOrders::transposed);
  Layout sixteen = frozen_in_eight_bits(FrozenOrders::both);
  sixteen.eight_bit_parameters = false;
  const Program cast = test::checked_plan(model, sixteen).programs[0];
  const std::int64_t elements = frozen_elements(model);
  const auto weights = [](const Program& of) { return bytes_of(of, BufferCategory::weights); };
  CHECK(weights(both) - weights(one) == elements);
  CHECK(weights(again) == weights(one));
  CHECK(weights(cast) - weights(both) == 2 * elements);
  CHECK(count(one, Action::encode) == count(both, Action::encode));
  // Each linear of the first micro-batch casts its weight; each of both transposes it.
  const int linears = 4 * 8;
  CHECK(count(cast, Action::encode) - count(one, Action::encode) == linears);
  CHECK(count(again, Action::encode) - count(one, Action::encode) == 2 * linears);
  const double once = 4.0 * static_cast<double>(elements);
  CHECK(bytes_moved(cast, Action::encode) - bytes_moved(one, Action::encode) == Approx(once));
  CHECK(bytes_moved(again, Action::encode) - bytes_moved(one, Action::encode) == Approx(once));
}

TEST_CASE("in front of frozen weights inputs and gradients are cast in one order", "[plan][lora]") {
  const Model model = test::transformer(1);
  Layout layout = frozen_in_eight_bits(FrozenOrders::both);
  const auto of = [&](const ShardedModel& sharded, const std::string& name) {
    for (const ShardedBlock& block : sharded.blocks)
      for (const ShardedOp& op : block.ops)
        if (op.op->name == name) return op;
    throw std::out_of_range{name};
  };
  const auto each = [](const std::optional<Kernel>& cast) {
    return static_cast<double>(cast->bytes.count()) / static_cast<double>(cast->m * cast->n);
  };
  const ShardedModel frozen = shard(model, layout);
  CHECK(each(of(frozen, "mlp_down").encode_input) == 3);
  CHECK(each(of(frozen, "mlp_down").encode_gradient) == 3);
  CHECK_FALSE(of(frozen, "mlp_down").encode_weight);
  layout.lora_rank = 0;
  const ShardedModel trained = shard(model, layout);
  CHECK(each(of(trained, "mlp_down").encode_input) == 4);
  CHECK(each(of(trained, "mlp_down").encode_gradient) == 4);
}

TEST_CASE("the operation fuser adds in products, and activations cast", "[plan][lora]") {
  Model model = test::transformer(1);
  const Layout layout = frozen_in_eight_bits(FrozenOrders::one);
  const Program apart = test::checked_plan(model, layout).programs[0];
  model.execution.operation_fuser = true;
  const Program fused = test::checked_plan(model, layout).programs[0];
  const int linears = 4 * 8 * 2;
  // Two scales and two sums of each linear.
  CHECK(count(apart, Action::adapt) - count(fused, Action::adapt) == 4 * linears);
  CHECK(flops_of(fused, Action::adapt) == Approx(flops_of(apart, Action::adapt)));
  CHECK(bytes_moved(fused, Action::adapt) < bytes_moved(apart, Action::adapt));
  CHECK(bytes_moved(fused, Action::input_gradient) > bytes_moved(apart, Action::input_gradient));
  // The input of the second linear of an MLP, and the gradient of the first.
  CHECK(count(apart, Action::encode) - count(fused, Action::encode) == 2 * 8 * 2);
}

TEST_CASE("dropout in front of adapters is a pass either way, and keeps a mask", "[plan][lora]") {
  const Model model = test::transformer(1);
  Layout layout = lora();
  const Plan whole = test::checked_plan(model, layout);
  layout.lora_dropout = 0.1;
  const Plan dropped = test::checked_plan(model, layout);
  const int linears = 4 * 8 * 2;
  CHECK(count(dropped.programs[0], Action::adapt) ==
        count(whole.programs[0], Action::adapt) + 2 * linears);
  CHECK(bytes_moved(dropped.programs[0], Action::adapt) >
        bytes_moved(whole.programs[0], Action::adapt));
}

TEST_CASE("orders of frozen weights need 8-bit parameters with one scale", "[plan][lora]") {
  Model model = test::transformer(1);
  Layout layout = frozen_in_eight_bits(FrozenOrders::one);
  CHECK_FALSE(says(layout, model, "lora.orders"));
  layout.eight_bit_parameters = false;
  CHECK(says(layout, model, "lora.orders"));
  layout.eight_bit_parameters = true;
  model.execution.eight_bit = EightBit::transformer_engine_mxfp8;
  CHECK(says(layout, model, "lora.orders"));
  Layout none = test::layout_for(1, 1, 1, 2);
  none.lora_dropout = 0.1;
  CHECK(says(none, model, "lora.rank"));
}

TEST_CASE("of QLoRA frozen linears have 4 bits and are made 16 for each use", "[plan][lora]") {
  const Model model = test::transformer(1);
  Layout layout = lora();
  const std::int64_t sixteen =
      bytes_of(test::checked_plan(model, layout).programs[0], BufferCategory::weights);
  layout.frozen_format = FrozenFormat::nf4;
  const Program program = test::checked_plan(model, layout).programs[0];
  double saved = 0;
  for (const Block& layer : model.layers)
    for (const ModelOp& op : layer.ops)
      if (op.kind == ModelOpKind::linear)
        saved += static_cast<double>(op.weights) * (2 - nf4_bytes);
  CHECK(std::abs(static_cast<double>(sixteen - bytes_of(program, BufferCategory::weights)) -
                 saved) < 40);
  CHECK(count(program, Action::encode) == 2 * (4 * 8 + 4 * 8));
}

TEST_CASE("of LLM.int8 frozen linears have 8 bits and multiply in them", "[plan][lora]") {
  const Model model = test::transformer(1);
  Layout layout = lora();
  const Program sixteen = test::checked_plan(model, layout).programs[0];
  layout.frozen_format = FrozenFormat::int8;
  const Program program = test::checked_plan(model, layout).programs[0];
  double saved = 0;
  for (const Block& layer : model.layers)
    for (const ModelOp& op : layer.ops)
      if (op.kind == ModelOpKind::linear)
        saved += static_cast<double>(op.weights) * (2 - int8_bytes(op.in_features));
  CHECK(std::abs(static_cast<double>(bytes_of(sixteen, BufferCategory::weights) -
                                     bytes_of(program, BufferCategory::weights)) -
                 saved) < 40);
  // Inputs forward, weights backward: no weight is cast forward.
  CHECK(count(program, Action::encode) == 2 * (4 * 8 + 4 * 8));
  CHECK(flops_of(program, Action::forward) < flops_of(sixteen, Action::forward));
  CHECK(flops_of(program, Action::input_gradient) == flops_of(sixteen, Action::input_gradient));
  const int before = count(program, Action::forward);
  layout.outlier_share = 0.01;
  const Program outliers = test::checked_plan(model, layout).programs[0];
  CHECK(count(outliers, Action::forward) == before + 2 * (2 * 4 * 8));
  layout.zero_stage = 3;
  layout.data_parallel = 2;
  CHECK(says(layout, model, "lora.base"));
}
