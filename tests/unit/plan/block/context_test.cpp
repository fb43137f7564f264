// Attention over context-parallel ranks: what each holds, does and sends.
#include <map>
#include <numeric>

#include "sim/cost/kernel_cost.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/memory/memory.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

Layout context_layout(int ranks, ContextExchange exchange = ContextExchange::ring) {
  return test::context_layout(ranks, exchange);
}

// ops_of() are one layer's operators of a kind of action.
std::vector<OpId> ops_of(const Program& program, Action action, int layer = 1) {
  std::vector<OpId> found;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.action[i] == action && program.label[i].layer == layer) found.push_back({i});
  }
  return found;
}

const Kernel& kernel_of(const Program& program, OpId op) {
  return program.kernels[program.work[op.value]];
}

double attention_flops(const Program& program, Pass pass) {
  double sum = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.kind[i] == OpKind::attention && program.pass[i] == pass)
      sum += kernel_of(program, {i}).flops.count();
  }
  return sum;
}

std::vector<std::int64_t> shifted_bytes(const Program& program, Pass pass) {
  std::vector<std::int64_t> bytes;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.kind[i] != OpKind::collective || program.pass[i] != pass) continue;
    const Collective& call = program.collectives[program.work[i]];
    if (call.group == GroupRole::context && program.label[i].layer == 1)
      bytes.push_back(call.bytes.count());
  }
  return bytes;
}

// All kernels of the compute stream, one after the other.
Duration kernel_time(const Program& program, const Device& device) {
  Duration sum{};
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.stream[i] == Stream::compute)
      sum += kernel_cost(kernel_of(program, {i}), device).time;
  }
  return sum;
}

const Cluster& dgx() {
  static const Cluster cluster =
      Cluster::load(sim::test::source_dir() + "/topologies/dgx-h100.yaml", 1);
  return cluster;
}

}  // namespace

TEST_CASE("Ranks of a sequence share its FLOPs evenly", "[plan][context]") {
  const Model model = test::gpt({.layers = 2, .hidden = 256, .heads = 4});
  const auto exchange = GENERATE(ContextExchange::ring, ContextExchange::all_gather);
  const Plan whole = make_plan(model, context_layout(1));
  for (const int c : {2, 4, 8}) {
    CAPTURE(c, word(exchange));
    const Plan plan = make_plan(model, context_layout(c, exchange));
    check_plan(plan);
    const Program& program = plan.programs[0];
    for (const Pass pass : {Pass::forward, Pass::backward})
      CHECK(c * attention_flops(program, pass) == attention_flops(whole.programs[0], pass));
    for (std::uint32_t i = 0; i < program.size(); ++i) {
      if (program.kind[i] != OpKind::gemm || program.pass[i] != Pass::forward) continue;
      CHECK(kernel_of(program, {i}).m == 1024 / c);
    }
    // Those of the step are those of the step.
    CHECK(plan.model_flops.count() == whole.model_flops.count());
    CHECK(plan.hardware_flops.count() == whole.hardware_flops.count());
    CHECK(plan.tokens == whole.tokens);
  }
}

TEST_CASE("A ring works on half a block for each foreign slice under a causal mask",
          "[plan][context]") {
  Model model = test::gpt({.layers = 2, .hidden = 256, .heads = 4});
  model.attention.causal = GENERATE(false, true);
  const Plan plan = make_plan(model, context_layout(4));
  const Program& program = plan.programs[0];
  const auto slices = ops_of(program, Action::attend);
  REQUIRE(slices.size() == 3);
  CHECK(ops_of(program, Action::merge_outputs).size() == 3);
  CHECK(ops_of(program, Action::attend_backward).size() == 4);
  CHECK(ops_of(program, Action::merge_gradients).size() == 4);
  const Kernel& slice = kernel_of(program, slices[0]);
  CHECK(slice.m == 256);
  CHECK(slice.n == (model.attention.causal ? 128 : 256));
  CHECK_FALSE(slice.causal);
}

