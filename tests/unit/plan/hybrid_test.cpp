// Layers that differ, scans and sparse attention: who holds what, what travels, what is computed.
#include <algorithm>

#include "sim/model/transformer.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/models.hpp"
#include "tests/unit/plan/random_layout.hpp"

using namespace sim;

namespace {

TransformerShape plain_shape() {
  TransformerShape shape;
  shape.name = "hybrid";
  shape.hidden = 64;
  shape.heads = 8;
  shape.kv_heads = 4;
  shape.head_dim = 8;
  shape.feed_forward = 128;
  shape.vocabulary = 1'000;
  shape.norm = NormKind::rms;
  shape.activation = Activation::squared_relu;
  shape.positions = Positions::none;
  return shape;
}

TransformerShape patterned(const std::string& pattern) {
  TransformerShape shape = plain_shape();
  for (const char letter : pattern)
    REQUIRE(append_letter(shape.hybrid.layers, letter));
  shape.layers = static_cast<std::int64_t>(pattern.size());
  if (shape.hybrid.has(Mixer::mamba2))
    shape.hybrid.mamba = {.heads = 16, .head_dim = 8, .groups = 4, .state = 16};
  if (shape.hybrid.has(Mixer::gated_delta_net))
    shape.hybrid.delta_net = {.key_heads = 4, .value_heads = 8, .key_dim = 8, .value_dim = 16};
  if (shape.hybrid.has(FeedForward::experts))
    shape.experts = {.count = 8, .per_token = 2, .feed_forward = 32, .shared_feed_forward = 16};
  REQUIRE(hybrid_problem(shape).empty());
  return shape;
}

// Uneven layers as neural architecture search leaves them.
TransformerShape searched() {
  TransformerShape shape = plain_shape();
  shape.positions = Positions::rotary;
  shape.activation = Activation::swiglu;
  shape.hybrid.layers = {{.kv_heads = 8, .width = 64},
                         {.mixer = Mixer::none},
                         {.mixer = Mixer::linear, .feed_forward = FeedForward::none},
                         {.feed_forward = FeedForward::linear}};
  shape.layers = 4;
  return shape;
}

TransformerShape sparse() {
  TransformerShape shape = plain_shape();
  shape.layers = 2;
  shape.positions = Positions::rotary;
  shape.activation = Activation::swiglu;
  shape.kv_heads = shape.heads;
  shape.latent = {
      .query_rank = 32, .key_value_rank = 16, .plain_dim = 8, .rotary_dim = 4, .value_dim = 8};
  shape.head_dim = 12;
  shape.sparse = {.index_heads = 4, .index_dim = 8, .top_keys = 64};
  return shape;
}

// As transformers runs it, the one that has such layers.
Model side_by_side() {
  TransformerShape shape = plain_shape();
  shape.layers = 2;
  shape.positions = Positions::rotary;
  shape.activation = Activation::swiglu;
  shape.residual_scale = true;
  shape.hybrid.mamba = {.heads = 16, .head_dim = 8, .groups = 4, .state = 16, .norm = false};
  shape.hybrid.layers.assign(2, {.mixer = Mixer::attention_mamba2});
  REQUIRE(hybrid_problem(shape).empty());
  Model model = build_transformer(shape);
  model.execution.adds_gradients = true;
  return model;
}

Layout layout_of(int tensor, int data, int pipeline) {
  Layout layout = test::layout_for(tensor, data, pipeline, 2 * pipeline);
  layout.sequence_parallel = tensor > 1;
  return layout;
}

std::vector<std::string> keys_of(const Layout& layout, const Model& model) {
  std::vector<std::string> keys;
  for (const LayoutProblem& problem : layout_problems(layout, model))
    keys.push_back(problem.key);
  return keys;
}

bool refuses(const Layout& layout, const Model& model, const std::string& key) {
  const std::vector<std::string> keys = keys_of(layout, model);
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

const ShardedOp& op_named(const ShardedModel& model, std::string_view name) {
  for (const ShardedBlock& block : model.blocks)
    for (const ShardedOp& op : block.ops)
      if (op.op->name == name) return op;
  FAIL(std::string{name});
  return model.blocks.front().ops.front();
}

std::vector<Collective> exchanges(const Program& program, Pass pass) {
  std::vector<Collective> calls;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.kind[i] != OpKind::collective || program.pass[i] != pass) continue;
    const Collective& call = program.collectives[program.work[i]];
    if (call.group == GroupRole::context) calls.push_back(call);
  }
  return calls;
}

}  // namespace

