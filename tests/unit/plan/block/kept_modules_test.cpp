// Modules of a layer that run again (Layout::recompute_modules).
#include <cmath>
#include <set>

#include "sim/memory/memory.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/sharding/flop_count.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/models.hpp"
#include "tests/unit/plan/random_layout.hpp"

using namespace sim;

namespace {

using enum RecomputeModule;
using Modules = std::vector<RecomputeModule>;

constexpr std::int64_t tokens = 128;  // of a micro-batch of layout_for()

Layout with_modules(Layout layout, const Modules& modules) {
  layout.recompute = Recompute::selective;
  layout.recompute_modules = modules;
  return layout;
}

// kept_for_backward() are the activations that live when the first backward pass begins.
std::int64_t kept_for_backward(const Program& program) {
  std::set<std::uint32_t> seen;
  std::int64_t live = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.pass[op] == Pass::backward || program.pass[op] == Pass::recompute) break;
    for (const BufferUse& use : program.buffer_uses(OpId{op})) {
      const Buffer& buffer = program.buffers[use.buffer.value];
      if (buffer.persistent || buffer.category != BufferCategory::activations) continue;
      if (seen.insert(use.buffer.value).second) live += buffer.size.count();
      if (use.access == Access::free) live -= buffer.size.count();
    }
  }
  return live;
}

std::int64_t saved_by(const Model& model, const Modules& modules) {
  const Layout plain = test::layout_for(1, 1, 1, 1);
  return kept_for_backward(test::checked_plan(model, plain).programs[0]) -
         kept_for_backward(test::checked_plan(model, with_modules(plain, modules)).programs[0]);
}

// Names of what runs again in layer 1, in order.
std::string run_again(const Model& model, const Modules& modules) {
  const Plan plan = test::checked_plan(model, with_modules(test::layout_for(1, 1, 1, 1), modules));
  const Program& program = plan.programs[0];
  std::string names;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    if (program.pass[op] == Pass::recompute && program.label[op].layer == 1)
      names += (names.empty() ? "" : " ") + std::string{program.name(OpId{op})};
  return names;
}

}  // namespace

TEST_CASE("a module that runs again keeps what it starts from", "[plan][recompute]") {
  const Model dense = test::transformer(1);  // 8 layers
  const Model latent = test::mixture(1);     // 4 layers, the first one without experts
  const Model routed = test::mixture(0);     // 4 layers
  const std::int64_t hidden = dense.hidden;
  const std::int64_t heads = latent.attention.heads;
  constexpr std::int64_t element = 2;
  SECTION("of an MLP the gate, what it gates and their product") {
    CHECK(saved_by(dense, {mlp}) == 8 * tokens * 3 * dense.feed_forward * element);
  }
  SECTION("of a flash kernel the log-sum-exp") {
    CHECK(saved_by(dense, {core_attn}) == 8 * tokens * dense.attention.heads * 4);
  }
  SECTION("of latent attention queries, keys and values") {
    CHECK(saved_by(latent, {mla_up_proj}) == 4 * tokens * heads * (12 + 12 + 8) * element);
  }
  SECTION("of an expert the output of its activation, for both choices") {
    CHECK(saved_by(routed, {moe_act}) == 4 * tokens * 2 * 16 * element);
  }
  SECTION("of shared experts all that stands inside") {
    CHECK(saved_by(latent, {shared_experts}) == 3 * tokens * 3 * 32 * element);
  }
  SECTION("norms before latent attention and before experts") {
    CHECK(saved_by(latent, {layernorm}) == (4 + 3) * tokens * latent.hidden * element);
    CHECK(saved_by(routed, {layernorm}) == 4 * tokens * hidden * element);
  }
  SECTION("norms that are a part of the linear behind do not run again") {
    CHECK(saved_by(dense, {layernorm}) == 0);
    CHECK(run_again(dense, {layernorm}).empty());
  }
}

TEST_CASE("modules run again in the order of the layer, each before it is needed",
          "[plan][recompute]") {
  const Model latent = test::mixture(1);
  CHECK(run_again(test::transformer(1), {mlp}) == "mlp_up activation mlp_down");
  CHECK(run_again(latent, {moe_act}) == "expert_activation");
  CHECK(run_again(latent, {mla_up_proj}) == "query_up key_value_up rotary");
  CHECK(run_again(latent, {mla_up_proj, core_attn}) == "query_up key_value_up rotary attention");
  CHECK(run_again(latent, {layernorm}) == "post_attention_norm input_norm");
  CHECK(run_again(latent, {moe, layernorm}) ==
        "post_attention_norm router router.choose expert_dispatch.permute expert_up "
        "expert_activation expert_down expert_combine.permute shared_expert_up "
        "shared_expert_activation shared_expert_down shared_expert_sum input_norm");
}