TEST_CASE("Keys and values go round the ring, their gradients one step behind", "[plan][context]") {
  const Model model = test::gpt({.layers = 2, .hidden = 256, .heads = 4});
  for (const int c : {2, 3, 4}) {
    Layout layout = context_layout(c);
    layout.sequence_length = 240 * c;
    layout.micro_batch = 2;
    layout.global_batch = 2;
    CAPTURE(c);
    const Plan plan = make_plan(model, layout);
    check_plan(plan);
    // K and V of 240 tokens of two sequences in 2 bytes.
    const std::int64_t slice = std::int64_t{2} * 256 * 240 * 2 * 2;
    const auto forward = shifted_bytes(plan.programs[0], Pass::forward);
    CHECK(forward == std::vector<std::int64_t>(static_cast<std::size_t>(c - 1), slice));
    // c - 1 hops of each: the slice alone first, its gradient alone last.
    std::vector<std::int64_t> expected(static_cast<std::size_t>(c), 2 * slice);
    expected.front() = expected.back() = slice;
    CHECK(shifted_bytes(plan.programs[0], Pass::backward) == expected);
  }
}

TEST_CASE("Gathered keys are gathered twice, and their gradients scattered", "[plan][context]") {
  const Model model = test::gpt({.layers = 2, .hidden = 256, .heads = 4});
  const Plan plan = make_plan(model, context_layout(4, ContextExchange::all_gather));
  const Program& program = plan.programs[0];
  const std::int64_t whole = std::int64_t{2} * 256 * 1024 * 2;
  CHECK(shifted_bytes(program, Pass::forward) == std::vector<std::int64_t>{whole});
  CHECK(shifted_bytes(program, Pass::backward) == std::vector<std::int64_t>{whole, whole});
  const auto scattered = ops_of(program, Action::scatter_keys_gradient);
  REQUIRE(scattered.size() == 1);
  CHECK(program.collectives[program.work[scattered[0].value]].kind ==
        CollectiveKind::reduce_scatter);
  const Kernel& attention = kernel_of(program, {ops_of(program, Action::gather_keys)[0].value + 1});
  CHECK(attention.kind == OpKind::attention);
  CHECK(attention.m == 256);
  CHECK(attention.n == 1024);
}

TEST_CASE("Sharded states are spread over data and context ranks", "[plan][context]") {
  const Model model = test::gpt({.layers = 2, .hidden = 256, .heads = 4});
  const auto persistent = [&](int data, int context) {
    Layout layout = context_layout(context);
    layout.data_parallel = data;
    layout.global_batch = data;
    layout.zero_stage = 3;
    const Plan plan = make_plan(model, layout);
    check_plan(plan);
    for (const ParameterBucket& bucket : plan.programs[0].parameter_buckets)
      CHECK(bucket.shards == data * context);
    std::int64_t bytes = 0;
    for (const Buffer& buffer : plan.programs[0].buffers)
      if (buffer.persistent) bytes += buffer.size.count();
    return bytes;
  };
  CHECK(persistent(2, 4) == persistent(8, 1));
}

TEST_CASE("A layer keeps the tokens it holds, and of a ring the slice that came last",
          "[plan][context]") {
  // Saved bytes of a layer are the difference of peaks of models that differ by one: the peak is at
  // the end of the forward passes, where all layers have kept theirs.
  const auto kept = [](int c, ContextExchange exchange) {
    const auto peak = [&](int layers) {
      const Model model = test::gpt({.layers = layers, .hidden = 256, .heads = 4});
      const MemoryUse use = memory_use(make_plan(model, context_layout(c, exchange)).programs[0]);
      return use.at_peak[static_cast<std::size_t>(BufferCategory::activations)].count();
    };
    return peak(9) - peak(8);
  };
  const std::int64_t whole = kept(1, ContextExchange::ring);
  for (const int c : {2, 4}) {
    CAPTURE(c);
    CHECK(kept(c, ContextExchange::all_gather) * c == whole);
    CHECK(kept(c, ContextExchange::ring) == whole / c + 2 * 256 * 1024 / c * 2);
  }
}

