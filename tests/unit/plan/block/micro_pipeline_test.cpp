// Products cut by slices of tokens beside which slices move through symmetric memory
// (micro_pipeline.hpp): PyTorch's AsyncTP.
#include "sim/plan/sharding/micro_pipeline.hpp"

#include <algorithm>

#include "sim/plan/plan.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "sim/program/happens_before.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/unit/plan/framework_programs.hpp"

using namespace sim;

namespace {

constexpr int ranks = 4;

Layout layout_of(bool cut) {
  Layout layout = test::layout_for(ranks, 1, 1, 1);
  layout.sequence_parallel = true;
  layout.overlap_tensor_wgrad = false;
  layout.overlap_tensor_products = cut;
  return layout;
}

Framework compiler() {
  Framework framework;
  test::run_compiled(framework.execution);
  return framework;
}

Program program_with(const Layout& layout) {
  return test::program_of(compiler(), layout);
}

}  // namespace

TEST_CASE("slices do the work and move the bytes of whole products", "[plan]") {
  const DType dtype = GENERATE(DType::bf16, DType::fp8);
  Layout cut = layout_of(true), whole = layout_of(false);
  cut.compute_dtype = whole.compute_dtype = dtype;
  CHECK(test::gemm_flops(program_with(cut)) == test::gemm_flops(program_with(whole)));
  CHECK(test::received_in_layers(program_with(cut), ranks) ==
        test::received_in_layers(program_with(whole), ranks));
}

TEST_CASE("each linear communicates as PyTorch's compiler has it", "[plan]") {
  const Program program = program_with(layout_of(true));
  const auto in_layer = [&](Action action, Pass pass) {
    return test::count_in_layer(program, action, pass);
  };
  constexpr int products = 3 + 1 + 2 + 1;  // queries, keys, values; output; gate and up; down
  CHECK(in_layer(Action::multiply_part, Pass::forward) == products * ranks);
  CHECK(in_layer(Action::place_slice, Pass::forward) == 2);
  CHECK(in_layer(Action::pull_slice, Pass::forward) == 4 * (ranks - 1));
  CHECK(in_layer(Action::sum_slices, Pass::forward) == 2);
  CHECK(in_layer(Action::gather_input, Pass::forward) == 0);
  CHECK(in_layer(Action::sum_output, Pass::forward) == 0);
  // The gradients of rows' outputs are gathered; columns' input gradients are sums of products.
  CHECK(in_layer(Action::gradient_part, Pass::backward) == 2 * ranks);
  CHECK(in_layer(Action::pull_slice, Pass::backward) == 2 * (ranks - 1));
  CHECK(in_layer(Action::sum_gradient, Pass::backward) == 2);
  CHECK(in_layer(Action::gather_gradient, Pass::backward) == 0);
}

TEST_CASE("the input gradient of a single product is scattered in slices", "[plan]") {
  Model model = test::transformer(0);  // a GELU: one product up
  run_with(compiler(), model);
  const Plan plan = make_plan(model, layout_of(true));
  CHECK_NOTHROW(check_plan(plan));
  const Program& program = plan.programs[0];
  CHECK(test::count_in_layer(program, Action::gradient_part, Pass::backward) == 3 * ranks);
  CHECK(test::count_in_layer(program, Action::sum_slices, Pass::backward) == 1);
  CHECK(test::count_in_layer(program, Action::sum_gradient, Pass::backward) == 1);
}

TEST_CASE("copies and products of a stream follow each other, those of two do not", "[plan]") {
  const Program program = program_with(layout_of(true));
  const HappensBefore order{program};
  // The first gather: pulls and the first product of each slice.
  std::vector<OpId> pulls, products;
  int last_part = -1;
  for (std::uint32_t i = 0; i < program.size() && products.size() < ranks; ++i) {
    if (program.action[i] == Action::pull_slice) pulls.push_back({i});
    if (program.action[i] != Action::multiply_part) continue;
    const int part = program.buffer_uses({i})[0].part;
    if (part != last_part) products.push_back({i});
    last_part = part;
  }
  REQUIRE(pulls.size() == ranks - 1);
  REQUIRE(products.size() == ranks);
  for (std::size_t slice = 1; slice < ranks; ++slice) {
    CAPTURE(slice);
    CHECK(order.ordered(pulls[slice - 1], products[slice]));
    CHECK_FALSE(order.ordered(products[slice - 1], pulls[slice - 1]));
    if (slice > 1) CHECK(order.ordered(products[slice - 2], pulls[slice - 1]));
  }
}

