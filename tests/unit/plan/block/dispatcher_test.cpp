// How tokens come to their experts: dispatchers, capacity, exchanges beside compute.
#include <algorithm>
#include <map>
#include <string>

#include "sim/plan/plan.hpp"
#include "sim/program/expert_routing.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/models.hpp"
#include "tests/unit/plan/random_layout.hpp"

using namespace sim;

namespace {

Layout layout_of(int data, int pipeline, int experts, int micro_batches = 4) {
  Layout layout = test::layout_for(1, data, pipeline, micro_batches);
  layout.expert_parallel = experts;
  layout.expert_tensor_parallel = 1;
  return layout;
}

// Interleaved over `pipeline` stages, or 1F1B on one.
Layout merged_layout(int pipeline, TokenDispatcher dispatcher, bool delay) {
  Layout layout = layout_of(4, pipeline, 4, 2 * pipeline + 2);
  if (pipeline > 1) {
    layout.schedule = Schedule::interleaved;
    layout.virtual_stages = 2;
    layout.global_batch = 4 * 3 * pipeline;
  }
  layout.token_dispatcher = dispatcher;
  layout.overlap_expert_exchange = true;
  layout.delay_weight_gradients = delay;
  return layout;
}

double product_flops(const Program& program) {
  double sum = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i)
    if (program.kind[i] == OpKind::gemm) sum += program.kernels[program.work[i]].flops.count();
  return sum;
}

std::map<std::string, int> names_of(const Program& program) {
  std::map<std::string, int> names;
  for (std::uint32_t i = 0; i < program.size(); ++i)
    ++names[std::string{program.name({i})}];
  return names;
}

const Collective* call_of(const Program& program, const std::string& name) {
  for (std::uint32_t i = 0; i < program.size(); ++i)
    if (program.kind[i] == OpKind::collective && program.name({i}) == name)
      return &program.collectives[program.work[i]];
  return nullptr;
}

const Kernel& kernel_of(const Program& program, const std::string& name) {
  for (std::uint32_t i = 0; i < program.size(); ++i)
    if (runs_kernel(program.kind[i]) && program.name({i}) == name)
      return program.kernels[program.work[i]];
  FAIL(name);
  return program.kernels.front();
}

std::vector<std::string> keys_of_problems(const Layout& layout, const Model& model) {
  std::vector<std::string> keys;
  for (const LayoutProblem& problem : layout_problems(layout, model))
    keys.emplace_back(problem.key);
  return keys;
}

}  // namespace

TEST_CASE("dispatchers and merged passes give sound plans", "[plan][experts]") {
  for (const TokenDispatcher dispatcher : {TokenDispatcher::alltoall, TokenDispatcher::allgather,
                                           TokenDispatcher::deepep, TokenDispatcher::hybridep})
    for (int kind = 0; kind < test::mixture_kinds; ++kind)
      for (const int pipeline : {1, 2, 4})
        for (const int form : {0, 1, 2, 3}) {
          const Model model = test::mixture(kind, 8);
          Layout layout = merged_layout(pipeline, dispatcher, form == 1);
          if (form >= 2) layout.overlap_expert_exchange = false;
          layout.overlap_shared_experts = form == 3;
          layout.zero_stage = form % 2;
          CAPTURE(word(dispatcher), kind, pipeline, form);
          if (!layout_problems(layout, model).empty()) continue;
          check_plan(make_plan(model, layout));
        }
}

TEST_CASE("random layouts of mixtures with merged passes give sound plans",
          "[plan][experts][property]") {
  int plans = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Layout layout = test::random_layout(seed);
    layout.expert_parallel = 2 << (seed % 2);
    layout.expert_tensor_parallel = 1;
    layout.sequence_parallel = layout.tensor_parallel > 1;
    layout.zero_stage %= 2;
    layout.shard_group = 0;
    layout.context_parallel = 1;
    layout.overlap_tensor_products = false;
    layout.compute_dtype = DType::bf16;
    layout.eight_bit_parameters = false;
    layout.attention = AttentionKernel::flash;
    layout.recompute = Recompute::none;
    layout.schedule = layout.pipeline_parallel == 1 ? Schedule::one_f_one_b : Schedule::interleaved;
    layout.virtual_stages = layout.pipeline_parallel == 1 ? 1 : 2;
    layout.overlap_pipeline = true;
    layout.overlap_expert_exchange = true;
    layout.delay_weight_gradients = seed / 2 % 2 == 0;
    layout.token_dispatcher =
        seed / 4 % 2 == 0 ? TokenDispatcher::alltoall : TokenDispatcher::deepep;
    const Model model = test::mixture(static_cast<int>(seed / 8 % 2), 8);
    if (!layout_problems(layout, model).empty()) continue;
    CAPTURE(seed, test::to_text(layout));
    check_plan(make_plan(model, layout));
    ++plans;
  }
  CHECK(plans > 50);
}

