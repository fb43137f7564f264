// MLPs that run in pieces of the tokens (Layout::mlp_tiles).
#include <algorithm>
#include <string>

#include "sim/memory/arena.hpp"
#include "sim/plan/sharding/flop_count.hpp"
#include "tests/catch.hpp"
#include "tests/support/program_digest.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/models.hpp"
#include "tests/unit/plan/random_layout.hpp"

using namespace sim;

namespace {

Layout with_tiles(Layout layout, int tiles) {
  layout.mlp_tiles = tiles;
  return layout;
}

double flops_of_mlps(const Model& model, const Layout& layout) {
  double sum = 0;
  for (const Block& layer : model.layers)
    for (const ModelOp& op : layer.ops)
      if (op.name == "mlp_up" || op.name == "mlp_down")
        sum += 2.0 * static_cast<double>(op.in_features * op.out_features);
  return sum * static_cast<double>(layout.sequence_length * layout.global_batch);
}

double added_hardware_flops(const Model& model, const Layout& layout) {
  return hardware_flops(model, layout, AttentionCount::full).count() -
         model_flops(model, layout, AttentionCount::full).count();
}

int count(const Program& program, const std::string& name, Pass pass) {
  int found = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    found += program.name(OpId{op}) == name && program.pass[op] == pass ? 1 : 0;
  return found;
}

// The largest tensor that an operator of this name writes.
std::int64_t largest_output(const Program& program, const std::string& name) {
  std::int64_t most = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.name(OpId{op}) != name) continue;
    for (const BufferUse& use : program.buffer_uses(OpId{op}))
      if (use.role == Role::output)
        most = std::max(most, program.buffers[use.buffer.value].size.count());
  }
  return most;
}

}  // namespace

TEST_CASE("an MLP in pieces multiplies as the whole one, and once more", "[plan][tiles]") {
  const Model model = test::transformer(GENERATE(0, 1, 3));
  const Layout plain = test::layout_for(1, 2, 1, 2);
  const Layout tiled = with_tiles(plain, 4);
  const Plan plan = test::checked_plan(model, tiled);
  const double more = test::gemm_flops(plan.programs[0]) -
                      test::gemm_flops(test::checked_plan(model, plain).programs[0]);
  CHECK(more * plain.replicas() == Approx(flops_of_mlps(model, plain)));
  CHECK(added_hardware_flops(model, tiled) == Approx(flops_of_mlps(model, plain)));
  CHECK(plan.model_flops.count() == make_plan(model, plain).model_flops.count());
  // Forward, again and back, four times each.
  const int layers =
      static_cast<int>(model.layers.size()) * static_cast<int>(plain.micro_batches());
  const Program& program = plan.programs[0];
  CHECK(count(program, "mlp_up", Pass::forward) == 4 * layers);
  CHECK(count(program, "mlp_up", Pass::recompute) == 4 * layers);
  CHECK(count(program, "mlp_up.input_gradient", Pass::backward) == 4 * layers);
  CHECK(count(program, "mlp_up.weight_gradient", Pass::backward) == 4 * layers);
  CHECK(count(program, "mlp_down.join", Pass::forward) == 4 * layers);
}

TEST_CASE("tensors within an MLP are those of one piece", "[plan][tiles]") {
  const Model model = test::transformer(1);
  Layout layout = test::layout_for(1, 1, 1, 1);
  layout.sequence_length = 4096;
  layout.recompute = GENERATE(Recompute::none, Recompute::full);
  const Program whole = test::checked_plan(model, layout).programs[0];
  const std::int64_t before = arena_layout(whole).size.count();
  for (const int tiles : {2, 4, 8}) {
    const Program program = test::checked_plan(model, with_tiles(layout, tiles)).programs[0];
    CHECK(largest_output(program, "mlp_up") * tiles == largest_output(whole, "mlp_up"));
    // Without recomputation all MLPs keep their tensors until the end of the forward pass; with it
    // the logits are the peak.
    const std::int64_t now = arena_layout(program).size.count();
    CHECK(now <= before);
    if (layout.recompute == Recompute::none) CHECK(now < before);
  }
}

TEST_CASE("an MLP in one piece is the plan without pieces", "[plan][tiles]") {
  const Model model = test::transformer(1);
  const Layout layout = test::layout_for(1, 2, 2, 2);
  CHECK(test::digest_of(make_plan(model, with_tiles(layout, 1)).programs) ==
        test::digest_of(make_plan(model, layout).programs));
  CHECK(test::digest_of(make_plan(model, with_tiles(layout, 2)).programs) !=
        test::digest_of(make_plan(model, layout).programs));
}

TEST_CASE("under full recomputation the MLP's forward pass runs three times", "[plan][tiles]") {
  Model model = test::transformer(1);
  model.execution.stops_recomputation = GENERATE(false, true);
  Layout layout = test::layout_for(1, 1, 1, 2);
  layout.recompute = Recompute::full;
  const auto runs = [&](const Layout& of) {
    const Program program = test::checked_plan(model, of).programs[0];
    return count(program, "mlp_down", Pass::forward) + count(program, "mlp_down", Pass::recompute);
  };
  const int each = static_cast<int>(model.layers.size()) * static_cast<int>(layout.micro_batches());
  CHECK(runs(layout) == (model.execution.stops_recomputation ? 1 : 2) * each);
  CHECK(runs(with_tiles(layout, 4)) == 3 * 4 * each);
  layout.recompute_every = 2;  // the others run their MLP twice
  CHECK(runs(with_tiles(layout, 4)) == (3 + 2) * 4 * each / 2);
  const Layout tiled = with_tiles(layout, 4);
  Layout only = tiled;
  only.recompute = Recompute::none;
  only.recompute_every = 1;
  CHECK(added_hardware_flops(model, tiled) > added_hardware_flops(model, only));
}