TEST_CASE("With free communication a step costs its kernels, those of the tokens it holds",
          "[plan][context]") {
  // Against a step of sequences of s / c tokens: what a ring adds is, for each layer, c - 1 slices
  // forward and backward with their merges, and the copy of the first slice's gradients.
  const Model model = test::gpt({.layers = 3, .hidden = 512, .heads = 4});
  SimulationOptions options{.graphs = true};
  options.free_context = options.free_data = true;
  const int c = GENERATE(2, 4);
  const Plan ring = make_plan(model, context_layout(c));
  Layout shorter = context_layout(1);
  shorter.sequence_length /= c;
  const Plan alone = make_plan(model, shorter);
  const auto step = [&](const Plan& plan) {
    return simulate(plan, dgx(), options).timeline.end.time_since_epoch();
  };
  const Program& program = ring.programs[0];
  const Device& device = dgx().device();
  CHECK(step(ring) == kernel_time(program, device));
  Duration added{};
  for (const Action action :
       {Action::attend, Action::merge_outputs, Action::attend_backward, Action::merge_gradients}) {
    auto found = ops_of(program, action);
    if (action == Action::attend_backward) found.pop_back();  // the rank's own block
    for (const OpId op : found)
      added += 3 * kernel_cost(kernel_of(program, op), device).time;
  }
  CHECK(step(ring) == step(alone) + added);
}

TEST_CASE("A slow link shows what of the exchange the attention does not hide", "[plan][context]") {
  // Gathered keys stand before the attention, a ring beside it.
  const Model model = test::gpt({.layers = 3, .hidden = 512, .heads = 4});
  const auto exposed = [&](ContextExchange exchange) {
    Layout layout = context_layout(4, exchange);
    layout.sequence_length = 65536;
    SimulationOptions options{.graphs = true};
    options.free_data = true;
    const Plan plan = make_plan(model, layout);
    const auto with = simulate(plan, dgx(), options).timeline.end;
    options.free_context = true;
    return with - simulate(plan, dgx(), options).timeline.end;
  };
  const Duration ring = exposed(ContextExchange::ring);
  const Duration gathered = exposed(ContextExchange::all_gather);
  CHECK(ring >= Duration{});
  CHECK(ring * 4 < gathered);
}

namespace {

Model pytorch_model(ContextForm form, int layers = 2) {
  Model model = test::gpt({.layers = layers, .hidden = 256, .heads = 4});
  model.execution.context = form;
  return model;
}

std::vector<std::int64_t> kernel_bytes(const Program& program, Action action) {
  std::vector<std::int64_t> bytes;
  for (const OpId op : ops_of(program, action))
    bytes.push_back(kernel_of(program, op).bytes.count());
  return bytes;
}

}  // namespace

TEST_CASE("PyTorch goes slice by slice, however slices come", "[plan][context]") {
  const auto form = GENERATE(ContextForm::eager, ContextForm::compiled);
  const auto way = GENERATE(ContextExchange::ring, ContextExchange::all_gather);
  const Plan whole = make_plan(pytorch_model(form), context_layout(1));
  for (const int c : {2, 3, 4}) {
    CAPTURE(word(form), word(way), c);
    Layout layout = context_layout(c, way);
    layout.sequence_length = 240 * c;
    const Plan plan = make_plan(pytorch_model(form), layout);
    check_plan(plan);
    const Program& program = plan.programs[0];
    const auto foreign = static_cast<std::size_t>(c - 1);
    CHECK(ops_of(program, Action::attend).size() == foreign);
    CHECK(ops_of(program, Action::attend_backward).size() == foreign);
    CHECK(ops_of(program, Action::merge_gradients).size() == foreign + 1);
    // K and V of 240 tokens in 2 bytes; their gradients in 4, sent c times.
    const std::int64_t slice = std::int64_t{2} * 256 * 240 * 2;
    std::vector<std::int64_t> keys(foreign, slice);
    std::vector<std::int64_t> both;
    if (way == ContextExchange::all_gather) keys = {slice * c};
    for (int step = 0; step < c; ++step) {
      const bool comes = way == ContextExchange::all_gather ? step == 0 : step + 1 < c;
      if (comes) both.push_back(keys.front());
      both.push_back(2 * slice);
    }
    CHECK(shifted_bytes(program, Pass::forward) == keys);
    CHECK(shifted_bytes(program, Pass::backward) == both);
  }
  for (const int c : {2, 4, 8}) {
    const Plan plan = make_plan(pytorch_model(form), context_layout(c, way));
    for (const Pass pass : {Pass::forward, Pass::backward})
      CHECK(c * attention_flops(plan.programs[0], pass) ==
            attention_flops(whole.programs[0], pass));
  }
}

