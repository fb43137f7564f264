// Recomputation by operators, as torchtitan's save list has it.
#include <map>
#include <string>

#include "sim/memory/arena.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/sharding/flop_count.hpp"
#include "sim/plan/sharding/kept_set.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

// Queries, keys and values apart, a gate and what it gates too.
Model torchtitan_like() {
  Model model = test::transformer(1);
  model.execution.separate_products = true;
  return model;
}

Layout by_operators(Layout layout) {
  layout.recompute = Recompute::operators;
  return layout;
}

// The share of the operator's forward pass that runs again.
double share_of(const Block& layer, const KeptSet& kept, const std::string& name) {
  for (std::size_t i = 0; i < layer.ops.size(); ++i)
    if (layer.ops[i].name == name) return kept.share_again(i);
  throw std::out_of_range(name);
}

// How many operators of a layer run again under full recomputation.
std::size_t run_again(const Model& model) {
  Layout full;
  full.recompute = Recompute::full;
  return kept_set(model.layers[0], model, full).replays.front().ops.size();
}

}  // namespace

TEST_CASE("Every second product of a layer runs again, attention does not", "[plan]") {
  const Model model = torchtitan_like();  // q, k, v, output, gate, up, down: k, output, up
  const Block& layer = model.layers[0];
  const Layout layout = by_operators(test::layout_for(1, 1, 1, 1));
  const KeptSet kept = kept_set(layer, model, layout);
  const auto keys = static_cast<double>(model.attention.kv_heads);
  const auto heads = static_cast<double>(model.attention.heads);
  CHECK(share_of(layer, kept, "qkv") == keys / (heads + 2 * keys));
  CHECK(share_of(layer, kept, "attention") == 0);
  CHECK(share_of(layer, kept, "attention_projection") == 1);
  CHECK(share_of(layer, kept, "mlp_up") == 0.5);
  CHECK(share_of(layer, kept, "mlp_down") == 0);
  CHECK(share_of(layer, kept, "activation") == 1);
  // Sums over the group are kept.
  const Layout split = by_operators(test::layout_for(2, 1, 1, 1));
  CHECK(share_of(layer, kept_set(layer, model, split), "attention_projection") == 0);
}

TEST_CASE("Products that a framework runs at once are kept or run again at once", "[plan]") {
  Model model = test::transformer(1);  // qkv, output, gate and up, down: output
  const Block& layer = model.layers[0];
  const Layout layout = by_operators(test::layout_for(1, 1, 1, 1));
  const auto share = [&](const Layout& of, const char* name) {
    return share_of(layer, kept_set(layer, model, of), name);
  };
  CHECK(keeps_tensors(model.execution, layout));
  CHECK(share(layout, "qkv") == 0);
  CHECK(share(layout, "attention") == 0);
  CHECK(share(layout, "attention_projection") == 1);
  CHECK(share(layout, "mlp_up") == 0);
  CHECK(share(layout, "mlp_down") == 0);  // nothing behind it keeps what it makes
  CHECK(share(by_operators(test::layout_for(2, 1, 1, 1)), "attention_projection") == 0);
  Model post = test::transformer(1);
  post.layers[0].ops.back().saved_elements = 1;
  CHECK(kept_set(post.layers[0], post, layout).share_again(layer.ops.size() - 2) == 1);
  model.execution.separate_products = true;
  CHECK_FALSE(keeps_tensors(model.execution, layout));
}

TEST_CASE("A kept output is one tensor from the forward pass to the backward pass", "[plan]") {
  const Model model = test::transformer(1);
  const int tensor = GENERATE(1, 2);
  Layout layout = test::layout_for(tensor, 1, 1, 1);
  const auto peak = [&](Recompute recompute) {
    layout.recompute = recompute;
    return arena_layout(make_plan(model, layout).programs[0]).size;
  };
  CHECK(peak(Recompute::full) < peak(Recompute::operators));
  CHECK(peak(Recompute::operators) < peak(Recompute::none));
  layout.recompute = Recompute::operators;
  const Plan plan = make_plan(model, layout);
  check_plan(plan);
  std::map<std::string, int> again;
  for (std::uint32_t i = 0; i < plan.programs[0].size(); ++i)
    if (plan.programs[0].pass[i] == Pass::recompute) ++again[plan.programs[0].name({i})];
  const int each = again["activation"];
  CHECK(each > 0);
  CHECK(again["input_norm"] == each);
  CHECK(again["attention_projection"] == (tensor == 1 ? each : 0));
  for (const char* name : {"qkv", "attention", "mlp_up", "mlp_down", "mlp_residual"})
    CHECK(again[name] == 0);
}