TEST_CASE("Plans of hybrid models are sound in any legal layout", "[plan][hybrid]") {
  const TransformerShape shapes[] = {patterned("M-M*-M-M"), patterned("MEG*-EM*"),
                                     patterned("GGG*GGG*"), searched(), sparse()};
  int legal = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const TransformerShape& shape = shapes[seed % 5];
    const Model model = build_transformer(shape);
    Layout layout = test::random_layout(seed);
    layout.expert_parallel = shape.experts.count > 0 ? 1 << (seed / 5 % 3) : 1;
    layout.sequence_parallel = layout.tensor_parallel > 1;
    if (shape.experts.count > 0) layout.zero_stage %= 2;
    layout.attention = AttentionKernel::flash;
    if (layout.recompute == Recompute::operators) layout.recompute = Recompute::full;
    if (!layout_problems(layout, model).empty()) continue;
    ++legal;
    CAPTURE(seed, test::to_text(layout));
    REQUIRE_NOTHROW(check_plan(make_plan(model, layout)));
  }
  CHECK(legal > 60);
}

TEST_CASE("Tensor ranks share the heads of a scan, and all of its parameters", "[plan][hybrid]") {
  const Model model = build_transformer(patterned("MG*-"));
  const ShardedModel whole = shard(model, layout_of(1, 1, 1));
  const ShardedModel half = shard(model, layout_of(2, 1, 1));
  for (const char* name : {"mamba_convolution", "mamba_scan", "mamba_norm", "delta_convolution",
                           "delta_gates", "delta_scan"}) {
    CAPTURE(name);
    const ShardedOp &all = op_named(whole, name), &part = op_named(half, name);
    CHECK(part.parameters * 2 == all.parameters);
    CHECK(part.tensor_summed == 0);
    CHECK(part.saved.count() * 2 == all.saved.count());
    CHECK(part.forward->bytes.count() * 2 == all.forward->bytes.count());
    CHECK(part.forward->flops.count() * 2 == all.forward->flops.count());
    CHECK(part.backward->flops.count() * 2 == all.backward->flops.count());
  }
  // All heads of a gated delta net have one scale.
  CHECK(op_named(half, "delta_norm").parameters == op_named(whole, "delta_norm").parameters);
  CHECK(op_named(half, "delta_norm").tensor_summed == 16);
}

// With 16 heads in 4 groups: z, x, B, C and the steps go to the ranks that have the heads, what the
// scan makes comes back. With 8 ranks B and C are sent twice.
TEST_CASE("Context ranks exchange what a scan reads", "[plan][hybrid]") {
  for (const int c : {2, 4, 8}) {
    CAPTURE(c);
    const Model model = build_transformer(patterned("M"));
    Layout layout = test::context_layout(c, ContextExchange::ring);
    const Plan plan = test::checked_plan(model, layout);
    const std::int64_t tokens = layout.tokens_held() * 2;  // bytes of a feature
    const std::int64_t copies = c > 4 ? c / 4 : 1;
    std::vector<std::int64_t> bytes;
    for (const Collective& call : exchanges(plan.programs[0], Pass::forward)) {
      CHECK(call.kind == CollectiveKind::all_to_all);
      bytes.push_back(call.bytes.count() / tokens);
    }
    CHECK(bytes == std::vector<std::int64_t>{128, 128, 64 * copies, 64 * copies, 16, 128});
    CHECK(exchanges(plan.programs[0], Pass::backward).size() == 6);
    const ShardedModel one = shard(model, test::context_layout(1, ContextExchange::ring));
    const ShardedModel share = shard(model, layout);
    CHECK(op_named(share, "mamba_scan").forward->flops.count() * c ==
          op_named(one, "mamba_scan").forward->flops.count());
  }
}

TEST_CASE("Uneven layers lie on stages as listed, and none is lost", "[plan][hybrid]") {
  const Model model = build_transformer(patterned("M-M*-EME"));
  Layout layout = layout_of(1, 1, 2);
  layout.layers_per_chunk = {3, 5};
  const Plan plan = test::checked_plan(model, layout);
  const ShardedModel sharded = shard(model, layout);
  CHECK(sharded.first_layer == std::vector<int>{0, 3, 8});
  std::int64_t sum = 0;
  for (const std::uint32_t layer : sharded.of_layer)
    for (const ShardedOp& op : sharded.blocks[layer].ops)
      sum += op.parameters;
  std::int64_t all = 0;
  for (const Block& layer : model.layers)
    all += layer.parameters();
  CHECK(sum == all);
  // As many blocks as there are kinds of layers, the embedding and the head.
  CHECK(sharded.blocks.size() == 4 + 2);
}

