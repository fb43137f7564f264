// Sequences of a data set in a plan: kernels by micro-batch, context parallelism, padded rows.
#include <algorithm>
#include <cmath>
#include <set>

#include "sim/memory/memory.hpp"
#include "sim/plan/sharding/flop_count.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/models.hpp"
#include "tests/unit/plan/random_layout.hpp"

using namespace sim;

namespace {

Layout packed(int data = 2, int pipeline = 1, int micro_batches = 4) {
  Layout layout = test::layout_for(1, data, pipeline, micro_batches);
  layout.sequence_length = 1024;
  layout.packing_lengths.name = "lognormal";
  layout.packing_mean = 100;
  layout.packing_sigma = 1;
  return layout;
}

// Kernels of attention of one pass, by micro-batch, of one layer.
std::vector<Kernel> attention_of(const Program& program, AttentionPart part) {
  std::vector<Kernel> kernels;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] != OpKind::attention || program.label[op].layer != 1) continue;
    const Kernel& kernel = program.kernels[program.work[op]];
    if (kernel.part == part) kernels.push_back(kernel);
  }
  return kernels;
}

std::set<std::int64_t> received(const Program& program) {
  std::set<std::int64_t> bytes;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    if (program.kind[op] == OpKind::recv)
      bytes.insert(program.transfers[program.work[op]].bytes.count());
  return bytes;
}

bool says(const Layout& layout, const Model& model, std::string_view key) {
  const std::vector<LayoutProblem> problems = layout_problems(layout, model);
  return std::ranges::any_of(problems, [&](const LayoutProblem& one) { return one.key == key; });
}

}  // namespace

TEST_CASE("the loss of each micro-batch goes in chunks of its own tokens",
          "[plan][packing][loss]") {
  Model model = test::transformer(1);
  model.execution.loss_chunks = GENERATE(LossChunks::at_once, LossChunks::behind);
  Layout layout = packed(2, GENERATE(1, 2));
  layout.packing = Packing::pad_to_longest;  // rows of their own lengths
  layout.micro_batch = 1;
  layout.loss_chunks = 4;
  REQUIRE(layout_problems(layout, model).empty());
  const Plan plan = test::checked_plan(model, layout);
  const Program& program = plan.programs.back();
  std::set<std::int64_t> rows;
  for (const MicroBatchLoad& load : plan.loads->waited_for)
    rows.insert((load.tokens + 3) / 4);
  std::set<std::int64_t> multiplied;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    if (program.name(OpId{op}) == "head") multiplied.insert(program.kernels[program.work[op]].m);
  CHECK(multiplied == rows);
}

TEST_CASE("each micro-batch has the attention of its own sequences", "[plan][packing]") {
  const Model model = test::transformer(1);
  const Layout layout = packed();
  const Plan plan = test::checked_plan(model, layout);
  const std::vector<Kernel> forward = attention_of(plan.programs[0], AttentionPart::forward);
  REQUIRE(forward.size() == 4);
  for (std::size_t j = 0; j < forward.size(); ++j) {
    // Scores of 1,024 tokens whose sequences have `attended`: half of 1,024 x attended, two GEMMs.
    const double attended = plan.loads->waited_for[j].attended;
    const AttentionShape& shape = model.attention;
    const double flops = 4.0 * 1024 * attended / 2 * static_cast<double>(shape.heads) *
                         static_cast<double>(shape.head_dim);
    CHECK(forward[j].flops.count() == Approx(flops).epsilon(0.02));
    CHECK(forward[j].m == forward[j].n);
  }
  CHECK(forward[0] != forward[1]);
}

TEST_CASE("equal sequences give the plan of packed_length", "[plan][packing]") {
  const Model model = test::transformer(1);
  Layout drawn = packed();
  drawn.packing_mean = 128;
  drawn.packing_sigma = 0;
  Layout said = drawn;
  said.packing_lengths = {};
  said.packing_mean = 0;
  said.packed_length = 128;
  const Program a = test::checked_plan(model, drawn).programs[0];
  const Program b = test::checked_plan(model, said).programs[0];
  CHECK(a.kernels == b.kernels);
  CHECK(a.work == b.work);
  CHECK(model_flops(model, drawn, AttentionCount::full).count() ==
        model_flops(model, said, AttentionCount::full).count());
}

TEST_CASE("tokens and model FLOPs are those of the data, hardware FLOPs those of rows",
          "[plan][packing]") {
  const Model model = test::transformer(1);
  Layout layout = packed();
  layout.packing_mean = 600;  // rarely two in a row
  layout.packing_sigma = 0.2;
  const Plan plan = test::checked_plan(model, layout);
  const double share = plan.loads->real_share();
  CHECK(share < 0.9);
  CHECK(static_cast<double>(plan.tokens) == Approx(8 * 1024 * share).epsilon(1e-3));
  // Linears work on the share that is real; of attention more is real, as the sequences are longer
  // than what is left of a row.
  const double real = plan.model_flops.count() / plan.hardware_flops.count();
  CHECK(real > share);
  CHECK(real < share * plan.loads->real_attended / plan.loads->attended);
}

TEST_CASE("packed rows need as much memory as filled ones", "[plan][packing]") {
  const auto persistent = [](const Program& program) {
    std::int64_t bytes = 0;
    for (const Buffer& buffer : program.buffers)
      if (buffer.persistent) bytes += buffer.size.count();
    return bytes;
  };
  for (const bool parts : {false, true}) {
    CAPTURE(parts);
    Layout layout = packed(2, 2, 4);
    layout.tensor_parallel = 4;
    layout.sequence_parallel = true;
    layout.overlap_tensor_products = parts;
    const Program drawn = test::checked_plan(test::transformer(1), layout).programs[0];
    layout.packing_lengths = {};
    layout.packing_mean = layout.packing_sigma = 0;
    const Program filled = test::checked_plan(test::transformer(1), layout).programs[0];
    CHECK(persistent(drawn) == persistent(filled));
    CHECK(memory_use(drawn).peak == memory_use(filled).peak);
  }
}

