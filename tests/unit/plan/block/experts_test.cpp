// Mixtures of experts and latent attention: who holds what, what travels, what is computed.
#include <algorithm>

#include "sim/memory/memory.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/unit/plan/models.hpp"
#include "tests/unit/plan/random_layout.hpp"

using namespace sim;
using test::Ranks;
using test::ranks_of;

namespace {

Layout expert_layout(int tensor, int data, int pipeline, int experts, int expert_tensor = 1) {
  Layout layout = test::layout_for(tensor, data, pipeline, 2 * pipeline);
  layout.sequence_parallel = tensor > 1;
  layout.expert_parallel = experts;
  layout.expert_tensor_parallel = expert_tensor;
  return layout;
}

// A layout of a seed, with a share of the ranks of a stage for the experts.
Layout random_expert_layout(std::uint64_t seed) {
  Layout layout = test::random_layout(seed);
  layout.expert_parallel = 1 << (seed / 2 % 4);
  layout.expert_tensor_parallel = static_cast<int>(seed / 8 % 3);
  layout.sequence_parallel = layout.tensor_parallel > 1;
  layout.compression = GradientCompression::none;
  layout.quantized_weights = layout.secondary_shard = false;
  layout.node_ranks = 0;
  layout.overlap_tensor_products = false;
  layout.attention = AttentionKernel::flash;
  if (layout.recompute == Recompute::operators) layout.recompute = Recompute::none;
  return layout;
}

std::string text_of(const Layout& layout) {
  return test::to_text(layout) + " ep " + std::to_string(layout.expert_parallel) + " etp " +
         std::to_string(layout.expert_tensor());
}

std::vector<Collective> calls_of(const Program& program, GroupRole role, Pass pass) {
  std::vector<Collective> calls;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.kind[i] != OpKind::collective || program.pass[i] != pass) continue;
    const Collective& call = program.collectives[program.work[i]];
    if (call.group == role) calls.push_back(call);
  }
  return calls;
}

std::int64_t bytes_of_state(const Program& program, BufferCategory category) {
  std::int64_t sum = 0;
  for (const Buffer& buffer : program.buffers)
    if (buffer.persistent && buffer.category == category) sum += buffer.size.count();
  return sum;
}

double product_flops(const Program& program) {
  double sum = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i)
    if (program.kind[i] == OpKind::gemm && program.pass[i] != Pass::recompute)
      sum += program.kernels[program.work[i]].flops.count();
  return sum;
}

int count(const Program& program, const std::string& name, Pass pass, int layer) {
  int found = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i)
    if (program.name({i}) == name && program.pass[i] == pass && program.label[i].layer == layer &&
        program.label[i].microbatch == 0)
      ++found;
  return found;
}

}  // namespace

TEST_CASE("a host that asks for counts waits for the choice before tokens are sent", "[plan]") {
  Model model = test::mixture(0);
  const Layout layout = expert_layout(1, 4, 1, 4);
  CHECK(make_plan(model, layout).programs[0].host_waits.empty());
  model.execution.waits_for_counts = true;
  const Plan plan = make_plan(model, layout);
  check_plan(plan);
  const Program& program = plan.programs[0];
  std::size_t choices = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    if (program.action[op] == Action::choose) ++choices;
  REQUIRE(choices > 0);
  REQUIRE(program.host_waits.size() == choices);  // of forward passes alone
  for (const HostWait& wait : program.host_waits) {
    CHECK(program.action[wait.until.value] == Action::choose);
    CHECK(program.action[wait.before.value] == Action::exchange_tokens);
    CHECK(wait.before.value == wait.until.value + 2);  // tokens are copied meanwhile
  }
}

TEST_CASE("Experts have a grid of their own on the ranks of a stage", "[plan][experts]") {
  // 2 x 8 ranks of a stage, once as tensor x data, once as expert-tensor x expert x copies.
  Layout layout = expert_layout(2, 8, 2, 4, 2);
  const Plan plan = make_plan(test::mixture(0), layout);
  CHECK(ranks_of(plan, 5, GroupRole::expert_tensor) == Ranks{4, 5});
  CHECK(ranks_of(plan, 5, GroupRole::expert) == Ranks{1, 3, 5, 7});
  CHECK(ranks_of(plan, 5, GroupRole::expert_data) == Ranks{5, 13});
  CHECK(ranks_of(plan, 21, GroupRole::expert) == Ranks{17, 19, 21, 23});
  check_plan(plan);
  layout.expert_tensor_parallel = 1;  // experts over tensor ranks, too
  const Plan alone = make_plan(test::mixture(0), layout);
  CHECK(ranks_of(alone, 5, GroupRole::expert_tensor).empty());
  CHECK(ranks_of(alone, 5, GroupRole::expert) == Ranks{4, 5, 6, 7});
  CHECK(ranks_of(alone, 5, GroupRole::expert_data) == Ranks{1, 5, 9, 13});
  check_plan(alone);
}