TEST_CASE("merged passes do the work of others", "[plan][experts]") {
  for (const int pipeline : {1, 2})
    for (const bool delay : {false, true})
      for (int kind = 0; kind < test::mixture_kinds; ++kind) {
        const Model model = test::mixture(kind, 8);
        const Layout merged = merged_layout(pipeline, TokenDispatcher::alltoall, delay);
        Layout plain = merged;
        plain.overlap_expert_exchange = plain.delay_weight_gradients = false;
        const Plan of_merged = make_plan(model, merged), of_plain = make_plan(model, plain);
        REQUIRE(of_merged.programs.size() == of_plain.programs.size());
        for (std::size_t p = 0; p < of_merged.programs.size(); ++p) {
          CHECK(product_flops(of_merged.programs[p]) == product_flops(of_plain.programs[p]));
          CHECK(names_of(of_merged.programs[p]) == names_of(of_plain.programs[p]));
        }
      }
}

TEST_CASE("merged passes in 8 and 4 bits do the work of others", "[plan][experts]") {
  const std::array recipes{EightBit::transformer_engine_tensorwise,
                           EightBit::transformer_engine_blockwise,
                           EightBit::transformer_engine_mxfp8};
  for (const int pipeline : {1, 2})
    for (const bool delay : {false, true})
      for (std::size_t i = 0; i <= recipes.size(); ++i)
        for (const TokenDispatcher dispatcher :
             {TokenDispatcher::alltoall, TokenDispatcher::deepep, TokenDispatcher::hybridep}) {
          Model model = test::mixture(static_cast<int>(i % 2), 8);
          Layout merged = merged_layout(pipeline, dispatcher, delay);
          merged.compute_dtype = i < recipes.size() ? DType::fp8 : DType::nvfp4;
          model.execution.eight_bit = recipes[i % recipes.size()];
          CAPTURE(pipeline, delay, i, word(dispatcher));
          const Plan of_merged = test::checked_plan(model, merged);
          Layout plain = merged;
          plain.overlap_expert_exchange = plain.delay_weight_gradients = false;
          const Plan of_plain = test::checked_plan(model, plain);
          for (std::size_t p = 0; p < of_merged.programs.size(); ++p) {
            CHECK(product_flops(of_merged.programs[p]) == product_flops(of_plain.programs[p]));
            CHECK(names_of(of_merged.programs[p]) == names_of(of_plain.programs[p]));
          }
        }
  Layout delayed = merged_layout(1, TokenDispatcher::deepep, false);
  delayed.compute_dtype = DType::fp8;
  CHECK(keys_of_problems(delayed, test::mixture(0, 8)) ==
        std::vector<std::string>{"overlap.expert_exchange"});
}

// Every exchange between two micro-batches: kernels of another one stand between its issue and the
// first kernel that waits for it.
TEST_CASE("an exchange of a merged pass has kernels of the other micro-batch beside it",
          "[plan][experts]") {
  const Model model = test::mixture(0, 4);
  const Plan plan = make_plan(model, merged_layout(1, TokenDispatcher::deepep, true));
  const Program& program = plan.programs[0];
  int beside = 0, exchanges = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.action[i] != Action::exchange_tokens) continue;
    CHECK(program.stream[i] == Stream::context_comm);
    if (program.label[i].microbatch == 0 && program.pass[i] == Pass::forward) continue;
    if (program.label[i].microbatch + 1 ==
            merged_layout(1, TokenDispatcher::deepep, true).micro_batches() &&
        program.pass[i] == Pass::backward)
      continue;
    ++exchanges;
    for (std::uint32_t op = i + 1; op < program.size(); ++op) {
      if (program.stream[op] != Stream::compute) continue;
      const auto waits = program.dependencies({op});
      if (std::find(waits.begin(), waits.end(), OpId{i}) != waits.end()) break;
      if (program.label[op].microbatch != program.label[i].microbatch) {
        ++beside;
        break;
      }
    }
  }
  CHECK(exchanges > 0);
  CHECK(beside == exchanges);
}