TEST_CASE("A layer has the key/value heads and the width of its own", "[plan][hybrid]") {
  const Model model = build_transformer(searched());
  const ShardedModel sharded = shard(model, layout_of(2, 1, 1));
  std::vector<std::int64_t> heads;
  for (const std::uint32_t layer : sharded.of_layer)
    for (const ShardedOp& op : sharded.blocks[layer].ops)
      if (op.op->kind == ModelOpKind::attention) heads.push_back(op.forward->kv_heads);
  CHECK(heads == std::vector<std::int64_t>{4, 2});
  CHECK(op_named(sharded, "mlp_down").op->in_features == 64);
  // DeciLM's linear replacements are whole on every rank.
  CHECK(op_named(sharded, "attention_linear").parameters == 64 * 64);
  Layout wide = layout_of(8, 1, 1);
  CHECK(refuses(wide, model, "tensor_parallel"));  // 4 key/value heads in layer 3
}

TEST_CASE("What hybrid models are not modelled with is refused by key", "[plan][hybrid]") {
  const Model mamba = build_transformer(patterned("M-M-"));
  CHECK(keys_of(layout_of(4, 1, 1), mamba).empty());
  CHECK(refuses(layout_of(8, 1, 1), mamba, "tensor_parallel"));  // 4 groups
  Layout three = test::context_layout(2, ContextExchange::ring);
  three.tensor_parallel = 4;
  three.sequence_parallel = true;
  CHECK(keys_of(three, mamba).empty());  // two ranks for each group
  three.context_parallel = 8;            // 4 heads of a tensor rank
  CHECK(refuses(three, mamba, "context_parallel"));
  Layout operators = layout_of(1, 2, 1);
  operators.recompute = Recompute::operators;
  CHECK(refuses(operators, mamba, "recompute"));
  Model eager = mamba;
  eager.execution.adds_gradients = true;
  CHECK(refuses(layout_of(2, 1, 1), eager, "tensor_parallel"));
  Layout merged = layout_of(1, 2, 1);
  merged.overlap_expert_exchange = true;
  CHECK(refuses(merged, build_transformer(patterned("ME*E")), "overlap.expert_exchange"));
  Layout modules = layout_of(1, 2, 1);
  modules.recompute = Recompute::selective;
  modules.recompute_modules = {RecomputeModule::moe};
  CHECK(refuses(modules, mamba, "recompute_modules"));
  const Model indexed = build_transformer(sparse());
  CHECK(keys_of(layout_of(1, 2, 1), indexed).empty());
  CHECK(keys_of(layout_of(2, 1, 1), indexed).empty());
  CHECK(refuses(test::context_layout(2, ContextExchange::ring), indexed, "context_exchange"));
}

TEST_CASE("Attention and Mamba-2 side by side read one norm, and are summed", "[plan][hybrid]") {
  Model model = side_by_side();
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full})
    for (const int zero : {0, 1, 3}) {
      Layout layout = layout_of(1, 4, 1);
      layout.recompute = recompute;
      layout.zero_stage = zero;
      CAPTURE(zero, word(recompute));
      REQUIRE(keys_of(layout, model).empty());
      REQUIRE_NOTHROW(check_plan(make_plan(model, layout)));
    }
  CHECK(refuses(layout_of(2, 1, 1), model, "tensor_parallel"));
  model.execution = {};
  CHECK(refuses(layout_of(1, 2, 1), model, "framework"));
}

TEST_CASE("Longer sequences than a chunk of attention are refused", "[plan][hybrid]") {
  TransformerShape shape = plain_shape();
  shape.layers = 2;
  Layout layout = layout_of(1, 2, 1);
  shape.attention_chunk = layout.sequence_length;
  CHECK(keys_of(layout, build_transformer(shape)).empty());
  shape.attention_chunk = layout.sequence_length - 1;
  CHECK(refuses(layout, build_transformer(shape), "sequence_length"));
}

