// Executions of frameworks that differ from Megatron-LM (sim/framework/FRAMEWORKS.md); those of
// gradients are in gradient_forms_test.cpp.
#include <algorithm>
#include <numeric>

#include "sim/memory/memory.hpp"
#include "sim/model/transformer.hpp"
#include "sim/program/happens_before.hpp"
#include "sim/program/scratch.hpp"
#include "tests/support/check_operands.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/unit/plan/framework_programs.hpp"

using namespace sim;
using test::count;
using test::first_kernel;
using test::program_of;
using test::with;

namespace {

std::int64_t forward_bytes(const Program& program, const std::string& name) {
  std::int64_t bytes = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.name({i}) == name && program.stream[i] == Stream::compute &&
        program.pass[i] == Pass::forward)
      bytes += program.kernels[program.work[i]].bytes.count();
  }
  return bytes;
}

}  // namespace

// Queries are 32 features over two ranks, keys and values 16; a gate and what it gates 64 each.
TEST_CASE("products that share an input are kernels apart, each with all of it", "[plan]") {
  const Layout layout = test::layout_for(2, 1, 1, 1);
  const Program joint = program_of({}, layout);
  const Program apart = program_of(with(&Execution::separate_products), layout);
  const auto widths = [](const Program& program, const std::string& name, Action action,
                         std::int64_t Kernel::*dimension) {
    std::vector<std::int64_t> found;
    for (std::uint32_t i = 0; i < program.size(); ++i)
      if (program.name({i}) == name && program.action[i] == action && program.label[i].layer == 0 &&
          program.label[i].microbatch == 0)
        found.push_back(program.kernels[program.work[i]].*dimension);
    return found;
  };
  const auto all = [](const std::vector<std::int64_t>& parts) {
    return std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
  };
  struct Case {
    const char* name;
    Action action;
    std::int64_t Kernel::*dimension;
  };
  for (const Case& one : {Case{"qkv", Action::forward, &Kernel::n},
                          Case{"qkv.input_gradient", Action::input_gradient, &Kernel::k},
                          Case{"qkv.weight_gradient", Action::weight_gradient, &Kernel::m}}) {
    CAPTURE(one.name);
    const auto parts = widths(apart, one.name, one.action, one.dimension);
    REQUIRE(parts.size() == 3);
    CHECK(parts[1] == parts[2]);
    CHECK(parts[0] >= parts[1]);
    CHECK(all(parts) == all(widths(joint, one.name, one.action, one.dimension)));
  }
  CHECK(widths(apart, "mlp_up", Action::forward, &Kernel::n).size() == 2);
  CHECK(widths(apart, "mlp_down", Action::forward, &Kernel::n).size() == 1);
  // Each reads the input; the gradients are added by the norm behind.
  const Kernel& whole = first_kernel(joint, "mlp_up");
  const Kernel& half = first_kernel(apart, "mlp_up");
  CHECK((half.bytes * 2 - whole.bytes).count() == whole.m * whole.k * bytes_of(whole.dtype));
  CHECK(count(apart, Action::sum_products) > 0);
}

TEST_CASE("a compiler's reductions are waited for where they are called", "[plan]") {
  Layout layout = test::layout_for(2, 1, 1, 1);
  const auto waits = [&](const Framework& framework) {
    const Program program = program_of(framework, layout);
    for (std::uint32_t i = 0; i < program.size(); ++i) {
      if (program.name({i}) != "qkv.weight_gradient") continue;
      for (const OpId on : program.dependencies({i}))
        if (program.action[on.value] == Action::sum_gradient) return true;
      return false;
    }
    return false;
  };
  CHECK_FALSE(waits({}));
  CHECK(waits(with(&Execution::symmetric_memory)));
}