TEST_CASE("a fused exchange sends tokens once and copies them where they come", "[plan][experts]") {
  const Model model = test::mixture(0, 2);  // 8 experts, 2 for each token
  Layout layout = layout_of(4, 1, 4);
  const Plan copies = make_plan(model, layout);
  layout.token_dispatcher = TokenDispatcher::deepep;
  const Plan fused = make_plan(model, layout);
  const std::int64_t token = model.shape->hidden * 2, tokens = 128;
  const Collective* call = call_of(fused.programs[0], "expert_dispatch.deepep");
  REQUIRE(call != nullptr);
  CHECK(call->bytes.count() == tokens * token);
  CHECK(call->carrier == Carrier::deepep);
  CHECK(call->blocks == 20);
  CHECK(call->routing == ExpertRouting{.experts = 8, .per_token = 2});
  CHECK(call_of(fused.programs[0], "expert_dispatch.all_to_all") == nullptr);
  // A rank has 2 experts: 4 (1 - C(6,2) / C(8,2)) copies of each token come, and are read; 2 are
  // written.
  const double come = 4 * (1 - 15.0 / 28);
  const Kernel& permute = kernel_of(fused.programs[0], "expert_dispatch.permute");
  CHECK_THAT(static_cast<double>(permute.bytes.count()),
             WithinRel((come + 2) * static_cast<double>(tokens * token), 1e-4));
  CHECK(product_flops(fused.programs[0]) == product_flops(copies.programs[0]));
  layout.dispatch_sms = 8;
  CHECK(call_of(make_plan(model, layout).programs[0], "expert_dispatch.deepep")->blocks == 8);
}

TEST_CASE("HybridEP gathers a map of the choices before it sends", "[plan][experts]") {
  const Model model = test::mixture(0, 2);
  Layout layout = layout_of(4, 1, 4);
  layout.token_dispatcher = TokenDispatcher::hybridep;
  const Program program = make_plan(model, layout).programs[0];
  const Collective* map = call_of(program, "expert_dispatch.all_gather");
  REQUIRE(map != nullptr);
  CHECK(map->bytes.count() == 4 * 128 * 8);  // a byte for each of 8 experts
  CHECK(call_of(program, "expert_dispatch.hybridep")->blocks == 16);
  for (std::uint32_t i = 0; i < program.size(); ++i)
    if (program.name({i}) == "expert_dispatch.all_gather") CHECK(program.pass[i] == Pass::forward);
}

TEST_CASE("the dispatcher allgather gathers all tokens and scatters sums", "[plan][experts]") {
  const Model model = test::mixture(0, 2);
  Layout layout = layout_of(4, 1, 4);
  layout.token_dispatcher = TokenDispatcher::allgather;
  const Program program = make_plan(model, layout).programs[0];
  const std::int64_t all = 4 * 128 * model.shape->hidden * 2;
  const Collective* gather = call_of(program, "expert_combine.all_gather");
  const Collective* scatter = call_of(program, "expert_combine.reduce_scatter");
  REQUIRE(gather != nullptr);
  REQUIRE(scatter != nullptr);
  CHECK(gather->kind == CollectiveKind::all_gather);
  CHECK(gather->bytes.count() == all);
  CHECK(scatter->kind == CollectiveKind::reduce_scatter);
  CHECK(scatter->bytes.count() == all);
  // 8 weights of 4 bytes and 8 bytes of a map for each token go first.
  const Collective* weights = call_of(program, "expert_dispatch.all_gather");
  REQUIRE(weights != nullptr);
  CHECK(weights->bytes.count() == 4 * 128 * 8 * 5);
}

