// What frameworks do otherwise than Megatron-LM (sim/model/FRAMEWORKS.md).
#include <algorithm>
#include <set>

#include "sim/model/framework.hpp"
#include "sim/plan/happens_before.hpp"
#include "sim/plan/memory.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/scratch.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

// A small Llama: 8 layers, hidden 32, vocabulary 300 padded to 512 over two tensor ranks.
Model llama_of(const Framework& framework) {
  Model model = test::transformer(1);
  run_with(framework, model);
  return model;
}

Framework with(bool Execution::*key) {
  Framework framework;
  framework.execution.*key = true;
  return framework;
}

Program program_of(const Framework& framework, const Layout& layout, std::size_t stage = 0) {
  const Plan plan = make_plan(llama_of(framework), layout);
  check_plan(plan);
  return plan.programs[stage];
}

int count(const Program& program, Action action, int microbatch = -1) {
  int found = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.action[i] != action) continue;
    if (microbatch < 0 || program.label[i].microbatch == microbatch) ++found;
  }
  return found;
}

const Kernel& first_kernel(const Program& program, const std::string& name) {
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.name({i}) == name) return program.kernels[program.work[i]];
  }
  FAIL("no operator " << name);
  return program.kernels.front();
}

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

TEST_CASE("AsyncTP has copy engines move what linears of layers exchange", "[plan]") {
  Layout layout = test::layout_for(2, 1, 1, 1);
  layout.sequence_parallel = true;
  const auto moved = [&](bool async, Carrier carrier) {
    layout.overlap_tensor_wgrad = async;
    const Program program = program_of(with(&Execution::symmetric_memory), layout);
    return std::count_if(program.collectives.begin(), program.collectives.end(),
                         [&](const Collective& one) { return one.carrier == carrier; });
  };
  CHECK(moved(false, Carrier::copy_engines) == 0);
  CHECK(moved(true, Carrier::copy_engines) > 0);
  CHECK(moved(true, Carrier::nccl) > 0);  // of embedding, head and loss
}

TEST_CASE("gathered logits: every tensor rank computes the loss of the whole vocabulary",
          "[plan]") {
  const Layout layout = test::layout_for(2, 1, 1, 1);
  const Program split = program_of({}, layout);
  const Program gathered = program_of(with(&Execution::gathers_logits), layout);
  CHECK(forward_bytes(gathered, "cross_entropy") == 2 * forward_bytes(split, "cross_entropy"));
  CHECK(count(gathered, Action::gather_logits) == 1);
  CHECK(count(gathered, Action::join_logits) == 1);
  CHECK(count(gathered, Action::own_logits) == 1);
  CHECK(count(gathered, Action::reduce_maximum) == 0);
  CHECK(count(split, Action::reduce_maximum) == 1);
  CHECK(memory_use(gathered).peak > memory_use(split).peak);
  // One rank has them all.
  CHECK(count(program_of(with(&Execution::gathers_logits), test::layout_for(1, 2, 1, 1)),
              Action::gather_logits) == 0);
}

TEST_CASE("gradients of later micro-batches lie apart until a kernel adds them", "[plan]") {
  const Program program =
      program_of(with(&Execution::adds_gradients), test::layout_for(1, 1, 1, 3));
  CHECK(count(program, Action::add_weight_gradient, 0) == 0);
  const int each = count(program, Action::add_weight_gradient, 1);
  // Embedding, head and final norm; per layer two norms and four linears.
  CHECK(each == 3 + 8 * (2 + 4));
  CHECK(count(program, Action::add_weight_gradient, 2) == each);
  CHECK(count(program, Action::zero_gradients) == 0);
  // Two reads and a write of 16 bits each.
  const Kernel& product = first_kernel(program, "mlp_down.weight_gradient");
  CHECK(first_kernel(program, "mlp_down.add_gradient").bytes.count() ==
        3 * 2 * product.m * product.n);
}