TEST_CASE("gathered logits: every tensor rank computes the loss of the whole vocabulary",
          "[plan]") {
  const Layout layout = test::layout_for(2, 1, 1, 1);
  const Program split = program_of({}, layout);
  const Program gathered = program_of(with(&Execution::gathers_logits), layout);
  CHECK(forward_bytes(gathered, "cross_entropy") == 2 * forward_bytes(split, "cross_entropy"));
  CHECK(count(gathered, Action::gather_output) == 1);
  CHECK(count(gathered, Action::join_output) == 1);
  CHECK(count(gathered, Action::own_output) == 1);
  CHECK(count(gathered, Action::reduce_maximum) == 0);
  CHECK(count(split, Action::reduce_maximum) == 1);
  CHECK(memory_use(gathered).peak > memory_use(split).peak);
  // One rank has them all.
  CHECK(count(program_of(with(&Execution::gathers_logits), test::layout_for(1, 2, 1, 1)),
              Action::gather_output) == 0);
}

// 8 layers of 8 heads, 4 of keys and values.
Model llama_for_eight(const Framework& framework) {
  TransformerShape shape = *test::transformer(1).shape;
  shape.heads = 8;
  shape.kv_heads = shape.head_dim = 4;
  Model model = build_transformer(shape);
  run_with(framework, model);
  return model;
}

TEST_CASE("more tensor ranks than key/value heads gather queries, keys and values", "[plan]") {
  const Framework megatron = framework_of(FrameworkName::megatron);
  const Model model = llama_for_eight(megatron);
  REQUIRE(model.attention.kv_heads == 4);
  const int layers = static_cast<int>(model.layers.size());
  for (const bool sequence_parallel : {false, true}) {
    Layout layout = test::layout_for(8, 1, 1, 1);
    layout.sequence_parallel = sequence_parallel;
    REQUIRE(layout_problems(layout, model).empty());
    const Plan plan = make_plan(model, layout);
    check_plan(plan);
    const Program& program = plan.programs.front();
    check_operands(program);
    for (const Action action : {Action::gather_output, Action::join_output, Action::spread_gradient,
                                Action::scatter_output_gradient})
      CHECK(count(program, action) == layers);
    const Kernel& attention = first_kernel(program, "attention");
    CHECK(attention.heads == 1);
    CHECK(attention.kv_heads == 1);
    // The product is split as ever; what is gathered are the outputs of all ranks.
    const Kernel& product = first_kernel(program, "qkv");
    const std::int64_t features =
        (model.attention.heads + 2 * model.attention.kv_heads) * model.attention.head_dim;
    CHECK(product.n == features / 8);
    for (std::uint32_t i = 0; i < program.size(); ++i)
      if (program.action[i] == Action::gather_output ||
          program.action[i] == Action::scatter_output_gradient)
        CHECK(program.collectives[program.work[i]].bytes ==
              Bytes{product.m * features * bytes_of(layout.activation_dtype)});
    const Program fewer = make_plan(model, test::layout_for(4, 1, 1, 1)).programs.front();
    CHECK(count(fewer, Action::gather_output) == 0);
    CHECK(plan.parameters == model.parameters());
  }
}

TEST_CASE("who shares no key/value heads is told so", "[plan]") {
  const Model eager = llama_for_eight(framework_of(FrameworkName::pytorch));
  const Layout layout = test::layout_for(8, 1, 1, 1);
  REQUIRE(layout_problems(layout, eager).size() == 1);
  CHECK(layout_problems(layout, eager).front().what ==
        "tensor_parallel is 8, which does not divide 4 key/value heads; allowed: 1, 2, 4");
  const Model megatron = llama_for_eight(framework_of(FrameworkName::megatron));
  Layout operators = layout;
  operators.recompute = Recompute::operators;
  REQUIRE_FALSE(layout_problems(operators, megatron).empty());
}

