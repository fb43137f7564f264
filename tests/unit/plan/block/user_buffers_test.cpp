// Products cut into parts, beside which the tensor group communicates (user_buffers.hpp).
#include "sim/plan/sharding/user_buffers.hpp"

#include <algorithm>
#include <vector>

#include "sim/engine/cost_table.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/memory/memory.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

Layout split_layout(int tensor) {
  Layout layout = test::layout_for(tensor, 1, 1, 1);
  layout.sequence_parallel = true;
  layout.overlap_tensor_products = true;
  return layout;
}

Layout whole_layout(int tensor) {
  Layout layout = split_layout(tensor);
  layout.overlap_tensor_products = layout.overlap_tensor_wgrad = false;
  return layout;
}

// Large enough that no product is all launch: 16 heads of 128, two layers.
Model large_gpt() {
  return test::gpt({.layers = 2, .hidden = 4096, .heads = 32, .vocabulary = 32768});
}

Layout large(Layout layout) {
  layout.sequence_length = 4096;
  layout.attention = AttentionKernel::flash;
  return layout;
}

const Cluster& dgx() {
  static const Cluster cluster =
      Cluster::load(sim::test::source_dir() + "/topologies/dgx-h100.yaml", 1);
  return cluster;
}

// Alone, one after another: kernels, and communication of the tensor group.
struct Alone {
  Duration compute{}, communication{};
};

Alone alone(const Plan& plan) {
  const Program& program = plan.programs[0];
  Alone sum;
  std::vector<GpuId> gpus;
  gpus.reserve(static_cast<std::size_t>(plan.layout.tensor_parallel));
  for (int i = 0; i < plan.layout.tensor_parallel; ++i)
    gpus.push_back(GpuId{static_cast<std::uint32_t>(i)});
  const GroupShape shape = group_shape(dgx(), gpus);
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    const std::uint32_t work = program.work[i];
    if (runs_kernel(program.kind[i]))
      sum.compute += kernel_cost(program.kernels[work], dgx().device()).time;
    if (program.kind[i] != OpKind::collective) continue;
    if (program.collectives[work].group != GroupRole::tensor) continue;
    const CommCost cost = priced_collective(dgx(), shape, program.collectives[work], {});
    sum.communication += cost.latency + cost.transfer;
  }
  return sum;
}

Duration step(const Plan& plan, SimulationOptions options) {
  options.graphs = true;
  return simulate(plan, dgx(), options).timeline.end - TimePoint{};
}

}  // namespace

TEST_CASE("parts of products do the work and move the bytes of whole ones", "[plan]") {
  const int tensor = GENERATE(2, 4);
  const DType dtype = GENERATE(DType::bf16, DType::fp8);
  CAPTURE(tensor, word(dtype));
  Layout split = split_layout(tensor), whole = whole_layout(tensor);
  split.compute_dtype = whole.compute_dtype = dtype;
  const Model model = test::transformer(1);
  const Plan parts = make_plan(model, split), reference = make_plan(model, whole);
  CHECK_NOTHROW(check_plan(parts));
  CHECK(test::gemm_flops(parts.programs[0]) == test::gemm_flops(reference.programs[0]));
  CHECK(test::received_in_layers(parts.programs[0], tensor) ==
        test::received_in_layers(reference.programs[0], tensor));
}

TEST_CASE("each linear communicates as Transformer Engine has it", "[plan]") {
  constexpr int tensor = 4;
  const Plan plan = make_plan(test::transformer(1), split_layout(tensor));
  const Program& program = plan.programs[0];
  // Two columns and two rows in a layer.
  CHECK(test::count_in_layer(program, Action::exchange_part, Pass::forward) == 2 * (tensor - 1));
  CHECK(test::count_in_layer(program, Action::multiply_part, Pass::forward) ==
        2 * tensor + 2 * reduced_blocks);
  CHECK(test::count_in_layer(program, Action::scatter_part, Pass::forward) == 2 * reduced_blocks);
  CHECK(test::count_in_layer(program, Action::gather_input, Pass::forward) == 0);
  CHECK(test::count_in_layer(program, Action::exchange_part, Pass::backward) == 2 * (tensor - 1));
  CHECK(test::count_in_layer(program, Action::gradient_part, Pass::backward) == 2 * tensor);
  CHECK(test::count_in_layer(program, Action::gather_input, Pass::backward) == 2);  // in bulk
  CHECK(test::count_in_layer(program, Action::sum_gradient, Pass::backward) == 2);
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.kind[i] != OpKind::collective) continue;
    const Collective& collective = program.collectives[program.work[i]];
    const bool in_layer = program.label[i].layer >= 0 && collective.group == GroupRole::tensor &&
                          program.subject[i] != Program::no_subject;
    if (!in_layer) continue;
    CHECK(collective.carrier == (collective.kind == CollectiveKind::ring_shift
                                     ? Carrier::copy_engines
                                     : Carrier::user_buffers));
  }
}