TEST_CASE("Random layouts of mixtures give sound plans", "[plan][experts][property]") {
  int legal = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const Model model = test::mixture(static_cast<int>(seed % 2), 8);
    const Layout layout = random_expert_layout(seed);
    if (!layout_problems(layout, model).empty()) continue;
    ++legal;
    CAPTURE(seed, text_of(layout));
    const Plan plan = make_plan(model, layout);
    REQUIRE_NOTHROW(check_plan(plan));
    for (const Program& program : plan.programs)
      REQUIRE(memory_use(program).peak.count() > 0);
  }
  CHECK(legal > 200);
}

TEST_CASE("Each rank holds its experts, and optimizer states of its share of them",
          "[plan][experts]") {
  // The differences are of experts alone: only these change with the expert-parallel ranks.
  const std::int64_t of_expert = 3 * 32 * 16, layers = 4;
  const auto held = [](const Layout& layout, BufferCategory category) {
    return bytes_of_state(make_plan(test::mixture(0), layout).programs[0], category);
  };
  Layout layout = expert_layout(1, 8, 1, 1);
  const std::int64_t all = held(layout, BufferCategory::weights);
  for (const int experts : {2, 4, 8}) {
    CAPTURE(experts);
    layout.expert_parallel = experts;
    layout.zero_stage = 0;
    CHECK(all - held(layout, BufferCategory::weights) ==
          2 * layers * of_expert * (8 - 8 / experts));
    // ZeRO-1 shares states among the ranks that have the same experts: of each rank's experts an
    // (8 / experts)-th part, which is one expert's whatever their number; the rest of the model
    // by 8.
    layout.zero_stage = 1;
    const std::int64_t others = (all / 2 - 8 * layers * of_expert) / 8;
    const std::int64_t states = held(layout, BufferCategory::optimizer);
    CHECK(std::abs(states - 12 * (layers * of_expert + others)) < 12 * 64);
  }
  layout.expert_parallel = 4;
  layout.zero_stage = 0;
  const std::int64_t whole = held(layout, BufferCategory::weights);
  layout = expert_layout(2, 4, 1, 4, 2);
  const std::int64_t halves = held(layout, BufferCategory::weights);
  layout.expert_tensor_parallel = 1;  // then with copies instead of halves
  CHECK(held(layout, BufferCategory::weights) - halves == 2 * layers * of_expert);
  CHECK(whole > halves);
}

TEST_CASE("Tokens travel once for each choice, there and back", "[plan][experts]") {
  const std::int64_t tokens = 128, token = 32 * 2;
  for (const auto& [tensor, expert_tensor] : {std::pair{1, 1}, std::pair{2, 1}, std::pair{2, 2}}) {
    CAPTURE(tensor, expert_tensor);
    const Layout layout = expert_layout(tensor, 4, 1, 4, expert_tensor);
    const Plan plan = make_plan(test::mixture(0), layout);
    const Program& program = plan.programs[0];
    const std::int64_t sent = tokens / tensor * 2 * token, weights = tokens / tensor * 2 * 4;
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const std::vector<Collective> calls = calls_of(program, GroupRole::expert, pass);
      REQUIRE(calls.size() == 2 * 4 * 3);  // micro-batches, layers; with the weights of the choices
      CHECK(std::count_if(calls.begin(), calls.end(), [&](const Collective& call) {
              return call.kind == CollectiveKind::all_to_all && call.bytes.count() == sent;
            }) == 2 * 4 * 2);
      CHECK(std::count_if(calls.begin(), calls.end(), [&](const Collective& call) {
              return call.bytes.count() == weights;
            }) == 2 * 4);
      const std::vector<Collective> shared = calls_of(program, GroupRole::expert_tensor, pass);
      REQUIRE(shared.size() == (expert_tensor > 1 ? 2 * 4 * 3 : 0));
      for (const Collective& call : shared)
        CHECK(call.bytes.count() == (call.dtype == DType::fp32 ? weights : sent) * expert_tensor);
    }
  }
}

TEST_CASE("The fullest rank gets as many more tokens as the layout says", "[plan][experts]") {
  Layout layout = expert_layout(1, 4, 1, 4);
  const auto products = [&] {
    const Plan plan = make_plan(test::mixture(0), layout);
    for (const Kernel& kernel : plan.programs[0].kernels)
      if (kernel.kind == OpKind::gemm && kernel.batch == 2) return kernel;
    return Kernel{};
  };
  CHECK(products().m == 128);  // 4 ranks' tokens, 2 choices each, over 8 experts
  layout.expert_imbalance = 1.5;
  CHECK(products().m == 192);
  layout.expert_imbalance = 4.5;
  REQUIRE(layout_problems(layout, test::mixture(0)).size() == 1);
  CHECK(layout_problems(layout, test::mixture(0))[0].key == "expert_imbalance");
}