TEST_CASE("PyTorch's parts meet in fp32, as many kernels or as one", "[plan][context]") {
  const auto bytes = [](ContextForm form, Action action) {
    const Layout layout = context_layout(4, ContextExchange::all_gather);
    return kernel_bytes(make_plan(pytorch_model(form), layout).programs[0], action);
  };
  const std::int64_t pass = std::int64_t{256} * 256 * 2;  // 256 tokens of 256 features
  using Bytes64 = std::vector<std::int64_t>;
  // A part to fp32 3, difference 6, times weight 4, subtracted 6, keys and values joined 4; once
  // copies of keys and values 4, the first part to fp32 3, the result back 3.
  CHECK(bytes(ContextForm::eager, Action::merge_outputs) ==
        Bytes64{33 * pass, 23 * pass, 23 * pass});
  CHECK(bytes(ContextForm::compiled, Action::merge_outputs) ==
        Bytes64{9 * pass, 5 * pass, 5 * pass});
  CHECK(bytes(ContextForm::eager, Action::merge_gradients) ==
        Bytes64{42 * pass, 30 * pass, 30 * pass, 30 * pass});
  CHECK(bytes(ContextForm::compiled, Action::merge_gradients) ==
        Bytes64{20 * pass, 14 * pass, 14 * pass, 14 * pass});
}

TEST_CASE("A compiled layer waits for every exchange over context ranks", "[plan][context]") {
  // With links so slow that nothing else counts, what stands beside attention is hidden, and what
  // is waited for is not; compiled, a step costs what it costs without communication and all of it.
  const auto step = [](ContextForm form, bool free) {
    Model model = pytorch_model(form, 3);
    Layout layout = context_layout(4, ContextExchange::all_gather);
    layout.sequence_length = 65536;
    SimulationOptions options{.graphs = true};
    options.free_data = true;
    options.free_context = free;
    return simulate(make_plan(model, layout), dgx(), options).timeline.end.time_since_epoch();
  };
  const Duration hidden = step(ContextForm::eager, false) - step(ContextForm::eager, true);
  const Duration exposed = step(ContextForm::compiled, false) - step(ContextForm::compiled, true);
  // Each layer: 2 gathers of 4 slices of 64 Ki x 256 / 4 x 2 x 2 bytes = 16 MiB, 3/4 of which
  // arrive, and 4 shifts of 32 MiB, at no more than the 371 GB/s of the links.
  const double slice = 65536.0 / 4 * 256 * 2 * 2;
  const double least = 3 * (2 * 3 * slice + 4 * 2 * slice) / 371e9;
  CHECK(to_seconds(exposed) > least);
  CHECK(hidden * 2 < exposed);
}

// Keys of plain and rotary features, values of their own width, of all heads of a tensor rank.
TEST_CASE("context ranks send keys and values of latent attention by their widths", "[plan]") {
  const Model model = test::mixture(1);
  const TransformerShape& shape = *model.shape;
  REQUIRE(shape.latent.exists());
  for (const ContextExchange exchange :
       {ContextExchange::ring, ContextExchange::all_gather, ContextExchange::all_to_all}) {
    CAPTURE(word(exchange));
    Layout layout = test::layout_for(1, 1, 1, 2);
    layout.context_parallel = 2;
    layout.context_exchange = exchange;
    REQUIRE(layout_problems(layout, model).empty());
    const Plan plan = make_plan(model, layout);
    check_plan(plan);
    std::vector<std::int64_t> sent = shifted_bytes(plan.programs[0], Pass::forward);
    const std::int64_t held = layout.micro_batch * layout.sequence_length / 2 * 2;
    const std::int64_t slice = held * shape.heads * (shape.head_dim + shape.latent.value_dim);
    REQUIRE_FALSE(sent.empty());
    if (exchange == ContextExchange::ring) CHECK(sent.front() == slice);
    if (exchange == ContextExchange::all_gather) CHECK(sent.front() == 2 * slice);
    if (exchange != ContextExchange::all_to_all) continue;
    const std::int64_t heads = held * shape.heads;
    sent.resize(4);  // of the first micro-batch
    CHECK(sent == std::vector<std::int64_t>{heads * shape.head_dim, heads * shape.head_dim,
                                            heads * shape.latent.value_dim,
                                            heads * shape.latent.value_dim});
  }
}