TEST_CASE("in merged passes a norm runs again when the experts' gradient has come",
          "[plan][recompute]") {
  for (const bool shared : {false, true}) {
    Layout layout = with_modules(test::layout_for(1, 2, 1, 4), {layernorm});
    layout.expert_parallel = 2;
    layout.overlap_expert_exchange = true;
    const Plan plan = test::checked_plan(test::mixture(shared ? 1 : 0), layout);
    const Program& program = plan.programs[0];
    int again = 0;
    for (std::uint32_t op = 0; op < program.size(); ++op) {
      if (program.pass[op] != Pass::recompute || program.name(OpId{op}) != "post_attention_norm")
        continue;
      ++again;
      // In its layer and micro-batch, the experts' second linear is the next one to go back.
      std::uint32_t next = op + 1;
      while (program.kind[next] != OpKind::gemm ||
             program.label[next].microbatch != program.label[op].microbatch ||
             program.label[next].layer != program.label[op].layer)
        ++next;
      CHECK(program.name(OpId{next}).starts_with("expert_down"));
      CHECK(program.pass[next] == Pass::backward);
    }
    CHECK(again == (shared ? 3 : 4) * 4);  // layers with experts, micro-batches
  }
}

TEST_CASE("a model of bare selective recomputation is as it was", "[plan][recompute]") {
  const Model model = test::transformer(1);
  Layout layout = test::layout_for(1, 2, 1, 2);
  const double plain = test::gemm_flops(test::checked_plan(model, layout).programs[0]);
  layout.recompute = Recompute::selective;
  CHECK(test::gemm_flops(test::checked_plan(model, layout).programs[0]) == plain);
  CHECK(hardware_flops(model, layout, AttentionCount::full).count() ==
        model_flops(model, layout, AttentionCount::full).count());
}

TEST_CASE("random layouts with modules give sound plans that multiply as they count",
          "[plan][recompute][property]") {
  const Modules all[] = {{mlp},
                         {core_attn},
                         {mla_up_proj},
                         {moe},
                         {moe_act, layernorm},
                         {shared_experts, mla_up_proj, core_attn},
                         {layernorm, moe, mlp, core_attn, mla_up_proj},
                         {layernorm, shared_experts, moe_act}};
  int legal = 0;
  for (std::uint64_t seed = 0; seed < 1200; ++seed) {
    Layout layout = test::random_layout(seed);
    const Model model = seed % 3 == 0 ? test::transformer(1) : test::mixture(seed % 3 == 1);
    layout.expert_parallel = model.has_experts() ? 1 << (seed / 2 % 3) : 1;
    layout.overlap_tensor_products &= layout.sequence_parallel && seed % 2 == 0;
    if (model.has_experts()) {
      layout.sequence_parallel = layout.tensor_parallel > 1;
      layout.zero_stage %= 2;
      layout.shard_group = 0;
      layout.attention = AttentionKernel::flash;
    }
    layout.recompute = Recompute::none;
    layout.recompute_every = 1;
    const Layout again = with_modules(layout, all[seed / 3 % std::size(all)]);
    if (!layout_problems(again, model).empty()) continue;
    ++legal;
    CAPTURE(seed, test::to_text(layout));
    const Plan plan = make_plan(model, again);
    REQUIRE_NOTHROW(check_plan(plan));
    const Plan plain = make_plan(model, layout);
    double more = 0;
    for (std::size_t i = 0; i < plan.programs.size(); ++i) {
      for (std::uint32_t op = 0; op < plan.programs[i].size(); ++op) {
        const Program& program = plan.programs[i];
        const bool product = program.kind[op] == OpKind::gemm;
        if (product && program.pass[op] == Pass::recompute)
          more += program.kernels[program.work[op]].flops.count();
      }
      REQUIRE(test::gemm_flops(plan.programs[i]) >= test::gemm_flops(plain.programs[i]));
      REQUIRE(kept_for_backward(plan.programs[i]) <= kept_for_backward(plain.programs[i]));
    }
    if (again.recomputes(core_attn)) continue;
    const double counted = hardware_flops(model, again, AttentionCount::full).count() -
                           model_flops(model, again, AttentionCount::full).count();
    // All tensor ranks count what they all compute.
    const double ranks = layout.replicas() * layout.tensor_parallel;
    CHECK(std::abs(more * ranks - counted) <= 1e-9 * counted);
  }
  CHECK(legal > 100);
}