TEST_CASE("experts take as many tokens as their capacity", "[plan][experts]") {
  const Model model = test::mixture(0, 2);
  const auto tokens = [&](double capacity, bool pad, double imbalance) {
    Layout layout = layout_of(4, 1, 4);
    layout.expert_capacity = capacity;
    layout.pad_to_capacity = pad;
    layout.expert_imbalance = imbalance;
    const Program program = make_plan(model, layout).programs[0];
    const Kernel& up = kernel_of(program, "expert_up");
    return up.m * up.batch;
  };
  const std::int64_t even = 128 * 2;
  CHECK(tokens(0, false, 1) == even);
  CHECK(tokens(0, false, 2) == 2 * even);
  CHECK(tokens(1.5, false, 1) == even);
  CHECK(tokens(1.5, false, 2) == even * 3 / 2);
  CHECK(tokens(0.5, false, 1) == even / 2);
  CHECK(tokens(1.5, true, 1) == even * 3 / 2);
  CHECK(tokens(1.5, true, 4) == even * 3 / 2);
}

TEST_CASE("padded experts need no counts, dropped tokens do", "[plan][experts]") {
  Model model = test::mixture(0, 2);
  model.execution.waits_for_counts = true;
  for (const TokenDispatcher dispatcher : {TokenDispatcher::alltoall, TokenDispatcher::allgather,
                                           TokenDispatcher::deepep, TokenDispatcher::hybridep}) {
    Layout layout = layout_of(4, 1, 4);
    layout.token_dispatcher = dispatcher;
    CAPTURE(word(dispatcher));
    CHECK(make_plan(model, layout).programs[0].host_waits.size() == 2 * 4);
  }
  Layout layout = layout_of(4, 1, 4);
  layout.expert_capacity = 1.25;
  CHECK_FALSE(make_plan(model, layout).programs[0].host_waits.empty());
  layout.pad_to_capacity = true;
  CHECK(make_plan(model, layout).programs[0].host_waits.empty());
}

TEST_CASE("what an exchange of tokens cannot be is refused", "[plan][experts][problems]") {
  using Keys = std::vector<std::string>;
  const Model model = test::mixture(0), shared = test::mixture(1);
  const auto problems = [&](auto change, const Model& of) {
    Layout layout = merged_layout(1, TokenDispatcher::alltoall, false);
    layout.overlap_expert_exchange = false;
    change(layout);
    return keys_of_problems(layout, of);
  };
  CHECK(problems([](Layout&) {}, model).empty());
  CHECK(problems([](Layout& l) { l.dispatch_sms = 8; }, model) == Keys{"moe.dispatch_sms"});
  CHECK(problems([](Layout& l) { l.pad_to_capacity = true; }, model) ==
        Keys{"moe.pad_to_capacity"});
  CHECK(problems([](Layout& l) { l.delay_weight_gradients = true; }, model) ==
        Keys{"overlap.delay_wgrad"});
  CHECK(problems([](Layout& l) { l.overlap_shared_experts = true; }, model) ==
        Keys{"overlap.shared_experts"});
  CHECK(problems([](Layout& l) { l.overlap_shared_experts = true; }, shared).empty());
  CHECK(problems(
            [](Layout& l) {
              l.overlap_expert_exchange = true;
              l.recompute = Recompute::full;
            },
            model) == Keys{"overlap.expert_exchange"});
  CHECK(problems(
            [](Layout& l) {
              l.token_dispatcher = TokenDispatcher::deepep;
              l.dispatch_sms = 7;
            },
            model) == Keys{"moe.dispatch_sms"});
  CHECK(problems(
            [](Layout& l) {
              l.token_dispatcher = TokenDispatcher::allgather;
              l.expert_capacity = 1;
            },
            model) == Keys{"moe.capacity_factor"});
  CHECK(problems(
            [](Layout& l) {
              l.token_dispatcher = TokenDispatcher::hybridep;
              l.expert_parallel = 1;
            },
            model) == Keys{"moe.dispatcher"});
  Layout dense = test::layout_for(1, 2, 1, 2);
  dense.token_dispatcher = TokenDispatcher::deepep;
  dense.overlap_expert_exchange = true;
  CHECK(keys_of_problems(dense, test::transformer(1)) ==
        Keys{"moe.dispatcher", "overlap.expert_exchange"});
}