TEST_CASE("context ranks share each sequence of a row", "[plan][packing][context]") {
  const Model model = test::transformer(1);
  for (const ContextExchange exchange :
       {ContextExchange::ring, ContextExchange::all_gather, ContextExchange::all_to_all}) {
    Layout layout = packed(1, 1, 1);
    layout.context_exchange = exchange;
    layout.packing_sigma = 0;
    layout.packing_mean = 128;
    const auto flops = [&](int ranks) {
      layout.context_parallel = ranks;
      const Program program = test::checked_plan(model, layout).programs[0];
      double sum = 0;
      for (const Kernel& kernel : attention_of(program, AttentionPart::forward))
        sum += kernel.flops.count();
      return sum;
    };
    CAPTURE(word(exchange));
    // Two ranks hold 64 tokens of each: 64 x 64 / 2 + 64 x 32 scores in a ring, half of the whole.
    CHECK(flops(2) == Approx(flops(1) / 2));
    CHECK(says(layout, model, "packing") == false);
  }
  Layout odd = packed(1, 1, 1);
  odd.context_parallel = 2;
  odd.packing_sigma = 0;
  odd.packing_mean = 125;  // padded to 128
  CHECK(test::checked_plan(model, odd).loads->real_share() == Approx(125.0 / 128));
}

TEST_CASE("padded rows make kernels and messages as long as they are", "[plan][packing]") {
  const Model model = test::transformer(1);
  Layout layout = packed(2, 2, 4);
  layout.packing = Packing::pad_to_longest;
  layout.micro_batch = 2;
  layout.global_batch *= 2;
  const Plan plan = test::checked_plan(model, layout);
  std::set<std::int64_t> lengths;
  for (const MicroBatchLoad& load : plan.loads->waited_for)
    lengths.insert(load.tokens);
  CHECK(lengths.size() > 1);
  CHECK(received(plan.programs[1]).size() == lengths.size());
  CHECK(received(plan.programs[1]) != received(plan.memory_programs()[1]));
  CHECK(received(plan.memory_programs()[1]) ==
        std::set<std::int64_t>{2 * 2 * plan.loads->longest_row * model.hidden});
}

TEST_CASE("packing: what does not go together is refused by key", "[plan][packing]") {
  const Model model = test::transformer(1);
  const auto refused = [&](auto change, std::string_view key) {
    Layout layout = packed();
    change(layout);
    return says(layout, model, key);
  };
  CHECK_FALSE(says(packed(), model, "packing"));
  CHECK(refused([](Layout& l) { l.packing_mean = 0; }, "packing"));
  CHECK(refused([](Layout& l) { l.packing_lengths = {}; }, "packing"));
  CHECK(refused([](Layout& l) { l.packing_lengths.name = "a.csv"; }, "packing"));
  CHECK(refused([](Layout& l) { l.packed_length = 64; }, "packed_length"));
  CHECK(refused([](Layout& l) { l.attention = AttentionKernel::unfused; }, "attention"));
  CHECK(refused([](Layout& l) { l.packing_multiple = 48; }, "packing"));
  CHECK(refused([](Layout& l) { l.global_batch = 1 << 21; }, "global_batch"));
  CHECK(refused([](Layout& l) { l.micro_batch = 2; }, "micro_batch"));
  CHECK(refused(
      [](Layout& l) {
        l.local_steps = 4;
        l.local_ranks = 1;
      },
      "local_steps"));
  CHECK(refused(
      [](Layout& l) {
        l.context_parallel = 2;
        l.packing = Packing::concatenated;
      },
      "packing"));
  CHECK(refused(
      [](Layout& l) {
        l.context_parallel = 2;
        l.packing_multiple = 2;
      },
      "packing"));
  Model pytorch = model;
  pytorch.execution.context = ContextForm::eager;
  Layout split = packed();
  split.context_parallel = 2;
  CHECK(says(split, pytorch, "packing"));
  split.packing_lengths = {};
  split.packing_mean = split.packing_sigma = 0;
  split.packed_length = 64;
  CHECK(says(split, pytorch, "packed_length"));
  CHECK_FALSE(says(split, model, "packed_length"));
  CHECK(says(packed(), test::transformer(0), "sequence_length"));  // 128 learned positions
}

TEST_CASE("random layouts with lengths of a data set give sound plans",
          "[plan][packing][property]") {
  int plans = 0, padded = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    Layout layout = test::random_layout(seed);
    layout.packing_lengths.name = "lognormal";
    layout.packing_mean = 20;
    layout.packing_sigma = 0.7;
    layout.packing =
        std::array{Packing::first_fit_decreasing, Packing::best_fit_decreasing,
                   Packing::pad_to_longest,       Packing::pad_by_length,
                   Packing::concatenated,         Packing::first_fit_shuffle}[seed % 6];
    if (!pads_rows(layout.packing)) {
      layout.attention = AttentionKernel::flash;
      layout.global_batch /= layout.micro_batch;
      layout.micro_batch = 1;
    }
    const Model model = seed % 5 == 0 ? test::mixture(0) : test::transformer(1);
    if (seed % 5 == 0) layout.expert_parallel = 2;
    if (!layout_problems(layout, model).empty()) continue;
    CAPTURE(seed, word(layout.packing), test::to_text(layout));
    check_plan(make_plan(model, layout));
    ++plans;
    padded += layout.pads_rows() ? 1 : 0;
  }
  CHECK(plans > 150);
  CHECK(padded > 40);
}
