// Products in NVFP4, layers that stay in 16 bits, and packed sequences.
#include <cmath>
#include <stdexcept>

#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/flop_count.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

constexpr double order = 0.5 + 1.0 / 16;  // bytes of an element, with its scale

Layout four_bits(int tensor, int data = 1) {
  Layout layout = test::layout_for(tensor, data, 1, 2);
  layout.compute_dtype = DType::nvfp4;
  layout.sequence_parallel = tensor > 1;
  return layout;
}

const ShardedOp& named(const ShardedBlock& block, std::string_view name) {
  for (const ShardedOp& op : block.ops)
    if (op.op->name == name) return op;
  throw std::out_of_range(std::string{name});
}
const ShardedBlock& layer(const ShardedModel& model, std::size_t i) {
  return model.blocks[model.of_layer[i]];
}

double bytes_each(const std::optional<Kernel>& cast) {
  if (!cast) return 0;
  return static_cast<double>(cast->bytes.count()) /
         (static_cast<double>(cast->m) * static_cast<double>(cast->n));
}

double attention_flops(const Program& program) {
  double flops = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    if (program.kind[op] == OpKind::attention)
      flops += program.kernels[program.work[op]].flops.count();
  return flops;
}

}  // namespace

TEST_CASE("NVFP4 takes a maximum, then casts in both orders", "[plan][nvfp4]") {
  const Model model = test::transformer(1);
  const ShardedModel alone = shard(model, four_bits(1));
  constexpr double both = 2 + 2 + 2 * order;
  for (const char* name : {"qkv", "mlp_down"}) {
    const ShardedOp& op = named(layer(alone, 0), name);
    CHECK(bytes_each(op.encode_input) == both);
    CHECK(bytes_each(op.encode_gradient) == both);
    CHECK(bytes_each(op.encode_weight) == both);
    CHECK_FALSE(op.encode_saved);
    CHECK(op.forward->dtype == DType::nvfp4);
    CHECK(op.weight_gradient->dtype == DType::nvfp4);
  }
  const double kept = 128.0 * static_cast<double>(model.hidden) * order;
  CHECK(named(layer(alone, 0), "qkv").saved == Bytes{std::llround(kept)});
  // Tensors that are gathered over the tensor group are cast before, by each rank of its own
  // tokens.
  const ShardedModel split = shard(model, four_bits(2));
  CHECK(bytes_each(named(layer(split, 0), "qkv").encode_input) == both / 2);
  CHECK(named(layer(split, 0), "qkv").gathered_element == order);
}

TEST_CASE("NVFP4 gives sound plans, of torchao, too", "[plan][nvfp4]") {
  Model model = test::transformer(1);
  for (const int tensor : {1, 2})
    for (const bool parameters : {false, true}) {
      Layout layout = four_bits(tensor, 2);
      layout.zero_stage = 1;
      layout.eight_bit_parameters = parameters;
      CAPTURE(tensor, parameters);
      test::checked_plan(model, layout);
    }
  model.execution.eight_bit = EightBit::torchao;
  test::checked_plan(model, four_bits(1));
}

TEST_CASE("layers at the ends that multiply in 16 bits", "[plan][nvfp4]") {
  const Model model = test::transformer(1);
  Layout layout = four_bits(1);
  layout.first_bf16_layers = 1;
  layout.last_bf16_layers = 2;
  test::checked_plan(model, layout);
  const ShardedModel sharded = shard(model, layout);
  const auto format = [&](std::size_t i) { return named(layer(sharded, i), "qkv").forward->dtype; };
  CHECK(format(0) == DType::bf16);
  CHECK(format(1) == DType::nvfp4);
  CHECK(format(5) == DType::nvfp4);
  CHECK(format(6) == DType::bf16);
  CHECK(format(7) == DType::bf16);
  CHECK_FALSE(named(layer(sharded, 7), "qkv").encode_weight);
  layout.compute_dtype = DType::bf16;
  CHECK(layout_problems(layout, model).front().key == std::string{"bf16_layers"});
  layout.compute_dtype = DType::fp8;
  layout.last_bf16_layers = 8;
  CHECK(layout_problems(layout, model).front().key == std::string{"bf16_layers"});
}

TEST_CASE("attention of packed sequences costs the squares of their lengths", "[plan][packed]") {
  const Model model = test::transformer(1);
  Layout layout = test::layout_for(1, 1, 1, 2);
  const double whole = attention_flops(test::checked_plan(model, layout).programs[0]);
  for (const std::int64_t parts : {1, 2, 4, 16}) {
    layout.packed_length = 128 / parts;
    const double packed = attention_flops(test::checked_plan(model, layout).programs[0]);
    CHECK(packed == Approx(whole / static_cast<double>(parts)).epsilon(1e-12));
  }
  layout.packed_length = 0;
  const double all = model_flops(model, layout, AttentionCount::full).count();
  layout.packed_length = 128;
  CHECK(model_flops(model, layout, AttentionCount::full).count() == all);
  layout.packed_length = 64;
  CHECK(model_flops(model, layout, AttentionCount::full).count() < all);
  layout.packed_length = 129;
  CHECK(layout_problems(layout, model).front().key == std::string{"packed_length"});
}