TEST_CASE("Megatron-LM looks at gradients and scales them before they are reduced", "[plan]") {
  const auto prepared = [](bool scales, bool checks, const Layout& layout) {
    Framework framework;
    framework.execution.scales_gradients = scales;
    framework.execution.checks_gradients = checks;
    const Program program = program_of(framework, layout);
    std::int64_t bytes = 0;
    for (std::uint32_t i = 0; i < program.size(); ++i) {
      if (program.action[i] != Action::prepare_gradients) continue;
      CHECK(program.stream[i] == Stream::compute);
      bytes += program.kernels[program.work[i]].bytes.count();
    }
    return bytes;
  };
  const Layout replicas = test::layout_for(1, 2, 1, 2), alone = test::layout_for(1, 1, 1, 2);
  const Program program = program_of({}, replicas);
  std::int64_t gradients = 0;
  for (const ParameterBucket& bucket : program.parameter_buckets)
    gradients += bucket.padded * bytes_of(replicas.gradient_dtype);
  CHECK(prepared(false, false, replicas) == 0);
  CHECK(prepared(false, true, replicas) == gradients);
  CHECK(prepared(true, false, replicas) == 2 * gradients);
  CHECK(prepared(true, true, replicas) == 3 * gradients);
  // One replica is its own average, and is looked at all the same.
  CHECK(prepared(true, false, alone) == 0);
  CHECK(prepared(true, true, alone) > 0);
}

TEST_CASE("gradients are prepared before the collective that reads them", "[plan]") {
  Framework framework;
  framework.execution.scales_gradients = true;
  for (const bool overlapped : {false, true}) {
    Layout layout = test::layout_for(1, 2, 1, 2);
    layout.overlap_gradients = overlapped;
    const Program program = program_of(framework, layout);
    std::vector<int> order(program.parameter_buckets.size());
    for (std::uint32_t i = 0; i < program.size(); ++i) {
      if (program.action[i] == Action::prepare_gradients) CHECK(order[program.subject[i]]++ == 0);
      if (program.action[i] == Action::reduce) CHECK(order[program.subject[i]]++ == 1);
    }
    CHECK(std::ranges::count(order, 2) == static_cast<std::ptrdiff_t>(order.size()));
  }
}

TEST_CASE("clipping and new weights as passes of their own move more bytes", "[plan]") {
  const Layout layout = test::layout_for(1, 2, 1, 1);
  const auto adam = [&](const Framework& framework) {
    return first_kernel(program_of(framework, layout), "adam").bytes.count();
  };
  const std::int64_t gradient = bytes_of(layout.gradient_dtype);
  const std::int64_t usual = gradient + bytes_of(layout.activation_dtype) + 24;
  REQUIRE(layout.master_weights);
  REQUIRE(adam({}) % usual == 0);
  CHECK(adam(with(&Execution::separate_update)) ==
        adam({}) + adam({}) / usual * (2 * gradient + 4));
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

TEST_CASE("ZeRO-1 by all-reduce reduces everything on every rank", "[plan]") {
  Layout layout = test::layout_for(1, 4, 1, 1);
  layout.zero_stage = 1;
  layout.reduce_dtype = DType::fp32;
  const auto kind = [&](const Framework& framework) {
    const Program program = program_of(framework, layout);
    for (std::uint32_t i = 0; i < program.size(); ++i)
      if (program.action[i] == Action::reduce) return program.collectives[program.work[i]].kind;
    return CollectiveKind::barrier;
  };
  CHECK(kind({}) == CollectiveKind::reduce_scatter);
  CHECK(kind(with(&Execution::all_reduces_gradients)) == CollectiveKind::all_reduce);
}

namespace {

Framework deepspeed() {
  return framework_of(FrameworkName::megatron_deepspeed);
}

// Sums over the kernels of an action, and elements over the buckets that it stands for.
struct BucketWork {
  std::int64_t bytes = 0, elements = 0, owned = 0;
};
BucketWork bucket_work(const Program& program, Action action) {
  BucketWork work;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.action[i] != action) continue;
    const ParameterBucket& bucket = program.parameter_buckets[program.subject[i]];
    work.bytes += program.kernels[program.work[i]].bytes.count();
    work.elements += bucket.elements;
    work.owned += (bucket.elements + bucket.shards - 1) / bucket.shards;
  }
  return work;
}