TEST_CASE("weight gradients add up over the pieces and are reduced once", "[plan][tiles]") {
  Model model = test::transformer(1);
  model.execution.adds_gradients = true;
  Layout layout = test::layout_for(1, 2, 1, 3);
  layout.zero_stage = GENERATE(0, 1, 2, 3);
  const Program plain = test::checked_plan(model, layout).programs[0];
  const Program program = test::checked_plan(model, with_tiles(layout, 4)).programs[0];
  const int layers = static_cast<int>(model.layers.size());
  const auto added = [&](const Program& of) {
    int found = 0;
    for (std::uint32_t op = 0; op < of.size(); ++op)
      found +=
          of.action[op] == Action::add_weight_gradient && of.name(OpId{op}) == "mlp_up.add_gradient"
              ? 1
              : 0;
    return found;
  };
  CHECK(added(program) - added(plain) == 3 * 3 * layers);
  const auto reductions = [](const Program& of) {
    return std::count(of.action.begin(), of.action.end(), Action::reduce);
  };
  CHECK(reductions(program) == reductions(plain));
}

TEST_CASE("random layouts with MLPs in pieces give sound plans that multiply as they count",
          "[plan][tiles][property]") {
  int legal = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    Layout layout = with_tiles(test::random_layout(seed), 1 << (seed % 3 + 1));
    layout.tensor_parallel = 1;
    layout.sequence_parallel = layout.overlap_tensor_products = false;
    layout.compute_dtype = DType::bf16;
    layout.eight_bit_parameters = false;
    Model model = test::transformer(static_cast<int>(seed % test::transformer_kinds));
    model.execution.adds_gradients = seed % 2 == 0;
    if (!layout_problems(layout, model).empty()) continue;
    ++legal;
    CAPTURE(seed, test::to_text(layout));
    const Plan plan = make_plan(model, layout);
    REQUIRE_NOTHROW(check_plan(plan));
    double multiplied = 0;
    for (const Program& program : plan.programs)
      for (std::uint32_t op = 0; op < program.size(); ++op)
        if (program.kind[op] == OpKind::gemm && program.pass[op] == Pass::recompute)
          multiplied += program.kernels[program.work[op]].flops.count();
    if (layout.recompute != Recompute::none) continue;  // attention would run again, too
    CHECK(multiplied * layout.replicas() == Approx(added_hardware_flops(model, layout)));
  }
  CHECK(legal > 100);
}

TEST_CASE("what does not go in pieces is refused by its key", "[plan][problems]") {
  const auto problem = [](const Model& model, auto change) {
    Layout layout = with_tiles(test::layout_for(1, 1, 1, 1), 4);
    change(layout);
    for (const LayoutProblem& found : layout_problems(layout, model))
      if (found.key == "mlp_tiles") return found.what;
    return std::string{};
  };
  const Model model = test::transformer(1);
  CHECK(problem(model, [](Layout&) {}).empty());
  CHECK(problem(model, [](Layout& l) { l.mlp_tiles = 3; }) ==
        "mlp_tiles is 3, which does not divide the 128 tokens of a sequence that a GPU has "
        "(sequence_length / context_parallel); allowed: 1, 2, 4, 8, 16, 32, 64, 128");
  CHECK(problem(model, [](Layout& l) { l.tensor_parallel = 2; }) ==
        "mlp_tiles is 4: its pieces are not modelled with tensor_parallel > 1; allowed: 1");
  CHECK(problem(test::mixture(1), [](Layout&) {}) ==
        "mlp_tiles is 4: it is not modelled for mixtures of experts; allowed: 1");
  CHECK(problem(test::layer_list(4, 100), [](Layout&) {}).find("has no MLP") != std::string::npos);
  CHECK(problem(model, [](Layout& l) { l.compute_dtype = DType::fp8; }) ==
        "mlp_tiles is 4: it is not modelled with compute_dtype fp8; allowed: 1");
  CHECK(problem(model, [](Layout& l) { l.recompute = Recompute::operators; }) ==
        "mlp_tiles is 4: it is not modelled with recompute operators; allowed: 1");
  CHECK(problem(model,
                [](Layout& l) {
                  l.recompute = Recompute::selective;
                  l.recompute_modules = {RecomputeModule::mlp};
                }) ==
        "mlp_tiles is 4: its pieces run again by themselves, without recompute_modules: mlp; "
        "allowed: 1");
  CHECK(problem(model, [](Layout& l) {
          l.pipeline_parallel = 2;
          l.schedule = Schedule::zb_h1;
        }) == "mlp_tiles is 4: its weight gradients cannot be put off, as zb-h1 does; allowed: 1");
}