// Neither scores nor a loss: attention alone, forward and backward.
TEST_CASE("A layer without an indexer takes the keys that were chosen", "[plan][hybrid]") {
  TransformerShape shape = sparse();
  shape.sparse.indexers.layers = {0};
  const Model model = build_transformer(shape);
  Layout layout = layout_of(1, 1, 1);
  layout.sequence_length = 64;
  const ShardedModel sharded = shard(model, layout);
  REQUIRE_NOTHROW(check_plan(make_plan(model, layout)));
  std::vector<double> forward, backward;
  for (const ShardedBlock& block : sharded.blocks)
    for (const ShardedOp& op : block.ops)
      if (op.op->kind == ModelOpKind::attention) {
        forward.push_back(op.forward->flops.count());
        backward.push_back(op.backward->flops.count());
      }
  const double pairs = 64.0 * 64 / 2;
  REQUIRE(forward.size() == 2);
  CHECK(forward[1] == Approx(2 * pairs * 8 * (20 + 16)));
  CHECK(backward[1] == Approx(2 * pairs * 8 * (2 * 36 + 20)));
  CHECK(forward[0] > forward[1]);
}

// 64 chosen of 128 tokens: half of the pairs of a window, 1 - 1/4; all of 64.
TEST_CASE("Sparse attention computes what is chosen, and the scores of all", "[plan][hybrid]") {
  const Model model = build_transformer(sparse());
  for (const std::int64_t tokens : {64, 128}) {
    CAPTURE(tokens);
    Layout layout = layout_of(1, 1, 1);
    layout.sequence_length = tokens;
    const ShardedModel sharded = shard(model, layout);
    const double pairs = static_cast<double>(tokens * tokens) / 2;
    const double chosen = pairs * (tokens == 64 ? 1 : 0.75);
    const double scores = 2 * pairs * 4 * 8;
    const Kernel& forward = *op_named(sharded, "attention").forward;
    CHECK(forward.kind == OpKind::generic);
    CHECK(forward.flops.count() == Approx(scores + 2 * chosen * 8 * (20 + 16 + 20)));
    const Kernel& backward = *op_named(sharded, "attention").backward;
    CHECK(backward.flops.count() == Approx(2 * chosen * (8 * (2 * 36 + 20) + 2 * 32)));
  }
}

// The indexer is whole on every tensor rank, heads are divided; of context ranks each has its share
// of the pairs.
TEST_CASE("Sparse attention is divided over tensor and context ranks", "[plan][hybrid]") {
  const Model model = build_transformer(sparse());
  const TransformerShape& shape = *model.shape;
  const Layout alone = layout_of(1, 1, 1);
  const ShardedModel whole = shard(model, alone), half = shard(model, layout_of(2, 1, 1));
  const ShardedOp &indexer = op_named(whole, "indexer"), &shared = op_named(half, "indexer");
  CHECK(shared.forward->flops.count() == indexer.forward->flops.count());
  CHECK(shared.forward->bytes == indexer.forward->bytes);
  const std::int64_t tokens = alone.micro_batch * alone.sequence_length;
  CHECK(shared.gathered_beside.count() == tokens * (shape.hidden + 32) * 2);
  CHECK(shared.summed_beside.count() == tokens * std::min<std::int64_t>(64, tokens) * 4);
  CHECK(indexer.gathered_beside == Bytes{});
  CHECK(shared.tensor_summed == shared.parameters);
  const Plan plan = test::checked_plan(model, layout_of(2, 1, 1));
  int gathers = 0, sums = 0;
  const Program& program = plan.programs.front();
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.kind[i] != OpKind::collective) continue;
    const Bytes bytes = program.collectives[program.work[i]].bytes;
    gathers += bytes == shared.gathered_beside ? 1 : 0;
    sums += bytes == shared.summed_beside ? 1 : 0;
  }
  CHECK(gathers == 2 * 2);  // layers, micro-batches
  CHECK(sums >= 2 * 2);

  Layout context = alone;
  context.context_parallel = 2;
  CHECK(refuses(context, model, "context_exchange"));
  context.context_exchange = ContextExchange::all_gather;
  const ShardedModel split = shard(model, context);
  CHECK(op_named(split, "attention").forward->flops.count() * 2 ==
        Approx(op_named(whole, "attention").forward->flops.count()));
  const Plan gathered = test::checked_plan(model, context);
  const std::vector<Collective> calls = exchanges(gathered.programs.front(), Pass::forward);
  REQUIRE_FALSE(calls.empty());
  CHECK(calls.front().kind == CollectiveKind::all_gather);
  CHECK(calls.front().bytes.count() == tokens * (16 + 4 + 8) * 2);

  Layout plain = layout_of(2, 1, 1);
  plain.sequence_parallel = false;
  CHECK(refuses(plain, model, "sequence_parallel"));
}
