// How frameworks add, copy, reduce and apply gradients (sim/framework/pages/gradients.md).
#include <algorithm>
#include <set>

#include "sim/memory/memory.hpp"
#include "sim/program/happens_before.hpp"
#include "tests/unit/plan/framework_programs.hpp"

using namespace sim;
using test::count;
using test::first_kernel;
using test::llama_of;
using test::program_of;
using test::with;

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

TEST_CASE("buckets of DDP are a copy of the gradients that stays", "[plan]") {
  const auto copies = [](bool has, int data, int stage) {
    Framework framework;
    framework.execution.ddp_buckets = has;
    Layout layout = test::layout_for(1, data, 1, 2);
    layout.zero_stage = stage;
    const Program program = program_of(framework, layout);
    std::int64_t bytes = 0;
    for (const Buffer& buffer : program.buffers)
      if (buffer.category == BufferCategory::communication && buffer.persistent)
        bytes += buffer.size.count();
    return bytes;
  };
  std::int64_t parameters = 0;
  const Program program = program_of({}, test::layout_for(1, 2, 1, 2));
  for (const ParameterBucket& bucket : program.parameter_buckets)
    parameters += bucket.padded;
  CHECK(copies(true, 2, 0) - copies(false, 2, 0) == 2 * parameters);
  CHECK(copies(true, 2, 1) > copies(false, 2, 1));
  CHECK(copies(true, 2, 2) == copies(false, 2, 2));
  CHECK(copies(true, 1, 0) == copies(false, 1, 0));
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

TEST_CASE("an optimizer keeps and moves its own states", "[plan]") {
  struct Cost {
    std::int64_t state = 0, moved = 0;  // bytes per element
  };
  const auto cost = [](const Framework& framework, OptimizerKind kind, bool master = true,
                       DType moments = DType::fp32) {
    Layout layout = test::layout_for(1, 1, 1, 1);
    layout.gradient_dtype = DType::bf16;
    layout.optimizer = kind;
    layout.master_weights = master;
    layout.moment_dtype = moments;
    const Program program = program_of(framework, layout);
    std::int64_t elements = 0, state = 0;
    for (const ParameterBucket& bucket : program.parameter_buckets) {
      elements += bucket.elements;
      state += program.buffers[bucket.optimizer.value].size.count();
    }
    const std::string name{word(kind)};
    return Cost{state / elements, first_kernel(program, name).bytes.count() / elements};
  };
  const auto check = [](const Cost& found, std::int64_t state, std::int64_t moved) {
    CHECK(found.state == state);
    CHECK(found.moved == moved);
  };
  // Fused: the gradient read, the weight written, states and masters read and written.
  check(cost({}, OptimizerKind::adam), 12, 2 + 2 + 24);
  check(cost({}, OptimizerKind::lion), 8, 2 + 2 + 16);
  check(cost({}, OptimizerKind::momentum), 8, 2 + 2 + 16);
  check(cost({}, OptimizerKind::sgd), 4, 2 + 2 + 8);
  // Nothing but bf16: the weight is read and written.
  check(cost({}, OptimizerKind::adam, false, DType::bf16), 4, 2 + 2 + 8 + 2);
  check(cost({}, OptimizerKind::sgd, false), 0, 2 + 2 + 2);
  Framework eager;
  eager.optimizer = OptimizerForm::eager;
  check(cost(eager, OptimizerKind::adam), 12, 2 + 2 + 4 * 20);
  check(cost(eager, OptimizerKind::momentum), 8, 2 + 2 + 4 * 8);
  check(cost(eager, OptimizerKind::sgd), 4, 2 + 2 + 4 * 3);
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