TEST_CASE("All ranks together multiply what the model has to multiply", "[plan][experts]") {
  // Three times the forward products; what sequence parallelism computes once, others do t times.
  for (const int kind : {0, 1}) {
    const Model model = test::mixture(kind);
    const Layout one = expert_layout(1, 1, 1, 1);
    const double alone = product_flops(make_plan(model, one).programs[0]);
    double linears = 0;
    for (const Block* block : {&model.input, &model.layers[0], &model.layers[1], &model.layers[2],
                               &model.layers[3], &model.output})
      for (const ModelOp& op : block->ops)
        if (op.kind == ModelOpKind::linear || op.kind == ModelOpKind::router)
          linears +=
              6.0 * 128 * 2 * static_cast<double>(op.in_features * op.out_features * op.per_token);
    CHECK(alone == Approx(linears));
    for (const auto& [tensor, data, experts, expert_tensor] :
         {std::tuple{1, 4, 4, 1}, std::tuple{2, 4, 4, 1}, std::tuple{2, 2, 2, 2}}) {
      CAPTURE(kind, tensor, data, experts, expert_tensor);
      const Layout layout = expert_layout(tensor, data, 1, experts, expert_tensor);
      const Plan plan = make_plan(model, layout);
      CHECK(product_flops(plan.programs[0]) * tensor == Approx(alone).epsilon(1e-9));
    }
  }
}

TEST_CASE("Gradients of experts are averaged by those that have them", "[plan][experts]") {
  const std::int64_t of_expert = 3 * 32 * 16;
  for (const bool overlap : {false, true}) {
    Layout layout = expert_layout(1, 8, 1, 4);
    layout.overlap_gradients = overlap;
    const Plan plan = make_plan(test::mixture(0), layout);
    std::int64_t reduced = 0;
    for (const Collective& call :
         calls_of(plan.programs[0], GroupRole::expert_data, Pass::gradient_sync))
      reduced += call.bytes.count();
    CHECK(reduced == 2 * 4 * 2 * of_expert);  // bf16, layers, experts of a rank
    layout.expert_parallel = 8;               // nobody else has them
    const Plan alone = make_plan(test::mixture(0), layout);
    check_plan(alone);
    CHECK(calls_of(alone.programs[0], GroupRole::expert_data, Pass::gradient_sync).empty());
    CHECK_FALSE(calls_of(alone.programs[0], GroupRole::data, Pass::gradient_sync).empty());
  }
}

TEST_CASE("A second branch gets the input of the first, and its gradient is added there",
          "[plan][experts]") {
  const Plan plan = make_plan(test::mixture(1), expert_layout(1, 4, 1, 4));
  const Program& program = plan.programs[0];
  // The gradients of the router's tokens: its own, and that of the shared expert.
  CHECK(count(program, "router.add_gradient", Pass::backward, 1) == 2);
  CHECK(count(program, "router.add_gradient", Pass::backward, 0) == 0);  // without experts
  CHECK(count(program, "query_down.add_gradient", Pass::backward, 1) == 1);
  const Plan plain = make_plan(test::mixture(0), expert_layout(1, 4, 1, 4));
  CHECK(count(plain.programs[0], "router.add_gradient", Pass::backward, 1) == 1);
  // By the last forward operator of that name.
  const auto read_by = [&](const std::string& name, Role role) {
    std::uint32_t found = UINT32_MAX;
    for (std::uint32_t i = 0; i < program.size(); ++i) {
      if (program.name({i}) != name || program.label[i].layer != 1 ||
          program.pass[i] != Pass::forward || program.label[i].microbatch != 0)
        continue;
      for (const BufferUse& use : program.buffer_uses({i}))
        if (use.role == role) found = use.buffer.value;
    }
    return found;
  };
  CHECK(read_by("router", Role::input) == read_by("post_attention_norm", Role::output));
  CHECK(read_by("shared_expert_up", Role::input) == read_by("router", Role::input));
  CHECK(read_by("key_value_down", Role::input) == read_by("query_down", Role::input));
  CHECK(read_by("shared_expert_sum", Role::residual) ==
        read_by("expert_combine.permute", Role::output));
  CHECK(read_by("rotary", Role::residual) == read_by("query_up", Role::output));
}