TEST_CASE("modules that are not there, or not modelled, are refused", "[plan][problems]") {
  const auto problem = [](const Model& model, const Modules& modules, auto change) {
    Layout layout = with_modules(test::layout_for(1, 1, 1, 1), modules);
    change(layout);
    const std::vector<LayoutProblem> found = layout_problems(layout, model);
    return found.empty() ? std::string{} : found[0].key + ": " + found[0].what;
  };
  const auto same = [](Layout&) {};
  const Model dense = test::transformer(1), latent = test::mixture(1);
  CHECK(problem(latent, {mlp, mla_up_proj, layernorm, moe_act, shared_experts}, same).empty());
  CHECK(problem(dense, {moe_act}, same) ==
        "recompute_modules: test-transformer has no moe_act; it has core_attn, mlp, layernorm");
  CHECK(problem(test::mixture(0), {mlp}, same) ==
        "recompute_modules: test-mixture has no mlp; it has core_attn, moe, moe_act, layernorm");
  CHECK(problem(latent, {moe},
                [](Layout& l) {
                  l.data_parallel = l.expert_parallel = 2;
                  l.global_batch = 2;
                  l.overlap_expert_exchange = true;
                }) ==
        "recompute_modules: moe and overlap.expert_exchange do not go together in "
        "Megatron-LM; allowed with it: core_attn, layernorm, mla_up_proj, mlp, moe_act, "
        "shared_experts");
  CHECK(problem(latent, {moe, moe_act}, same) ==
        "recompute_modules: moe_act is a part of moe; allowed: one of them");
  CHECK(problem(dense, {mlp}, [](Layout& l) { l.recompute = Recompute::full; }) ==
        "recompute_modules: recompute_modules is given, but recompute is full; allowed: none of "
        "them, or recompute selective");
  CHECK(problem(latent, {layernorm}, [](Layout& l) { l.compute_dtype = DType::fp8; }) ==
        "recompute_modules: layernorm and delayed scaling of fp8 products (framework.fp8 "
        "transformer_engine) do not go together in Megatron-LM; allowed with it: core_attn, "
        "mla_up_proj, mlp, moe, shared_experts");
  Model compiled = dense;
  test::run_compiled(compiled.execution);
  CHECK(problem(compiled, {mlp}, same) ==
        "recompute_modules: modules run again as Megatron-LM runs them; allowed: framework "
        "megatron, or recompute without recompute_modules");
}

TEST_CASE("the first layers of each chunk run again", "[plan]") {
  const Model model = test::transformer(1, 8);
  Layout layout = test::layout_for(1, 2, 2, 4);
  layout.virtual_stages = 2;
  layout.schedule = Schedule::interleaved;
  layout.recompute = Recompute::full;
  layout.layers_per_chunk = {3, 2, 2, 1};
  const auto again = [&](int layers) {
    layout.recompute_layers = layers;
    REQUIRE(layout_problems(layout, model).empty());
    const Plan plan = make_plan(model, layout);
    REQUIRE_NOTHROW(check_plan(plan));
    double flops = 0;
    for (const Program& program : plan.programs)
      for (std::uint32_t op = 0; op < program.size(); ++op)
        if (program.kind[op] == OpKind::gemm && program.pass[op] == Pass::recompute)
          flops += program.kernels[program.work[op]].flops.count();
    return flops;
  };
  const auto counted = [&] {
    return hardware_flops(model, layout, AttentionCount::full).count() -
           model_flops(model, layout, AttentionCount::full).count();
  };
  const double all = again(0), all_counted = counted();
  for (const auto& [layers, of_eight] : {std::pair{1, 4}, std::pair{2, 7}, std::pair{3, 8}}) {
    CHECK(again(layers) == all * of_eight / 8);
    CHECK(std::abs(counted() - all_counted * of_eight / 8) <= 1e-9 * all_counted);
  }
  layout.recompute_layers = 1;
  layout.recompute_every = 2;
  CHECK(layout_problems(layout, model).front().key == "recompute_layers");
  layout.recompute_every = 1;
  layout.recompute = Recompute::none;
  CHECK(layout_problems(layout, model).front().key == "recompute_layers");
}