std::set<CollectiveKind> reductions(const Program& program) {
  std::set<CollectiveKind> kinds;
  for (std::uint32_t i = 0; i < program.size(); ++i)
    if (program.action[i] == Action::reduce)
      kinds.insert(program.collectives[program.work[i]].kind);
  return kinds;
}

}  // namespace

TEST_CASE("DeepSpeed's ZeRO copies gradients into a bucket, and its own ones out of it", "[plan]") {
  for (const int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    Layout layout = test::layout_for(1, 4, 1, 1);
    layout.zero_stage = stage;
    const Program program = program_of(deepspeed(), layout);
    const bool whole = stage < 3;
    CHECK(reductions(program) ==
          std::set{whole ? CollectiveKind::all_reduce : CollectiveKind::reduce_scatter});
    const BucketWork out = bucket_work(program, Action::cast_out);
    const BucketWork in = bucket_work(program, Action::cast_in);
    CHECK(out.elements > 0);
    // 16 bits: into the bucket, divided, by owner; without ZeRO put together and divided.
    CHECK(out.bytes == (stage == 0 ? 8 : 12) * out.elements);
    CHECK(in.bytes == (stage == 0 ? 4 * in.elements : (stage == 3 ? 4 : 8) * in.owned));
  }
}

TEST_CASE("DeepSpeed's ZeRO has buckets of full size, two where they take turns", "[plan]") {
  const auto extra = [](int stage, bool overlap, std::int64_t bytes) {
    Layout layout = test::layout_for(1, 4, 1, 1);
    layout.zero_stage = stage;
    layout.overlap_gradients = overlap;
    layout.bucket = layout.first_bucket = Bytes{bytes};
    const auto peak = [&](const Framework& framework) {
      return memory_use(program_of(framework, layout)).peak.count();
    };
    Framework in_place = deepspeed();
    in_place.execution.gradient_buckets = GradientBuckets::copied;
    return stage < 2 ? peak(deepspeed()) - peak(in_place) : peak(deepspeed());
  };
  constexpr std::int64_t large = 1 << 30;
  CHECK(extra(0, false, large) == 0);
  CHECK(extra(1, false, large) == large);
  CHECK(extra(1, true, large) == 2 * large);
  CHECK(extra(2, true, 2 * large) - extra(2, true, large) == 2 * large);
  CHECK(extra(3, true, 2 * large) - extra(3, true, large) == large);
}

TEST_CASE("DeepSpeed converts every micro-batch's gradients where they are kept in fp32",
          "[plan]") {
  Layout layout = test::layout_for(1, 2, 1, 3);
  layout.zero_stage = 1;
  const Program kept = program_of(deepspeed(), layout);
  layout.gradient_dtype = DType::fp32;
  const Program converted = program_of(deepspeed(), layout);
  CHECK(count(kept, Action::add_weight_gradient, 0) == 0);
  CHECK(count(converted, Action::add_weight_gradient, 0) ==
        count(kept, Action::add_weight_gradient, 1));
  const Kernel& product = first_kernel(converted, "mlp_down.weight_gradient");
  CHECK(product.bytes == first_kernel(kept, "mlp_down.weight_gradient").bytes);
  // Zeroed 2, added to 6, read 2 and written 4, added to the sum 12.
  CHECK(first_kernel(converted, "mlp_down.add_gradient").bytes.count() ==
        26 * product.m * product.n);
  CHECK(count(converted, Action::zero_gradients) == 1);
  std::int64_t padded = 0;
  for (const ParameterBucket& bucket : converted.parameter_buckets)
    padded += bucket.padded;
  // Sums in fp32 beside what autograd holds in 16 bits.
  const auto gradients = [](const Program& program) {
    return memory_use(program).at_peak[static_cast<std::size_t>(BufferCategory::gradients)].count();
  };
  CHECK(gradients(converted) >= 6 * padded);
  CHECK(gradients(kept) < 4 * padded);
}