TEST_CASE("Weights of choices go from the router to the experts, and their gradients back",
          "[plan][experts]") {
  for (const int expert_tensor : {1, 2}) {
    const Plan plan = make_plan(test::mixture(0), expert_layout(2, 2, 1, 2, expert_tensor));
    const Program& program = plan.programs[0];
    // The first micro-batch in layer 1: the buffer in a role of the last operator of a name.
    const auto buffer = [&](const std::string& name, Pass pass, Role role) {
      std::uint32_t found = UINT32_MAX;
      for (std::uint32_t i = 0; i < program.size(); ++i) {
        if (program.name({i}) != name || program.label[i].layer != 1 || program.pass[i] != pass ||
            program.label[i].microbatch != 0)
          continue;
        for (const BufferUse& use : program.buffer_uses({i}))
          if (use.role == role) found = use.buffer.value;
      }
      REQUIRE(found != UINT32_MAX);
      return found;
    };
    // The buffer that a collective of 4 bytes per choice makes of another.
    const auto behind = [&](std::uint32_t input) {
      for (std::uint32_t i = 0; i < program.size(); ++i) {
        if (program.action[i] != Action::exchange_tokens) continue;
        const auto uses = program.buffer_uses({i});
        const auto in = std::find_if(uses.begin(), uses.end(), [&](const BufferUse& use) {
          return use.role == Role::input && use.buffer.value == input;
        });
        if (in == uses.end()) continue;
        CHECK(program.collectives[program.work[i]].dtype == DType::fp32);
        for (const BufferUse& use : uses)
          if (use.role == Role::output) return use.buffer.value;
      }
      return UINT32_MAX;
    };
    std::uint32_t weights = buffer("router.choose", Pass::forward, Role::choice_weights);
    std::uint32_t gradient = buffer("expert_activation", Pass::backward, Role::choice_gradient);
    for (int i = 0; i < expert_tensor; ++i) {
      weights = behind(weights);
      gradient = behind(gradient);
    }
    CHECK(buffer("expert_activation", Pass::forward, Role::choice_weights) == weights);
    CHECK(buffer("expert_activation", Pass::backward, Role::choice_weights) == weights);
    CHECK(buffer("router.choose", Pass::backward, Role::choice_gradient) == gradient);
  }
}

TEST_CASE("What a mixture cannot be laid out like is refused", "[plan][experts][problems]") {
  const Model model = test::mixture(0);
  const auto problem = [&](const Model& of, auto change) {
    Layout layout = expert_layout(2, 4, 1, 2);
    change(layout);
    const std::vector<LayoutProblem> found = layout_problems(layout, of);
    return found.empty() ? std::string{} : found[0].key + ": " + found[0].what;
  };
  CHECK(problem(model, [](Layout&) {}).empty());
  CHECK(problem(model, [](Layout& l) { l.expert_parallel = 3; }) ==
        "expert_parallel: expert_parallel is 3, which does not divide 8 experts; allowed: 1, 2, 4, "
        "8");
  CHECK(problem(model,
                [](Layout& l) {
                  l.expert_parallel = 8;
                  l.expert_tensor_parallel = 2;
                }) ==
        "expert_parallel: expert_tensor_parallel x expert_parallel = 2 x 8 does not divide the 8 "
        "ranks of a stage (tensor_parallel x context_parallel x data_parallel)");
  CHECK(problem(model, [](Layout& l) { l.sequence_parallel = false; }) ==
        "sequence_parallel: sequence_parallel is false with tensor_parallel = 2; a mixture of "
        "experts needs it");
  CHECK(problem(model, [](Layout& l) { l.zero_stage = 3; }).empty());
  CHECK(problem(model,
                [](Layout& l) {
                  l.zero_stage = 1;
                  l.expert_parallel = 8;
                  l.shard_group = 2;
                }) ==
        "shard_group: tensor_parallel x shard_group = 2 x 2 is no multiple of "
        "expert_tensor_parallel x expert_parallel = 8");
  CHECK(problem(test::transformer(1), [](Layout&) {}) ==
        "expert_parallel: expert_parallel is given, but test-transformer has no experts");
  Model pytorch = test::mixture(1);
  pytorch.execution.context = ContextForm::eager;
  CHECK(problem(pytorch,
                [](Layout& l) {
                  l.context_parallel = 2;
                  l.data_parallel = 2;
                }) ==
        "context_parallel: context_parallel is 2, but test-mixture has latent attention, for which "
        "it is modelled as Transformer Engine runs it; allowed: 1");
  Model eager = model;
  eager.execution.separate_products = true;
  CHECK(problem(eager, [](Layout&) {}) ==
        "framework: a mixture of experts is modelled as Megatron-LM, torchtitan and NeMo "
        "Automodel run it; allowed: framework megatron, torchtitan, or framework.experts "
        "automodel, automodel_each");
}