TEST_CASE("a part waits for its own slice, and slices for no product", "[plan]") {
  const Plan plan = make_plan(test::transformer(1), split_layout(4));
  const Program& program = plan.programs[0];
  std::uint32_t exchanged = 0, waited = 0, products = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    const bool second = program.label[i].layer == 1 && program.pass[i] == Pass::forward;
    if (!second) continue;
    if (program.action[i] == Action::exchange_part) {
      // The input of the first part is there; then the exchange goes on beside the products.
      for (const OpId on : program.dependencies({i})) {
        CHECK(program.action[on.value] != Action::multiply_part);
        ++waited;
      }
      ++exchanged;
    }
    if (program.action[i] != Action::multiply_part) continue;
    for (const OpId on : program.dependencies({i}))
      products += program.action[on.value] == Action::exchange_part ? 1 : 0;
  }
  CHECK(exchanged == 6);
  CHECK(waited <= 2);  // the first of each exchange
  CHECK(products == 6);
}

TEST_CASE("user buffers are there from the start, ten for a kind of layer", "[plan]") {
  const Layout layout = split_layout(4);
  const Model model = test::gpt({.layers = 4, .hidden = 64});
  const Plan plan = make_plan(model, layout);
  std::vector<std::int64_t> sizes;
  for (const Buffer& buffer : plan.programs[0].buffers)
    if (buffer.persistent && buffer.category == BufferCategory::communication)
      sizes.push_back(buffer.size.count());
  REQUIRE(sizes.size() == 10);
  const std::int64_t tokens = layout.sequence_length * layout.micro_batch;
  CHECK(std::all_of(sizes.begin(), sizes.end(),
                    [&](std::int64_t size) { return size == tokens * 64 * 2; }));
}

TEST_CASE("with free links parts cost their own quantisation alone", "[plan][property]") {
  const Model model = large_gpt();
  for (const int tensor : {2, 4, 8}) {
    CAPTURE(tensor);
    const Plan split = make_plan(model, large(split_layout(tensor)));
    CHECK(step(split, {.free_tensor = true, .free_data = true}) == alone(split).compute);
  }
}

TEST_CASE("with free products parts are communication in a row", "[plan][property]") {
  const Model model = large_gpt();
  for (const int tensor : {2, 4, 8}) {
    CAPTURE(tensor);
    const Plan split = make_plan(model, large(split_layout(tensor)));
    CHECK(step(split, {.free_compute = true, .free_data = true}) == alone(split).communication);
  }
}

TEST_CASE("parts are never slower than no overlap but by what cutting costs", "[plan][property]") {
  const Model model = large_gpt();
  for (const int tensor : {2, 4, 8}) {
    for (const std::int64_t tokens : {1024, 4096, 16384}) {
      CAPTURE(tensor, tokens);
      Layout layout = large(split_layout(tensor)), none = large(whole_layout(tensor));
      layout.sequence_length = none.sequence_length = tokens;
      const Plan split = make_plan(model, layout), whole = make_plan(model, none);
      const Alone parts = alone(split), at_once = alone(whole);
      const Duration cutting = std::max(Duration{}, parts.compute - at_once.compute) +
                               std::max(Duration{}, parts.communication - at_once.communication);
      CHECK(step(split, {}) <= step(whole, {}) + cutting);
      CHECK(step(split, {}) >= std::max(parts.compute, parts.communication));
    }
  }
}

TEST_CASE("parts of large products beside fast links win", "[plan]") {
  const Model model = large_gpt();
  Layout beside = large(split_layout(4));
  beside.overlap_tensor_products = false;
  CHECK(step(make_plan(model, large(split_layout(4))), {}) < step(make_plan(model, beside), {}));
}