TEST_CASE("what DeepSpeed's optimizers read and write per element", "[plan]") {
  struct Traffic {
    std::int64_t norm = 0, adam = 0;
  };
  const auto traffic = [](int stage, DType weights, DType gradients, bool master = true) {
    Layout layout = test::layout_for(1, 1, 1, 1);
    layout.zero_stage = stage;
    layout.compute_dtype = layout.activation_dtype = layout.reduce_dtype = weights;
    layout.gradient_dtype = gradients;
    layout.master_weights = master;
    const Program program = program_of(deepspeed(), layout);
    std::int64_t elements = 0;
    for (const ParameterBucket& bucket : program.parameter_buckets)
      elements += bucket.elements;
    return Traffic{first_kernel(program, "gradient_norm").bytes.count() / elements,
                   first_kernel(program, "adam").bytes.count() / elements};
  };
  // ZeRO: the norm in fp64; gradients put together 4, in fp32 6, scaled 8, Adam 28, weights 6.
  const Traffic zero = traffic(2, DType::bf16, DType::bf16);
  CHECK(zero.norm == 18);
  CHECK(zero.adam == 52);
  // With fp16 all of them looked through first.
  CHECK(traffic(2, DType::fp16, DType::fp16).norm == 46);
  // FP16_Optimizer.
  const Traffic half = traffic(0, DType::fp16, DType::fp16);
  CHECK(half.norm == 14);
  CHECK(half.adam == 56);
  // BF16_Optimizer: clipped where they lie 8, Adam 28, weights 6.
  const Traffic brain = traffic(1, DType::bf16, DType::fp32);
  CHECK(brain.norm == 4);
  CHECK(brain.adam == 42);
  // None around fp32: Adam alone.
  const Traffic single = traffic(0, DType::fp32, DType::fp32, false);
  CHECK(single.norm == 4);
  CHECK(single.adam == 28);
}

TEST_CASE("without overlap compute waits for each reduction of ZeRO-2 and 3", "[plan]") {
  for (const int stage : {2, 3}) {
    Layout layout = test::layout_for(1, 4, 1, 2);
    layout.zero_stage = stage;
    layout.bucket = layout.first_bucket = Bytes{1024};
    for (const bool overlap : {true, false}) {
      layout.overlap_gradients = overlap;
      const Program program = program_of({}, layout);
      const HappensBefore order{program};
      int waited = 0, reduced = 0;
      for (std::uint32_t i = 0; i < program.size(); ++i) {
        if (program.action[i] != Action::reduce) continue;
        ++reduced;
        std::uint32_t next = i + 1;
        while (next < program.size() && program.stream[next] != Stream::compute)
          ++next;
        if (next < program.size() && order.ordered(OpId{i}, OpId{next})) ++waited;
      }
      CHECK(reduced > 4);
      if (overlap) {
        CHECK(waited < reduced);
      } else {
        CHECK(waited == reduced);
      }
    }
  }
}

TEST_CASE("buckets that are reduced whole under ZeRO-2 are copied", "[plan]") {
  Layout layout = test::layout_for(1, 4, 1, 1);
  layout.zero_stage = 2;
  const auto problems = [&](bool whole, GradientBuckets buckets) {
    Framework framework;
    framework.execution.all_reduces_gradients = whole;
    framework.execution.gradient_buckets = buckets;
    return layout_problems(layout, llama_of(framework));
  };
  CHECK(problems(false, GradientBuckets::flat).empty());
  CHECK(problems(true, GradientBuckets::sliced).empty());
  REQUIRE(problems(true, GradientBuckets::flat).size() == 1);
  CHECK(problems(true, GradientBuckets::flat).front().what ==
        "zero_stage is 2 with gradient_buckets flat and all_reduces_gradients; allowed: "
        "zero_stage 0, 1, or gradient_buckets sliced");
  CHECK(problems(false, GradientBuckets::copied).size() == 1);
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

// Operators that take a tensor for themselves; its bytes must be those of their weights.
int placeholders(const Program& program) {
  int found = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
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