TEST_CASE("gate and up-projection apart: two products, and two reductions of input gradients",
          "[plan]") {
  Framework framework;
  framework.joint_gate = false;
  const auto reductions = [&](const Framework& of, bool sequence_parallel) {
    Layout layout = test::layout_for(2, 1, 1, 1);
    layout.sequence_parallel = sequence_parallel;
    return count(program_of(of, layout), Action::sum_gradient);
  };
  CHECK(reductions(framework, false) == reductions({}, false) + 8);
  CHECK(reductions(framework, true) == reductions({}, true));
  const Program joint = program_of({}, test::layout_for(1, 1, 1, 1));
  const Program apart = program_of(framework, test::layout_for(1, 1, 1, 1));
  CHECK(first_kernel(apart, "mlp_up").n * 2 == first_kernel(joint, "mlp_up").n);
  CHECK(count(apart, Action::forward) == count(joint, Action::forward) + 8);
  CHECK(count(apart, Action::weight_gradient) == count(joint, Action::weight_gradient) + 8);
  CHECK(count(apart, Action::add_product_gradient) == 8);
}

TEST_CASE("an input that stays gathered costs memory and no second gather", "[plan]") {
  Layout layout = test::layout_for(2, 1, 1, 1);
  layout.sequence_parallel = true;
  const Program slice = program_of({}, layout);
  const Program whole = program_of(with(&Execution::keeps_gathered_inputs), layout);
  // QKV, up-projection and head gather once more backward where only a slice is kept.
  CHECK(count(slice, Action::gather_input) == 2 * (8 * 2 + 1));
  CHECK(count(whole, Action::gather_input) == 8 * 2 + 1);
  CHECK(memory_use(whole).peak > memory_use(slice).peak);
}

TEST_CASE("stages that send whole tensors gather nothing", "[plan]") {
  const Layout layout = test::layout_for(2, 1, 2, 2);
  const Program parts = program_of({}, layout, 1);
  const Program whole = program_of(with(&Execution::sends_whole), layout, 1);
  CHECK(whole.transfers.front().bytes == parts.transfers.front().bytes * 2);
  CHECK(count(parts, Action::gather_received) == 2);
  CHECK(count(whole, Action::gather_received) == 0);
}

TEST_CASE("a head that is recomputed runs again between the backward passes of loss and head",
          "[plan]") {
  Layout layout = test::layout_for(1, 1, 1, 1);
  layout.recompute = Recompute::full;
  const Program program = program_of(with(&Execution::recomputes_head), layout);
  std::vector<std::string> road;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    const bool end = program.label[i].layer < 0 && program.stream[i] == Stream::compute;
    const bool pass = program.pass[i] == Pass::recompute || program.pass[i] == Pass::backward;
    if (end && pass) road.push_back(program.name({i}));
  }
  road.resize(4);
  CHECK(road ==
        std::vector<std::string>{"cross_entropy", "final_norm", "head", "head.input_gradient"});
}

namespace {

// Operators with weights that take a tensor for themselves; its bytes must be those of the weights.
int placeholders(const Program& program) {
  int found = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.kind[i] == OpKind::cross_entropy) continue;
    for (const BufferUse& use : program.buffer_uses(OpId{i})) {
      if (use.role != Role::workspace || use.access != Access::write) continue;
      const Site& site = program.sites[program.subject[i]];
      CHECK(program.buffers[use.buffer.value].size == Bytes{2 * site.elements});
      ++found;
    }
  }
  return found;
}

std::int64_t persistent_gradients(const Program& program) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : program.buffers)
    if (buffer.persistent && buffer.category == BufferCategory::gradients)
      bytes += buffer.size.count();
  return bytes;
}

}  // namespace

TEST_CASE("a fused gradient leaves an empty one behind, which Transformer Engine keeps by shape",
          "[plan]") {
  const Layout layout = test::layout_for(2, 1, 1, 1);
  const auto with_form = [&](Placeholders form) {
    Framework framework;
    framework.execution.gradient_placeholders = form;
    return program_of(framework, layout);
  };
  const Program none = with_form(Placeholders::none);
  const Program temporary = with_form(Placeholders::temporary);
  const Program kept = with_form(Placeholders::kept);
  CHECK(placeholders(none) == 0);
  // Four linears in each of eight layers, the head, the embedding.
  CHECK(placeholders(temporary) == 4 * 8 + 2);
  CHECK(placeholders(kept) == 2);
  CHECK(persistent_gradients(temporary) == persistent_gradients(none));
  // The four shapes of a layer's weights, once for all layers.
  std::int64_t of_layer = 0;
  for (const Site& site : none.sites) {
    if (site.layer == 0 && site.elements > 100) of_layer += 2 * site.elements;
  }
  CHECK(persistent_gradients(kept) == persistent_gradients(none) + of_layer);
  CHECK(memory_use(temporary).peak >= memory_use(none).peak);
}