TEST_CASE("What runs again and what is kept lie between none and full", "[plan]") {
  const Model model = GENERATE(torchtitan_like(), test::transformer(1));
  Layout layout = test::layout_for(1, 1, 1, 1);
  const auto flops = [&](Recompute recompute) {
    layout.recompute = recompute;
    return hardware_flops(model, layout, AttentionCount::full).count();
  };
  const auto peak = [&](Recompute recompute) {
    layout.recompute = recompute;
    const Plan plan = make_plan(model, layout);
    Bytes kept{};
    for (const Buffer& buffer : plan.programs[0].buffers)
      if (buffer.category == BufferCategory::activations) kept += buffer.size;
    return kept;
  };
  CHECK(flops(Recompute::none) < flops(Recompute::operators));
  CHECK(flops(Recompute::operators) < flops(Recompute::full));
  CHECK(peak(Recompute::operators).count() > 0);
}

TEST_CASE("Full recomputation may end at the last tensor to keep", "[plan]") {
  Model model = test::transformer(1);
  const Block& layer = model.layers[0];
  CHECK(run_again(model) == layer.ops.size());
  model.execution.stops_recomputation = true;
  const std::size_t end = run_again(model);
  REQUIRE(end < layer.ops.size());
  CHECK(layer.ops[end].name == "mlp_down");

  Layout layout = test::layout_for(2, 1, 1, 1);
  layout.recompute = Recompute::full;
  layout.sequence_parallel = true;
  const auto again = [&](const Program& program, const std::string& name) {
    int found = 0;
    for (std::uint32_t i = 0; i < program.size(); ++i)
      found += program.name({i}) == name && program.pass[i] == Pass::recompute ? 1 : 0;
    return found;
  };
  const Plan early = make_plan(model, layout);
  check_plan(early);
  const int each = again(early.programs[0], "activation");
  CHECK(each > 0);
  CHECK(again(early.programs[0], "attention_projection") == each);
  CHECK(again(early.programs[0], "attention_projection.reduce_scatter") == each);
  for (const char* name : {"mlp_down", "mlp_down.reduce_scatter", "mlp_residual"})
    CHECK(again(early.programs[0], name) == 0);

  const double shorter = hardware_flops(model, layout, AttentionCount::full).count();
  model.execution.stops_recomputation = false;
  const double whole = hardware_flops(model, layout, AttentionCount::full).count();
  const ModelOp& down = layer.ops[end];
  CHECK(
      whole - shorter ==
      Approx(2.0 * static_cast<double>(down.in_features) * static_cast<double>(down.out_features) *
             static_cast<double>(layout.sequence_length) *
             static_cast<double>(layout.global_batch) * static_cast<double>(model.layers.size())));
}

TEST_CASE("A dropout behind the last product keeps its mask, so all of a layer runs again",
          "[plan]") {
  Model model = test::transformer(0);
  model.execution.stops_recomputation = true;
  for (ModelOp& op : model.layers[0].ops)
    if (op.kind == ModelOpKind::elementwise && op.residual_of >= 0) op.saved_fixed_bytes = 1;
  CHECK(run_again(model) == model.layers[0].ops.size());
}

TEST_CASE("Beside a part that runs again a kept output costs a launch and no work", "[plan]") {
  const Model model = torchtitan_like();
  Layout layout = test::layout_for(1, 1, 1, 1);
  layout.recompute = Recompute::operators;
  const ShardedModel sharded = shard(model, layout);
  const ShardedBlock& layer = sharded.blocks[sharded.of_layer[0]];
  for (std::size_t i = 0; i < layer.ops.size(); ++i) {
    const ShardedOp& op = layer.ops[i];
    if (op.op->kind == ModelOpKind::attention) {
      REQUIRE(layer.kept.has_output_in_block(i));
      CHECK(op.forward_again.front().bytes == Bytes{});
    }
    if (op.op->name == "mlp_up") {
      CHECK_FALSE(layer.kept.has_output_in_block(i));
      REQUIRE(op.forward_again.size() == 1);
      CHECK(op.forward_again.front().n * 2 == op.forward->n);
    }
  }
}
