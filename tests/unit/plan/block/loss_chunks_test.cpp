// The head and the loss in chunks of the tokens (Layout::loss_chunks).
#include <algorithm>
#include <string>

#include "sim/memory/arena.hpp"
#include "sim/plan/sharding/flop_count.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "tests/catch.hpp"
#include "tests/support/program_digest.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/models.hpp"
#include "tests/unit/plan/random_layout.hpp"

using namespace sim;

namespace {

Layout in_chunks(Layout layout, int chunks) {
  layout.loss_chunks = chunks;
  return layout;
}

Model with_form(Model model, LossChunks form) {
  model.execution.loss_chunks = form;
  return model;
}

Model gpt_with(LossChunks form) {
  return with_form(test::transformer(1), form);
}

int runs(const Program& program, const std::string& name, Pass pass) {
  int found = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    found += program.name(OpId{op}) == name && program.pass[op] == pass ? 1 : 0;
  return found;
}

// The bytes that an operator of this name writes as its output.
std::int64_t output_of(const Program& program, const std::string& name) {
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.name(OpId{op}) != name) continue;
    for (const BufferUse& use : program.buffer_uses(OpId{op}))
      if (use.role == Role::output) return program.buffers[use.buffer.value].size.count();
  }
  return 0;
}

constexpr std::array forms{LossChunks::at_once, LossChunks::at_once_fp32, LossChunks::behind,
                           LossChunks::again};

}  // namespace

TEST_CASE("the head in chunks multiplies as the whole one, and its logits are those of a chunk",
          "[plan][loss]") {
  const LossChunks form = GENERATE(from_range(forms));
  const Model model = gpt_with(form);
  Layout plain = test::layout_for(GENERATE(1, 2), 2, 1, 2);
  if (form == LossChunks::again && plain.tensor_parallel > 1) return;  // refused
  plain.sequence_parallel = plain.tensor_parallel > 1;
  const Layout chunked = in_chunks(plain, 4);
  const Plan plan = test::checked_plan(model, chunked);
  const Program& program = plan.programs[0];
  const Program whole = test::checked_plan(model, plain).programs[0];
  const int batches = static_cast<int>(plain.micro_batches());
  const bool again = form == LossChunks::again;
  CHECK(output_of(program, "head") * 4 == output_of(whole, "head"));
  CHECK(runs(program, "head", Pass::forward) == 4 * batches);
  CHECK(runs(program, "head", Pass::recompute) == (again ? 4 * batches : 0));
  CHECK(runs(program, "head.input_gradient", Pass::backward) == 4 * batches);
  CHECK(runs(program, "head.weight_gradient", Pass::backward) == 4 * batches);
  const double more = hardware_flops(model, chunked, AttentionCount::full).count() -
                      model_flops(model, chunked, AttentionCount::full).count();
  const int ranks = plain.replicas() * plain.tensor_parallel;
  CHECK((test::gemm_flops(program) - test::gemm_flops(whole)) * ranks == Approx(more));
  CHECK((more > 0) == again);
  CHECK(plan.model_flops.count() == make_plan(model, plain).model_flops.count());
}

TEST_CASE("what chunks keep until they go back differs by the form", "[plan][loss]") {
  Layout layout = test::layout_for(1, 1, 1, 1);
  layout.sequence_length = 4096;
  layout.recompute = Recompute::full;  // the logits are the peak
  const auto peak = [&](LossChunks form, int chunks) {
    const Program program =
        test::checked_plan(gpt_with(form), in_chunks(layout, chunks)).programs[0];
    return arena_layout(program).size.count();
  };
  const std::int64_t whole = peak(LossChunks::at_once, 1);
  const std::int64_t logits = layout.sequence_length * test::transformer(1).vocabulary;
  // The fused loss keeps 4 bytes of each logit and takes 4 more, beside a gradient of 2.
  CHECK(peak(LossChunks::at_once, 8) < whole - 5 * logits);
  CHECK(peak(LossChunks::again, 8) < whole - 5 * logits);
  CHECK(peak(LossChunks::at_once, 8) < peak(LossChunks::behind, 8));
  CHECK(peak(LossChunks::behind, 8) < whole);
  CHECK(peak(LossChunks::at_once, 8) <= peak(LossChunks::at_once_fp32, 8));
}

TEST_CASE("one chunk is the plan without chunks", "[plan][loss]") {
  const Layout layout = test::layout_for(1, 2, 2, 2);
  const auto digest = [&](LossChunks form, int chunks) {
    return test::digest_of(make_plan(gpt_with(form), in_chunks(layout, chunks)).programs);
  };
  CHECK(digest(LossChunks::behind, 1) == digest(LossChunks::at_once, 1));
  CHECK(digest(LossChunks::behind, 2) != digest(LossChunks::at_once, 2));
}

TEST_CASE("gradients of the head add up over chunks and are reduced once", "[plan][loss]") {
  Model model = gpt_with(GENERATE(from_range(forms)));
  model.execution.adds_gradients = true;
  Layout layout = test::layout_for(1, 2, 1, 3);
  layout.zero_stage = GENERATE(0, 1, 2, 3);
  const Program plain = test::checked_plan(model, layout).programs[0];
  const Program program = test::checked_plan(model, in_chunks(layout, 4)).programs[0];
  const auto count = [](const Program& of, Action action) {
    return std::count(of.action.begin(), of.action.end(), action);
  };
  CHECK(count(program, Action::add_weight_gradient) - count(plain, Action::add_weight_gradient) ==
        3 * 3);
  CHECK(count(program, Action::reduce) == count(plain, Action::reduce));
}