// The fp32 tensor of logits that a compiled loss takes besides what it keeps (ends.cpp).
TEST_CASE("a fused loss takes a second fp32 tensor of logits backward", "[plan]") {
  Framework framework;
  framework.loss = LossForm::separate;
  for (const int tensor : {1, 2}) {
    const Layout layout = test::layout_for(tensor, 1, 1, 2);
    const auto backward = [](const Program& program) {
      std::int64_t taken = 0, kept = 0;
      for (std::uint32_t i = 0; i < program.size(); ++i) {
        if (program.kind[i] != OpKind::cross_entropy || program.pass[i] != Pass::backward) continue;
        for (const BufferUse& use : program.buffer_uses(OpId{i})) {
          const std::int64_t bytes = program.buffers[use.buffer.value].size.count();
          if (use.access == Access::write) taken += bytes;
          if (use.role == Role::saved) kept += bytes;
        }
      }
      return std::pair{taken, kept};
    };
    const auto [fused, kept] = backward(program_of({}, layout));
    const auto [separate, same] = backward(program_of(framework, layout));
    CHECK(kept > 0);
    CHECK(kept == same);
    CHECK(fused == separate + kept);
  }
}

TEST_CASE("a loss in place: the logits become their gradient", "[plan]") {
  Framework framework;
  framework.loss = LossForm::in_place;
  for (const int tensor : {1, 2}) {
    const Layout layout = test::layout_for(tensor, 1, 1, 2);
    const Program in_place = program_of(framework, layout);
    const Program fused = program_of({}, layout);
    CHECK(memory_use(in_place).peak < memory_use(fused).peak);
    CHECK(forward_bytes(in_place, "cross_entropy") * 13 ==
          forward_bytes(fused, "cross_entropy") * 3);
    for (std::uint32_t i = 0; i < in_place.size(); ++i) {
      if (in_place.kind[i] != OpKind::cross_entropy || in_place.pass[i] != Pass::backward) continue;
      BufferId logits{}, gradient{};
      for (const BufferUse& use : in_place.buffer_uses(OpId{i})) {
        if (use.role == Role::input) logits = use.buffer;
        if (use.role == Role::input_gradient) gradient = use.buffer;
      }
      CHECK(logits == gradient);
    }
  }
}

TEST_CASE("a loss that keeps its logits has them as its input backward, and keeps nothing else",
          "[plan]") {
  Framework framework;
  framework.loss = LossForm::keeps_logits;
  for (const int tensor : {1, 2}) {
    const Program program = program_of(framework, test::layout_for(tensor, 2, 1, 2));
    int backward = 0;
    for (std::uint32_t i = 0; i < program.size(); ++i) {
      if (program.kind[i] != OpKind::cross_entropy) continue;
      for (const BufferUse& use : program.buffer_uses({i})) {
        CHECK(use.role != Role::saved);
        if (program.pass[i] == Pass::backward && use.role == Role::input) {
          CHECK(use.access == Access::free);
          ++backward;
        }
      }
    }
    CHECK(backward == 2);
  }
  // Logits and their gradient in 16 bits, where exponentials in fp32 would be beside.
  const Program fused = program_of(Framework{}, test::layout_for(1, 2, 1, 2));
  const Program kept = program_of(framework, test::layout_for(1, 2, 1, 2));
  CHECK(memory_use(kept).peak.count() < memory_use(fused).peak.count());
}

