// Experts under ZeRO-2 and 3 (FSDP), and as torchtitan runs them: which ranks share a unit, in
// which order units travel, what tokens wait for.
#include <algorithm>
#include <array>

#include "sim/framework/framework.hpp"
#include "sim/framework/presets/preset.hpp"
#include "sim/memory/memory.hpp"
#include "sim/model/transformer.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/unit/plan/models.hpp"
#include "tests/unit/plan/random_layout.hpp"

using namespace sim;
using test::Ranks;
using test::ranks_of;

namespace {

Layout unit_layout(int tensor, int data, int experts, int expert_tensor = 1) {
  Layout layout = test::layout_for(tensor, data, 1, 1);
  layout.sequence_parallel = tensor > 1;
  layout.expert_parallel = experts;
  layout.expert_tensor_parallel = expert_tensor;
  layout.zero_stage = 3;
  layout.reduce_dtype = DType::fp32;
  return layout;
}

Model titan(int kind = 0, bool compiled = false) {
  Model model = test::mixture(kind);
  run_with(torchtitan_framework(compiled, compiled, true), model);
  return model;
}

struct Call {
  CollectiveKind kind;
  GroupRole role;
  std::int64_t bytes;
  int layer;
  bool operator==(const Call&) const = default;
};
std::vector<Call> calls(const Program& program, Action action, Pass pass) {
  std::vector<Call> found;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.kind[i] != OpKind::collective || program.action[i] != action ||
        program.pass[i] != pass)
      continue;
    const Collective& call = program.collectives[program.work[i]];
    found.push_back({call.kind, call.group, call.bytes.count(), program.label[i].layer});
  }
  return found;
}

int count(const Program& program, Action action) {
  return static_cast<int>(std::ranges::count(program.action, action));
}

int count(const Program& program, const std::string& name, Pass pass, bool collectives) {
  int found = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i)
    if (program.name({i}) == name && program.pass[i] == pass &&
        (program.kind[i] == OpKind::collective) == collectives)
      ++found;
  return found;
}

// An expert of test::mixture(0): 4 layers, hidden 32, experts of 16 features with three matrices.
constexpr std::int64_t of_expert = 3 * 32 * 16;

}  // namespace

TEST_CASE("A shard group holds whole copies of the experts", "[plan][experts]") {
  Layout layout = unit_layout(1, 8, 2);
  layout.shard_group = 4;
  const Plan plan = make_plan(test::mixture(0), layout);
  CHECK(ranks_of(plan, 5, GroupRole::shard) == Ranks{4, 5, 6, 7});
  CHECK(ranks_of(plan, 5, GroupRole::replicate) == Ranks{1, 5});
  CHECK(ranks_of(plan, 5, GroupRole::expert) == Ranks{4, 5});
  CHECK(ranks_of(plan, 5, GroupRole::expert_data) == Ranks{1, 3, 5, 7});
  CHECK(ranks_of(plan, 5, GroupRole::expert_shard) == Ranks{5, 7});
  CHECK(ranks_of(plan, 5, GroupRole::expert_replicate) == Ranks{1, 5});
  check_plan(plan);
  layout.expert_parallel = 4;  // one rank of a group has them: nothing of them is sharded
  const Plan whole = make_plan(test::mixture(0), layout);
  CHECK(ranks_of(whole, 5, GroupRole::expert_shard).empty());
  CHECK(ranks_of(whole, 5, GroupRole::expert_data) == Ranks{1, 5});
  check_plan(whole);
  layout.expert_parallel = 8;
  REQUIRE(layout_problems(layout, test::mixture(0)).size() == 1);
  CHECK(layout_problems(layout, test::mixture(0)).front().key == "shard_group");
}

