// Attention over context-parallel ranks by all-to-all: all tokens of a share of the heads.
#include <algorithm>

#include "sim/cost/kernel_cost.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/memory/memory.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

Layout heads_layout(int ranks) {
  return test::context_layout(ranks, ContextExchange::all_to_all);
}

Model small(std::int64_t key_heads = 8, int layers = 2) {
  Model model = test::gpt({.layers = layers, .hidden = 256, .heads = 8});
  model.attention.kv_heads = key_heads;
  return model;
}

// Operators of layer 1 of one pass that have to do with its attention, in issue order.
std::vector<OpId> attention_ops(const Program& program, Pass pass) {
  std::vector<OpId> found;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.label[i].layer != 1 || program.pass[i] != pass) continue;
    const Action action = program.action[i];
    if (program.kind[i] == OpKind::attention || action == Action::order_for_exchange ||
        action == Action::exchange_heads || action == Action::order_behind_exchange)
      found.push_back({i});
  }
  return found;
}

const Kernel& kernel_of(const Program& program, OpId op) {
  return program.kernels[program.work[op.value]];
}

std::vector<std::int64_t> exchanged(const Program& program, Pass pass) {
  std::vector<std::int64_t> bytes;
  for (const OpId op : attention_ops(program, pass)) {
    if (program.kind[op.value] != OpKind::collective) continue;
    const Collective& call = program.collectives[program.work[op.value]];
    CHECK(call.kind == CollectiveKind::all_to_all);
    CHECK(call.group == GroupRole::context);
    bytes.push_back(call.bytes.count());
  }
  return bytes;
}

const Cluster& dgx() {
  static const Cluster cluster =
      Cluster::load(sim::test::source_dir() + "/topologies/dgx-h100.yaml", 1);
  return cluster;
}

Duration step_time(const Plan& plan, bool free) {
  SimulationOptions options{.graphs = true};
  options.free_data = true;
  options.free_context = free;
  return simulate(plan, dgx(), options).timeline.end.time_since_epoch();
}

}  // namespace

TEST_CASE("Within attention a rank has all tokens of its share of the heads", "[plan][context]") {
  for (const int t : {1, 2}) {
    for (const int c : {2, 4}) {
      CAPTURE(t, c);
      const auto attention = [&](int ranks, Pass pass) {
        Layout layout = heads_layout(ranks);
        layout.tensor_parallel = t;
        layout.micro_batch = layout.global_batch = 2;
        const Plan plan = make_plan(small(), layout);
        check_plan(plan);
        const Program& program = plan.programs[0];
        std::vector<Kernel> found;
        for (const OpId op : attention_ops(program, pass))
          if (program.kind[op.value] == OpKind::attention) found.push_back(kernel_of(program, op));
        REQUIRE(found.size() == 1);
        return found[0];
      };
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        const Kernel whole = attention(1, pass);
        Kernel share = attention(c, pass);
        CHECK(share.m == 1024);
        CHECK(share.n == 1024);
        CHECK(share.heads == 8 / t / c);
        CHECK(share.kv_heads == 8 / t / c);
        CHECK(share.causal == whole.causal);
        // It is that of c times fewer heads in all there is.
        CHECK(c * share.flops.count() == whole.flops.count());
        CHECK(c * share.bytes.count() == whole.bytes.count());
      }
    }
  }
}

TEST_CASE("Queries, keys, values and the output are exchanged, and their gradients",
          "[plan][context]") {
  for (const std::int64_t key_heads : {8, 4}) {
    Layout layout = heads_layout(4);
    layout.micro_batch = layout.global_batch = 2;
    const Plan plan = make_plan(small(key_heads), layout);
    check_plan(plan);
    // Two sequences of 256 tokens of 32 features a head in 2 bytes.
    const std::int64_t head = std::int64_t{2} * 256 * 32 * 2;
    const std::int64_t q = 8 * head, k = key_heads * head;
    CHECK(exchanged(plan.programs[0], Pass::forward) == std::vector{q, k, k, q});
    CHECK(exchanged(plan.programs[0], Pass::backward) == std::vector{q, q, k, k});
    // Each is read and written before and behind.
    std::int64_t copied = 0;
    for (const OpId op : attention_ops(plan.programs[0], Pass::forward))
      if (plan.programs[0].kind[op.value] == OpKind::elementwise)
        copied += kernel_of(plan.programs[0], op).bytes.count();
    CHECK(copied == 4 * (2 * q + 2 * k));
  }
}

TEST_CASE("Each third is sent when it is copied, and the attention waits for all of them",
          "[plan][context]") {
  const Plan plan = make_plan(small(), heads_layout(4));
  const Program& program = plan.programs[0];
  using enum Action;
  const auto actions = [&](Pass pass) {
    std::vector<Action> found;
    for (const OpId op : attention_ops(program, pass))
      found.push_back(program.action[op.value]);
    return found;
  };
  const std::vector<Action> three{
      order_for_exchange,    exchange_heads,        order_for_exchange,
      exchange_heads,        order_for_exchange,    exchange_heads,
      order_behind_exchange, order_behind_exchange, order_behind_exchange};
  const std::vector<Action> one{order_for_exchange, exchange_heads, order_behind_exchange};
  std::vector<Action> expected = three;
  expected.push_back(forward);
  expected.insert(expected.end(), one.begin(), one.end());
  CHECK(actions(Pass::forward) == expected);
  expected = one;
  expected.push_back(backward);
  expected.insert(expected.end(), three.begin(), three.end());
  CHECK(actions(Pass::backward) == expected);
  // An exchange waits for its own copy, not for what is copied behind it.
  const auto ops = attention_ops(program, Pass::forward);
  for (const std::size_t sent : {1, 3, 5}) {
    const auto waits = program.dependencies(ops[sent]);
    CHECK(std::find(waits.begin(), waits.end(), ops[sent - 1]) != waits.end());
    const auto behind = program.dependencies(ops[6 + sent / 2]);
    CHECK(std::find(behind.begin(), behind.end(), ops[sent]) != behind.end());
  }
}