TEST_CASE("FSDP adds chunks up in the format of its reduction, whole", "[plan][loss]") {
  Model model = gpt_with(LossChunks::at_once_fp32);
  model.execution.adds_gradients = true;
  Layout layout = in_chunks(test::layout_for(1, 2, 1, 1), 4);
  layout.zero_stage = 3;
  const auto sum_of = [&](DType wire) {
    layout.reduce_dtype = wire;
    const Program program = test::checked_plan(model, layout).programs[0];
    std::int64_t bytes = 0;
    for (std::uint32_t op = 0; op < program.size(); ++op) {
      if (program.name(OpId{op}) != "head.add_gradient") continue;
      for (const BufferUse& use : program.buffer_uses(OpId{op}))
        if (use.role == Role::workspace)
          bytes = std::max(bytes, program.buffers[use.buffer.value].size.count());
    }
    return bytes;
  };
  const ModelOp& head = *std::ranges::find(model.output.ops, std::string{"head"}, &ModelOp::name);
  CHECK(sum_of(DType::bf16) == 0);
  CHECK(sum_of(DType::fp32) >= 2 * head.in_features * head.out_features);
}

TEST_CASE("units that FSDP holds take the gradients of all chunks", "[plan][loss][tiles]") {
  Model model = gpt_with(GENERATE(LossChunks::at_once, LossChunks::behind, LossChunks::again));
  model.execution.adds_gradients = model.execution.accumulates_whole = true;
  Layout layout = test::layout_for(1, 2, 1, 3);
  layout.zero_stage = 3;
  layout.reduce_dtype = GENERATE(DType::bf16, DType::fp32);
  REQUIRE(holds_units(model, layout));
  const auto added = [&](int tiles, int chunks) {
    layout.mlp_tiles = tiles;
    layout.loss_chunks = chunks;
    const Program program = test::checked_plan(model, layout).programs[0];
    return std::count(program.action.begin(), program.action.end(), Action::add_weight_gradient);
  };
  const auto layers = static_cast<std::ptrdiff_t>(model.layers.size());
  // Three chunks behind the first, and three pieces of two linears of each layer with their biases.
  CHECK(added(1, 4) - added(1, 1) == 3 * 3);
  // Each is added behind its own chunk, not kept until the unit is done.
  layout.mlp_tiles = 1;
  layout.loss_chunks = 4;
  const Program program = test::checked_plan(model, layout).programs[0];
  std::uint32_t first_sum = 0, last_product = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.label[op].microbatch != 1) continue;
    if (program.name(OpId{op}) == "head.add_gradient" && first_sum == 0) first_sum = op;
    if (program.name(OpId{op}) == "head.weight_gradient") last_product = op;
  }
  CHECK(first_sum < last_product);
  CHECK((added(4, 1) - added(1, 1)) % (3 * 3 * layers) == 0);
  CHECK(added(4, 1) > added(1, 1));
}

TEST_CASE("random layouts with the loss in chunks give sound plans", "[plan][loss][property]") {
  int legal = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    Layout layout = in_chunks(test::random_layout(seed), 1 << (seed % 3 + 1));
    if (seed % 5 == 0) layout.mlp_tiles = 4;
    Model model = with_form(test::transformer(static_cast<int>(seed % test::transformer_kinds)),
                            forms[seed / 3 % forms.size()]);
    model.execution.adds_gradients = seed % 2 == 0;
    if (!layout_problems(layout, model).empty()) continue;
    ++legal;
    CAPTURE(seed, test::to_text(layout));
    REQUIRE_NOTHROW(check_plan(make_plan(model, layout)));
  }
  CHECK(legal > 100);
}

TEST_CASE("where the loss does not go in chunks it is refused by its key", "[plan][problems]") {
  const auto problem = [](const Model& model, auto change) {
    Layout layout = in_chunks(test::layout_for(1, 1, 1, 1), 4);
    change(layout);
    for (const LayoutProblem& found : layout_problems(layout, model))
      if (found.key == "loss_chunks") return found.what;
    return std::string{};
  };
  const Model model = test::transformer(1);
  CHECK(problem(model, [](Layout&) {}).empty());
  CHECK(problem(model, [](Layout& l) { l.loss_chunks = 3; }) ==
        "loss_chunks is 3, which does not divide the 128 tokens of a sequence that a GPU has "
        "(sequence_length / context_parallel); allowed: 1, 2, 4, 8, 16, 32, 64, 128");
  CHECK(problem(model, [](Layout& l) { l.tensor_parallel = 2; }).empty());
  CHECK(problem(model,
                [](Layout& l) {
                  l.tensor_parallel = 4;
                  l.sequence_parallel = true;
                  l.loss_chunks = 64;
                }) ==
        "loss_chunks is 64, which does not divide the 32 tokens of a sequence that a GPU has "
        "(sequence_length / context_parallel / tensor_parallel); allowed: 1, 2, 4, 8, 16, 32");
  CHECK(problem(test::layer_list(4, 100), [](Layout&) {
        }).find("does not end with a head and its loss") != std::string::npos);
  CHECK(
      problem(model, [](Layout& l) {
        l.pipeline_parallel = 2;
        l.schedule = Schedule::zb_h1;
      }) == "loss_chunks is 4: its weight gradients cannot be put off, as zb-h1 does; allowed: 1");
  Model other = model;
  other.execution.chunks_logits = true;
  CHECK(problem(other, [](Layout&) {}) ==
        "loss_chunks is 4: framework.loss chunked has chunks of its own; allowed: 1");
  other = model;
  other.execution.held_logits = 2;
  CHECK(problem(other, [](Layout&) {}) ==
        "loss_chunks is 4: the framework reads all logits behind the loss (framework.held_logits, "
        "loss_metrics); allowed: 1");
}