TEST_CASE("Units of experts and of the rest are gathered one behind the other", "[plan][experts]") {
  const Program program = make_plan(titan(), unit_layout(1, 8, 2)).programs[0];
  const std::vector<Call> gathers = calls(program, Action::gather_weights, Pass::parameter_sync);
  std::size_t pairs = 0;
  for (std::size_t i = 1; i < gathers.size(); ++i) {
    if (gathers[i].role != GroupRole::expert_data) continue;
    ++pairs;
    CHECK(gathers[i].bytes == 2 * 4 * of_expert);  // bf16, the four experts of a rank
    CHECK(gathers[i - 1].role == GroupRole::data);
    CHECK(gathers[i - 1].layer == gathers[i].layer);
  }
  CHECK(pairs == 2 * 4);  // of each layer, in both passes

  // Both reductions follow the last gradient of the layer.
  const std::vector<Call> reductions = calls(program, Action::reduce, Pass::gradient_sync);
  std::size_t reduced = 0;
  for (std::size_t i = 1; i < reductions.size(); ++i) {
    if (reductions[i].role != GroupRole::expert_data) continue;
    ++reduced;
    CHECK(reductions[i].kind == CollectiveKind::reduce_scatter);
    CHECK(reductions[i].bytes == 4 * 4 * of_expert);  // fp32
    CHECK(reductions[i - 1].role == GroupRole::data);
    CHECK(reductions[i - 1].layer == reductions[i].layer);
  }
  CHECK(reduced == 4);
}

TEST_CASE("Without expert parallelism experts are part of their layer's unit", "[plan][experts]") {
  const Program program = make_plan(titan(), unit_layout(1, 8, 1)).programs[0];
  for (const Call& call : calls(program, Action::gather_weights, Pass::parameter_sync))
    CHECK(call.role == GroupRole::data);
  CHECK(program.parameter_buckets.size() == 4 + 2);  // layers, both ends
  Layout split = unit_layout(2, 4, 1, 2);            // as the rest, by tensor ranks
  CHECK(make_plan(titan(), split).programs[0].parameter_buckets.size() == 4 + 2);
}

TEST_CASE("Experts that no other rank has are copied, and their gradients taken",
          "[plan][experts]") {
  const Plan plan = make_plan(titan(), unit_layout(1, 8, 8));
  check_plan(plan);
  const Program& program = plan.programs[0];
  for (const Call& call : calls(program, Action::gather_weights, Pass::parameter_sync))
    CHECK(call.role == GroupRole::data);
  CHECK(count(program, Action::cast_in) >= 4);
  const auto copied_from_shard = [&](std::uint32_t op) {
    const auto uses = program.buffer_uses({op});
    return program.action[op] == Action::copy_weights &&
           std::ranges::any_of(uses, [](const BufferUse& use) { return use.role == Role::input; });
  };
  int copies = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    if (copied_from_shard(op)) ++copies;
  CHECK(copies == 2 * 4);
}

TEST_CASE("What a rank keeps under ZeRO-3 is its share of the experts", "[plan][experts]") {
  const auto state = [](const Layout& layout, BufferCategory category) {
    std::int64_t sum = 0;
    const Plan plan = make_plan(test::mixture(0), layout);
    for (const Buffer& buffer : plan.programs[0].buffers)
      if (buffer.persistent && buffer.category == category) sum += buffer.size.count();
    return sum;
  };
  // Eight ranks share all experts, or each half of the ranks half of them: as many bytes.
  for (const int experts : {1, 2, 4, 8})
    CHECK(std::abs(state(unit_layout(1, 8, experts), BufferCategory::weights) -
                   state(unit_layout(1, 8, 1), BufferCategory::weights)) <= 2 * 8 * 4);
  Layout halves = unit_layout(1, 8, 2);
  halves.shard_group = 4;
  CHECK(state(halves, BufferCategory::optimizer) >
        state(unit_layout(1, 8, 2), BufferCategory::optimizer) * 19 / 10);
}

TEST_CASE("torchtitan: counts travel first, and the host waits for them", "[plan][experts]") {
  const Model model = titan();
  const Plan plan = make_plan(model, unit_layout(1, 4, 4));
  check_plan(plan);
  const Program& program = plan.programs[0];
  const std::vector<Call> there = calls(program, Action::exchange_tokens, Pass::forward);
  REQUIRE(there.size() == 3 * 4);  // counts, tokens, tokens back
  CHECK(there[0].bytes == 8 * 8);  // eight experts
  CHECK(there[1].bytes == 128 * 2 * 32 * 2);
  CHECK(there[2].bytes == there[1].bytes);  // no weights of choices
  REQUIRE(program.host_waits.size() == 4);
  for (const HostWait& wait : program.host_waits)
    CHECK(program.name({wait.until.value}) == "expert_dispatch.counts");
  CHECK(calls(program, Action::exchange_tokens, Pass::backward).size() == 2 * 4);
  CHECK(make_plan(model, unit_layout(1, 4, 1)).programs[0].host_waits.empty());
}