TEST_CASE("the first slice for a partner is taken when the second is made, each later one at once",
          "[plan]") {
  const Program program = program_with(layout_of(true));
  const HappensBefore order{program};
  // The first row: products for partners, and what they take.
  std::vector<OpId> pulls, products;
  for (std::uint32_t i = 0; i < program.size() && pulls.size() < ranks - 1; ++i) {
    if (program.name({i}) == "attention_projection") products.push_back({i});
    if (program.name({i}) == "attention_projection.reduce_scatter" &&
        program.action[i] == Action::pull_slice)
      pulls.push_back({i});
  }
  REQUIRE(pulls.size() == ranks - 1);
  REQUIRE(products.size() >= 3);
  CHECK(order.ordered(products[1], pulls[0]));
  CHECK(order.ordered(products[1], pulls[1]));
  CHECK_FALSE(order.ordered(products[2], pulls[1]));
}

TEST_CASE("what a partner takes is not written again before it was taken", "[plan]") {
  const Program program = program_with(layout_of(true));
  const HappensBefore order{program};
  std::array<OpId, micro_pipeline_streams> taken{OpId{UINT32_MAX}, OpId{UINT32_MAX}};
  int checked = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    for (const BufferUse& use : program.buffer_uses({i})) {
      const bool half =
          program.buffers[use.buffer.value].persistent && use.part != BufferUse::whole;
      if (!half || use.role == Role::weight) continue;
      OpId& last = taken[static_cast<std::size_t>(use.part)];
      if (program.action[i] == Action::pull_slice) last = {i};
      if (use.access != Access::write || last.value == UINT32_MAX) continue;
      CHECK(order.ordered(last, OpId{i}));
      ++checked;
    }
  }
  CHECK(checked > 0);
}

TEST_CASE("symmetric memory has room for the largest need: two slices of products", "[plan]") {
  const Layout layout = layout_of(true);
  const Program program = program_with(layout);
  std::vector<std::int64_t> sizes;
  for (const Buffer& buffer : program.buffers)
    if (buffer.persistent && buffer.category == BufferCategory::communication)
      sizes.push_back(buffer.size.count());
  const std::int64_t hidden = test::llama_of({}).layers[0].output_elements;
  const std::int64_t own = layout.sequence_length * layout.micro_batch / ranks;
  CHECK(sizes == std::vector{2 * own * hidden * 2});
}

TEST_CASE("tokens of several sequences are brought into one order where PyTorch copies them",
          "[plan]") {
  const auto copies = [](std::int64_t micro_batch, DType dtype) {
    Layout layout = layout_of(true);
    layout.micro_batch = micro_batch;
    layout.global_batch = 2 * micro_batch;
    layout.compute_dtype = dtype;
    const ShardedModel sharded = shard(test::llama_of(compiler()), layout);
    int found = 0;
    for (const ShardedOp& op : sharded.blocks[sharded.of_layer[0]].ops) {
      if (!op.sliced_forward) continue;
      found += (op.sliced_forward->order ? 1 : 0) + (op.transpose_gradient ? 1 : 0) +
               (op.encode_saved ? 1 : 0);
    }
    return found;
  };
  CHECK(copies(1, DType::bf16) == 0);
  // Attention's output, what two columns have gathered, and the gradients that two rows have.
  CHECK(copies(2, DType::bf16) == 1 + 2 + 2);
  // In 8 bits each operand of a weight gradient is transposed, whatever its order.
  CHECK(copies(1, DType::fp8) == 2 * 2 + 2);
  CHECK(copies(2, DType::fp8) == 1 + 2 * 2 + 2);
}

TEST_CASE("products with scales of rows are cut where a row's output is scattered alone",
          "[plan]") {
  Layout layout = layout_of(true);
  layout.compute_dtype = DType::fp8;
  Framework runs = compiler();
  runs.execution.eight_bit = EightBit::torchao_rowwise;
  const Model model = test::llama_of(runs);
  const ShardedModel sharded = shard(model, layout);
  for (const ShardedOp& op : sharded.blocks[sharded.of_layer[0]].ops) {
    CHECK(op.sliced_forward.has_value() == op.sums_output);
    CHECK_FALSE(op.sliced_gradient);
    CHECK_FALSE(op.gathers_quantized());
  }
  CHECK_NOTHROW(check_plan(make_plan(model, layout)));
}

TEST_CASE("slices run abreast of each other, whole products alone", "[plan]") {
  const auto abreast = [](const Program& program, Action action) {
    int most = 0;
    for (std::uint32_t i = 0; i < program.size(); ++i)
      if (program.action[i] == action)
        most = std::max(most, program.kernels[program.work[i]].abreast);
    return most;
  };
  const Program program = program_with(layout_of(true));
  CHECK(abreast(program, Action::multiply_part) == micro_pipeline_streams);
  CHECK(abreast(program, Action::gradient_part) == micro_pipeline_streams);
  CHECK(abreast(program, Action::weight_gradient) == 1);
}
