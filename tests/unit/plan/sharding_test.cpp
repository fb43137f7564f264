#include "sim/plan/sharding.hpp"

#include <algorithm>
#include <string>

#include "sim/model/transformer.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

const ShardedOp& op_of(const ShardedModel& sharded, std::uint32_t block, const std::string& name) {
  const std::vector<ShardedOp>& ops = sharded.blocks[block].ops;
  const auto found = std::find_if(ops.begin(), ops.end(),
                                  [&](const ShardedOp& op) { return op.op->name == name; });
  REQUIRE(found != ops.end());
  return *found;
}

}  // namespace

TEST_CASE("Only the table, the head and the loss are padded", "[plan][sharding]") {
  // Feed-forward and hidden features are as many as the vocabulary has tokens. At t = 4 the
  // vocabulary becomes 512, the next multiple of 128 t; everything else stays 256, over 4 ranks 64.
  TransformerShape shape;
  shape.name = "wide as its vocabulary";
  shape.layers = 1;
  shape.hidden = shape.feed_forward = shape.vocabulary = 256;
  shape.heads = shape.kv_heads = 4;
  shape.head_dim = 64;
  shape.max_sequence = 128;
  shape.mlp_bias = true;
  shape.activation = Activation::gelu;
  const Model model = build_transformer(shape);
  const Layout layout = test::layout_for(4, 1, 1, 1);
  REQUIRE(layout_problems(layout, model).empty());
  const ShardedModel sharded = shard(model, layout);
  const std::int64_t tokens = layout.micro_batch * layout.sequence_length;

  const ShardedOp& up = op_of(sharded, sharded.of_layer[0], "mlp_up");
  CHECK(up.forward->n == 256 / 4);
  CHECK(up.parameters == 256 * 64 + 64);
  CHECK(up.whole_output == Bytes{tokens * 64 * 2});
  const ShardedOp& activation = op_of(sharded, sharded.of_layer[0], "activation");
  CHECK(activation.input == Bytes{tokens * 64 * 2});
  const ShardedOp& down = op_of(sharded, sharded.of_layer[0], "mlp_down");
  CHECK(down.forward->n == 256);
  CHECK(down.forward->k == 256 / 4);

  const ShardedOp& table = op_of(sharded, *sharded.input, "embedding");
  CHECK(table.parameters == 512 / 4 * 256);
  const ShardedOp& head = op_of(sharded, *sharded.output, "head");
  CHECK(head.forward->n == 512 / 4);
  CHECK(head.parameters == 512 / 4 * 256);
  CHECK(head.sums_gradient);
  const ShardedOp& loss = op_of(sharded, *sharded.output, "cross_entropy");
  CHECK(loss.input == Bytes{tokens * (512 / 4) * 2});
  CHECK(loss.saved == Bytes{tokens * (512 / 4) * 4});
}
