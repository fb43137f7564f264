#include "sim/plan/sharding/sharding.hpp"

#include <algorithm>
#include <string>

#include "sim/framework/framework.hpp"
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

TEST_CASE("an eager loss over a split vocabulary is in more kernels", "[plan][sharding]") {
  TransformerShape shape;
  shape.layers = 1;
  shape.hidden = shape.feed_forward = shape.vocabulary = 256;
  shape.heads = shape.kv_heads = 4;
  shape.head_dim = 64;
  shape.max_sequence = 128;
  Model model = build_transformer(shape);
  Framework framework = framework_of(FrameworkName::pytorch);
  run_with(framework, model);
  const auto passes = [&](int tensor) {
    const Layout layout = test::layout_for(tensor, 1, 1, 1);
    const ShardedModel sharded = shard(model, layout);
    const ShardedOp& loss = op_of(sharded, *sharded.output, "cross_entropy");
    CHECK(loss.splits_loss == (tensor > 1));
    const auto logits = static_cast<double>(loss.input.count());
    return std::pair{static_cast<double>(loss.forward->bytes.count()) / logits,
                     static_cast<double>(loss.backward->bytes.count()) / logits};
  };
  CHECK(passes(1) == std::pair{11.0, 13.0});
  CHECK(passes(2) == std::pair{19.0, 19.0});
  model.execution.gathers_logits = true;
  const ShardedModel whole = shard(model, test::layout_for(2, 1, 1, 1));
  CHECK_FALSE(op_of(whole, *whole.output, "cross_entropy").splits_loss);
}

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

// Traffic of an unfused attention by passes over its scores: what a dropout and an eager softmax
// add runs beside the softmax itself, and the fused softmax of a causal mask reads half.
TEST_CASE("An unfused attention moves its scores as its kernels do", "[plan][sharding]") {
  Model model = test::gpt({.layers = 1});
  Layout layout = test::layout_for(1, 1, 1, 1);
  layout.attention = AttentionKernel::unfused;
  const double scores = 4.0 * 128 * 128 * 2;  // heads, queries, keys, bytes
  struct Passes {
    double all, beside;
  };
  // Passes beyond those of Q, K, V and the output.
  const auto passes = [&](bool backward) {
    const ShardedModel sharded = shard(model, layout);
    const ShardedOp& op = op_of(sharded, sharded.of_layer[0], "attention");
    const Kernel& kernel = backward ? *op.backward : *op.forward;
    const double elements = backward ? op.op->backward_elements : op.op->forward_elements;
    const double operands = elements * 128 * 2;
    return Passes{(static_cast<double>(kernel.bytes.count()) - operands) / scores,
                  static_cast<double>(kernel.beside.count()) / scores};
  };
  AttentionShape& shape = model.attention;
  shape.causal = shape.dropout = shape.eager_softmax = false;
  CHECK(passes(false).all == 2 + 2);
  CHECK(passes(false).beside == 0);
  CHECK(passes(true).all == 4 + 3);
  shape.causal = true;
  CHECK(passes(false).all == 2 + 1.5);
  CHECK(passes(true).all == 4 + 2);
  shape.dropout = true;
  CHECK(passes(false).all == 2 + 1.5 + 2.5);
  CHECK(passes(false).beside == 2.5);
  CHECK(passes(true).beside == 2.5);
  shape.eager_softmax = true;  // masked by a kernel of its own, so nothing is skipped
  CHECK(passes(false).all == 2 + 4 + 8 + 2.5);
  CHECK(passes(false).beside == 8 + 2.5);
  CHECK(passes(true).all == 4 + 6 + 8 + 2.5);
}

// Megatron-LM and Megatron-DeepSpeed, megatron/model/fused_softmax.py: attn_batch_size % 4 == 0.
TEST_CASE("Megatron's fused softmax takes four matrices of scores at a time", "[plan][sharding]") {
  Model model = test::gpt({.layers = 1});  // 4 heads
  const auto launches = [&](int tensor, int micro_batch) {
    Layout layout = test::layout_for(tensor, 1, 1, micro_batch);
    layout.micro_batch = micro_batch;
    layout.attention = AttentionKernel::unfused;
    const ShardedModel sharded = shard(model, layout);
    return op_of(sharded, sharded.of_layer[0], "attention").forward->launches;
  };
  CHECK(launches(2, 1) == launches(1, 1));
  model.attention.softmax_in_fours = true;
  CHECK(launches(1, 1) == launches(2, 2));
  CHECK(launches(2, 1) == launches(1, 1) + 3);  // casts and mask
}