TEST_CASE("torchtitan: what comes back is kept and weighed", "[plan][experts]") {
  const Program program = make_plan(titan(), unit_layout(1, 4, 4)).programs[0];
  std::int64_t kept = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.name({i}) == "expert_activation" && program.pass[i] == Pass::forward)
      for (const BufferUse& use : program.buffer_uses({i}))
        CHECK(use.role != Role::choice_weights);
    if (program.name({i}) != "expert_combine.permute" || program.pass[i] != Pass::forward) continue;
    for (const BufferUse& use : program.buffer_uses({i}))
      if (use.role == Role::saved)
        kept = std::max(kept, program.buffers[use.buffer.value].size.count());
  }
  CHECK(kept == 128 * 2 * 32 * 4);  // fp32, of each choice
}

TEST_CASE("torchtitan: recomputation by operators sends no tokens again", "[plan][experts]") {
  Layout layout = unit_layout(1, 4, 4);
  layout.recompute = Recompute::operators;
  const Plan plan = make_plan(titan(), layout);
  check_plan(plan);
  const Program& program = plan.programs[0];
  CHECK(calls(program, Action::exchange_tokens, Pass::recompute).empty());
  CHECK(count(program, "expert_up", Pass::recompute, false) == 2 * 4);  // both products of a gate
  CHECK(program.host_waits.size() == 4);
  layout.recompute = Recompute::full;
  const Program full = make_plan(titan(), layout).programs[0];
  CHECK(calls(full, Action::exchange_tokens, Pass::recompute).size() >= 2 * 4);
}

TEST_CASE("torchtitan: ranks that split experts gather the layer's tokens once",
          "[plan][experts]") {
  const Program program = make_plan(titan(), unit_layout(2, 4, 2, 2)).programs[0];
  std::vector<std::int64_t> gathers, scatters;
  for (const Call& call : calls(program, Action::exchange_tokens, Pass::forward)) {
    if (call.role != GroupRole::expert_tensor) continue;
    (call.kind == CollectiveKind::all_gather ? gathers : scatters).push_back(call.bytes);
  }
  CHECK(gathers == std::vector<std::int64_t>(4, 128 * 32 * 2));  // tokens, not choices
  CHECK(scatters == gathers);
}

TEST_CASE("torchtitan: tokens of an expert are padded, more for 8-bit products",
          "[plan][experts]") {
  const auto rows = [](Model model, DType dtype) {
    Layout layout = unit_layout(1, 4, 4);
    layout.compute_dtype = dtype;
    const Program program = make_plan(model, layout).programs[0];
    for (std::uint32_t i = 0; i < program.size(); ++i)
      if (program.name({i}) == "expert_down" && program.kind[i] == OpKind::gemm)
        return program.kernels[program.work[i]].m;
    return std::int64_t{0};
  };
  Model model = titan();
  CHECK(rows(model, DType::bf16) == 132);  // 128 and (8 - 1) / 2, rounded up, on two experts
  model.execution.expert_rows = 1;
  CHECK(rows(model, DType::bf16) == 128);
  CHECK(rows(model, DType::fp8) == 136);
}

TEST_CASE("torchtitan: what its experts cannot be", "[plan][experts]") {
  const auto keys = [](const Layout& layout) {
    std::vector<std::string> found;
    for (const LayoutProblem& problem : layout_problems(layout, titan()))
      found.push_back(problem.key);
    return found;
  };
  using Keys = std::vector<std::string>;
  CHECK(keys(unit_layout(2, 4, 2, 2)).empty());
  CHECK(keys(unit_layout(2, 4, 1, 1)) == Keys{"expert_tensor_parallel"});
  CHECK(keys(unit_layout(4, 2, 2, 2)) == Keys{"expert_tensor_parallel"});
  Layout layout = unit_layout(1, 4, 4);
  layout.token_dispatcher = TokenDispatcher::allgather;
  CHECK(keys(layout) == Keys{"moe.dispatcher"});
  layout.token_dispatcher = TokenDispatcher::deepep;
  CHECK(keys(layout).empty());
  layout.recompute = Recompute::selective;
  CHECK(keys(layout) == Keys{"recompute"});
}