TEST_CASE("metrics take two fp32 tensors of logits when a backward pass is done", "[plan]") {
  Framework framework;
  framework.execution.loss_metrics = 2;
  const Layout layout = test::layout_for(1, 2, 1, 3);
  const Program program = program_of(framework, layout);
  REQUIRE(!program.scratches.empty());
  std::vector<OpId> ends;
  for (const auto& [op, scratch] : program.scratch_of_op) {
    if (program.scratches[scratch] == loss_metrics(Bytes{128 * 300 * 4}, 2)) ends.push_back(op);
  }
  REQUIRE(ends.size() == 3);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const std::uint32_t next = ends[i].value + 1;
    const bool forward = program.pass[next] == Pass::forward;
    CHECK(forward == (i < 2));
  }
}

namespace {

// Operators before which the host waits for `until`.
std::vector<OpId> waits_for(const Program& program, Action until) {
  std::vector<OpId> before;
  for (const HostWait& wait : program.host_waits)
    if (program.action[wait.until.value] == until) before.push_back(wait.before);
  return before;
}

// orders_all(): operators that a stream runs behind a wait of the host come after what it waited
// for.
bool orders_all(const Program& program) {
  const HappensBefore order{program};
  for (const HostWait& wait : program.host_waits)
    for (std::uint32_t op = wait.before.value; op < program.size(); ++op)
      if (!order.ordered(wait.until, OpId{op})) return false;
  return true;
}

}  // namespace

TEST_CASE("a host that asks for lengths waits before every attention", "[plan]") {
  const Layout layout = test::layout_for(2, 1, 1, 2);
  const Program program = program_of(with(&Execution::waits_for_lengths), layout);
  CHECK(program_of({}, layout).host_waits.empty());
  std::size_t attentions = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] != OpKind::attention || program.pass[op] != Pass::forward) continue;
    REQUIRE(attentions < program.host_waits.size());
    CHECK(program.host_waits[attentions].before == OpId{op});
    ++attentions;
  }
  CHECK(program.host_waits.size() == attentions);
  CHECK(orders_all(program));
}

TEST_CASE("a host that copies numbers before an MLP waits for the norm before it", "[plan]") {
  Layout layout = test::layout_for(2, 1, 1, 2);
  layout.recompute = Recompute::full;
  const Program program = program_of(with(&Execution::sync_before_mlp), layout);
  std::size_t layers = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.name({op}) != "mlp_up" || program.pass[op] == Pass::backward) continue;
    REQUIRE(layers < program.host_waits.size());
    CHECK(program.host_waits[layers].before == OpId{op});
    CHECK(program.name(program.host_waits[layers].until) == "post_attention_norm");
    ++layers;
  }
  CHECK(layers > 0);  // of forward passes and those that run again
  CHECK(program.host_waits.size() == layers);
  CHECK(orders_all(program));
}

TEST_CASE("a host waits for messages that nothing overlaps, once per pass", "[plan]") {
  Layout layout = test::layout_for(1, 1, 2, 4);
  layout.overlap_pipeline = false;
  const Program program = program_of(with(&Execution::waits_for_messages), layout);
  // The first stage waits before each of its backward passes, behind a message that came, and
  // before the forward passes that follow one that it sent.
  CHECK(waits_for(program, Action::receive).size() == 4);
  CHECK(orders_all(program));
  layout.overlap_pipeline = true;
  CHECK(program_of(with(&Execution::waits_for_messages), layout).host_waits.empty());
}

TEST_CASE("blocking launches: before every operator the host waits for the one before", "[plan]") {
  const Program program =
      program_of(with(&Execution::blocking_launches), test::layout_for(2, 2, 1, 1));
  REQUIRE(program.size() > 10);
  for (std::uint32_t op = 1; op < program.size(); ++op)
    CHECK(std::count(program.host_waits.begin(), program.host_waits.end(),
                     HostWait{OpId{op}, OpId{op - 1}}) == 1);
  CHECK(program.host_waits.size() == program.size() - 1);
}