TEST_CASE("What came is kept, with the output before and behind its exchange", "[plan][context]") {
  // Saved bytes of a layer: the difference of peaks of models that differ by one.
  const auto kept = [](int c) {
    const auto peak = [&](int layers) {
      const MemoryUse use = memory_use(make_plan(small(8, layers), heads_layout(c)).programs[0]);
      return use.at_peak[static_cast<std::size_t>(BufferCategory::activations)].count();
    };
    return peak(9) - peak(8);
  };
  const std::int64_t whole = kept(1);
  for (const int c : {2, 4}) {
    CAPTURE(c);
    CHECK(kept(c) == whole / c + 1024 / c * 256 * 2);
  }
}

TEST_CASE("With free communication an all-to-all costs its copies", "[plan][context]") {
  // Against a step of c times shorter sequences on all heads: attention differs, copies come to it.
  const int c = GENERATE(2, 4);
  const Model model = small(8, 3);
  const Plan plan = make_plan(model, heads_layout(c));
  Layout shorter = heads_layout(1);
  shorter.sequence_length /= c;
  const Plan alone = make_plan(model, shorter);
  const Device& device = dgx().device();
  const auto time = [&](const Plan& of, bool copies) {
    Duration sum{};
    for (const Pass pass : {Pass::forward, Pass::backward})
      for (const OpId op : attention_ops(of.programs[0], pass)) {
        if (of.programs[0].kind[op.value] == OpKind::collective) continue;
        const bool attention = of.programs[0].kind[op.value] == OpKind::attention;
        if (attention || copies) sum += kernel_cost(kernel_of(of.programs[0], op), device).time;
      }
    return sum;
  };
  CHECK(step_time(plan, true) ==
        step_time(alone, true) + 3 * (time(plan, true) - time(alone, false)));
}

TEST_CASE("An all-to-all stands before attention and behind it", "[plan][context]") {
  // Nothing is beside but the copies of the next third: with long sequences a step costs about what
  // it costs without communication and all of it.
  const Model model = small(8, 3);
  Layout layout = heads_layout(4);
  layout.sequence_length = 65536;
  const Plan plan = make_plan(model, layout);
  const Duration exposed = step_time(plan, false) - step_time(plan, true);
  // Eight exchanges of 64 Ki / 4 x 256 x 2 bytes, 3/4 of which leave, at no more than the links'
  // 450 GB/s.
  const double sent = 0.75 * 65536.0 / 4 * 256 * 2;
  CHECK(to_seconds(exposed) > 3 * 8 * sent / 450e9 * 0.7);
  // c times more ranks send as much less each: (c - 1) / c of s / c tokens.
  layout.context_parallel = 2;
  const Plan two = make_plan(model, layout);
  const Duration of_two = step_time(two, false) - step_time(two, true);
  CHECK(of_two > exposed);
}

TEST_CASE("Links carry what every rank owes the others, however it is simulated",
          "[plan][context]") {
  const int c = GENERATE(2, 4, 8);
  CAPTURE(c);
  Layout layout = heads_layout(c);
  layout.sequence_length = 65536;
  const Plan plan = make_plan(small(8, 3), layout);
  SimulationOptions options{.graphs = true};
  options.free_data = true;
  const auto carried = [&](const SimulationOptions& how) {
    double sum = 0;
    for (const LinkLoad& load : simulate(plan, dgx(), how).timeline.links)
      sum += static_cast<double>(load.carried.count()) * load.represents;
    return sum;
  };
  // Three layers have eight exchanges each; (c - 1) / c of the tensor leaves each of c ranks.
  const double hops = static_cast<double>(dgx().route({0}, {1}).hops.size());
  const double expected = 3.0 * 8 * (c - 1) * (65536.0 / c * 256 * 2) * hops;
  CHECK_THAT(carried(options), WithinRel(expected, 1e-3));
  options.fold = false;
  CHECK_THAT(carried(options), WithinRel(expected, 1e-3));
  options.fold = true;
  options.collectives = CollectiveModel::stepwise;
  CHECK_THAT(carried(options), WithinRel(expected, 1e-3));
}

TEST_CASE("No algorithm that is asked for holds for an all-to-all", "[plan][context]") {
  const Plan plan = make_plan(small(), heads_layout(4));
  SimulationOptions options{.graphs = true};
  const TimePoint end = simulate(plan, dgx(), options).timeline.end;
  for (const CollectiveModel model : {CollectiveModel::fluid, CollectiveModel::stepwise}) {
    options.collectives = model;
    options.tensor_choice.algorithm = Algorithm::tree;
    options.tensor_choice.protocol = Protocol::ll;
    const TimePoint asked = simulate(plan, dgx(), options).timeline.end;
    if (model == CollectiveModel::fluid) CHECK(asked == end);
    options.tensor_choice = {};
    CHECK(asked == simulate(plan, dgx(), options).timeline.end);
  }
}