TEST_CASE("Random layouts of torchtitan's mixtures give sound plans", "[plan][experts][property]") {
  int legal = 0, sharded = 0;
  for (std::uint64_t seed = 0; seed < 6000; ++seed) {
    const Model model = titan(static_cast<int>(seed % 2), seed / 4 % 2 == 0);
    Layout layout = test::random_layout(seed);
    layout.expert_parallel = 1 << (seed / 2 % 4);
    layout.expert_tensor_parallel = static_cast<int>(seed / 8 % 3);
    layout.sequence_parallel = layout.tensor_parallel > 1;
    layout.overlap_tensor_products = false;
    layout.attention = AttentionKernel::flash;
    layout.compression = GradientCompression::none;
    layout.quantized_weights = layout.secondary_shard = false;
    layout.node_ranks = 0;
    layout.token_dispatcher =
        std::array{TokenDispatcher::alltoall, TokenDispatcher::deepep,
                   TokenDispatcher::hybridep}[static_cast<std::size_t>(seed / 3 % 3)];
    if (!layout_problems(layout, model).empty()) continue;
    ++legal;
    sharded += layout.zero_stage == 3 ? 1 : 0;
    CAPTURE(seed, test::to_text(layout), layout.expert_parallel, layout.expert_tensor());
    const Plan plan = make_plan(model, layout);
    REQUIRE_NOTHROW(check_plan(plan));
    for (const Program& program : plan.programs)
      REQUIRE(memory_use(program).peak.count() > 0);
  }
  CHECK(legal > 150);
  CHECK(sharded > 30);
}

namespace {

// Automodel's way of tokens under FSDP2.
Model automodel(int kind = 0, ExpertForm form = ExpertForm::automodel) {
  Framework framework = preset_of(PresetName::fsdp2).framework;
  framework.execution.experts = form;
  framework.execution.separate_products = framework.execution.waits_for_counts = true;
  Model model = test::mixture(kind);
  run_with(framework, model);
  return model;
}

}  // namespace

TEST_CASE("Automodel: experts that no other rank has are outside of FSDP", "[plan][experts]") {
  Layout layout = unit_layout(1, 8, 8);
  layout.token_dispatcher = TokenDispatcher::deepep;
  const Plan plan = make_plan(automodel(), layout);
  check_plan(plan);
  const Program& program = plan.programs[0];
  int outside = 0;
  for (const ParameterBucket& bucket : program.parameter_buckets) {
    if (!bucket.of_experts) continue;
    ++outside;
    // Weights and gradients lie whole where the optimizer updates them.
    CHECK(bucket.weight == bucket.weight_shard);
    CHECK(program.buffers[bucket.weight.value].persistent);
    CHECK(program.buffers[bucket.gradient_shard.value].size.count() == 2 * bucket.elements);
  }
  CHECK(outside == 4);
  for (const Call& call : calls(program, Action::gather_weights, Pass::parameter_sync))
    CHECK(call.role == GroupRole::data);
  // torchtitan copies them into a unit, and their gradients to the shard.
  const Program titans = make_plan(titan(), layout).programs[0];
  CHECK(count(titans, Action::copy_weights) > count(program, Action::copy_weights));
  CHECK(memory_use(titans).peak > Bytes{0});
}

TEST_CASE("Automodel: experts that several ranks have are sharded among these", "[plan][experts]") {
  Layout layout = unit_layout(1, 8, 2);
  layout.token_dispatcher = TokenDispatcher::deepep;
  const Program program = make_plan(automodel(), layout).programs[0];
  int of_experts = 0;
  for (const Call& call : calls(program, Action::gather_weights, Pass::parameter_sync))
    of_experts += call.role == GroupRole::expert_data ? 1 : 0;
  CHECK(of_experts == 2 * 4);
}

TEST_CASE("Automodel: tokens are gathered and their sums reduced without DeepEP",
          "[plan][experts]") {
  Layout layout = unit_layout(1, 4, 4);
  layout.token_dispatcher = TokenDispatcher::allgather;
  const Plan plan = make_plan(automodel(), layout);
  check_plan(plan);
  const std::vector<Call> forward = calls(plan.programs[0], Action::exchange_tokens, Pass::forward);
  std::int64_t gathered = 0, reduced = 0;
  for (const Call& call : forward) {
    if (call.kind == CollectiveKind::all_gather) gathered = std::max(gathered, call.bytes);
    if (call.kind == CollectiveKind::all_reduce) reduced = std::max(reduced, call.bytes);
  }
  CHECK(gathered > 0);
  CHECK(reduced == 2 * gathered);  // of all ranks' tokens, in fp32
}

TEST_CASE("Automodel: one kernel for all experts of a rank, or one for each", "[plan][experts]") {
  Layout layout = unit_layout(1, 4, 2);
  layout.token_dispatcher = TokenDispatcher::deepep;
  const auto launches = [&](ExpertForm form) {
    int most = 0;
    const Plan plan = make_plan(automodel(0, form), layout);
    for (const Kernel& kernel : plan.programs[0].kernels)
      if (kernel.kind == OpKind::gemm && kernel.batch > 1) most = std::max(most, kernel.launches);
    return most;
  };
  CHECK(launches(ExpertForm::automodel) == 1);
  CHECK(launches(ExpertForm::automodel_each) > 1);
}

TEST_CASE("Automodel: what its experts cannot be", "[plan][experts]") {
  Layout layout = unit_layout(1, 8, 2);
  CHECK(layout_problems(layout, automodel()).front().key == "moe.dispatcher");
  layout.token_dispatcher = TokenDispatcher::deepep;
  CHECK(layout_problems(layout, automodel()).empty());
  layout.recompute = Recompute::selective;
  layout.expert_capacity = 2;
  CHECK(layout_problems(layout, automodel()).size() == 2);
  layout = unit_layout(1, 8, 2);
  layout.token_dispatcher = TokenDispatcher::allgather;
  layout.expert_choice = ExpertChoice::consecutive;
  CHECK(layout_problems(layout, automodel()).empty());
  layout.expert_imbalance = 1.5;
  CHECK(layout_problems(layout, automodel()).front().key == "moe.choice");
}

TEST_CASE("Random layouts of Automodel's mixtures give sound plans", "[plan][experts][property]") {
  int legal = 0, held = 0;
  for (std::uint64_t seed = 0; seed < 6000; ++seed) {
    Model model = automodel(static_cast<int>(seed % 2),
                            seed / 4 % 2 == 0 ? ExpertForm::automodel : ExpertForm::automodel_each);
    model.execution.accumulates_whole = model.execution.holds_units = seed / 5 % 2 == 0;
    model.execution.keeps_gathered = seed / 7 % 2 == 0;
    Layout layout = test::random_layout(seed);
    layout.expert_parallel = 1 << (seed / 2 % 4);
    layout.expert_tensor_parallel = layout.tensor_parallel > 1 ? 1 : 0;
    layout.sequence_parallel = layout.tensor_parallel > 1;
    layout.overlap_tensor_products = false;
    layout.attention = AttentionKernel::flash;
    layout.compression = GradientCompression::none;
    layout.quantized_weights = layout.secondary_shard = false;
    layout.node_ranks = 0;
    layout.token_dispatcher =
        std::array{TokenDispatcher::alltoall, TokenDispatcher::deepep, TokenDispatcher::hybridep,
                   TokenDispatcher::allgather}[static_cast<std::size_t>(seed / 3 % 4)];
    if (!layout_problems(layout, model).empty()) continue;
    ++legal;
    held += holds_units(model, layout) ? 1 : 0;
    CAPTURE(seed, test::to_text(layout), layout.expert_parallel);
    const Plan plan = make_plan(model, layout);
    REQUIRE_NOTHROW(check_plan(plan));
    for (const Program& program : plan.programs)
      REQUIRE(memory_use(program).peak.count() > 0);
  }
  CHECK(legal > 150);
  CHECK(held > 10);
}

TEST_CASE("experts of a narrower state stand between two linears", "[plan][experts]") {
  TransformerShape shape = *test::mixture(0).shape;
  const std::int64_t before = build_transformer(shape).parameters();
  shape.experts.latent = 16;
  const Model model = build_transformer(shape);
  // Each of 4 layers has two linears of 32 x 16, and 8 experts whose matrices are half as wide.
  CHECK(model.parameters() == before + 4 * (2 * 32 * 16 - 8 * of_expert / 2));
  const Plan plan = make_plan(model, test::layout_for(1, 2, 1, 1));
  check_plan(plan);
  Layout layout = test::layout_for(1, 4, 1, 2);
  layout.expert_parallel = 4;
  check_plan(make_plan(model, layout));
}
