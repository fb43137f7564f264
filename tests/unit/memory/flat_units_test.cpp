#include "sim/memory/flat_units.hpp"

#include "sim/framework/framework.hpp"
#include "sim/memory/caching_allocator.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/models.hpp"
#include "tests/unit/plan/sketch.hpp"

using namespace sim;

namespace {

constexpr std::int64_t mib = 1 << 20;
constexpr std::int64_t states = 12;  // bytes of the optimizer

// An embedding and `layers` layers, 32 M parameters each, in 16 bits over 2 ranks: 64 MiB gathered,
// shards of 32 MiB in 16 bits and 64 in fp32. All sizes are multiples of those that segments have.
struct Fsdp {
  test::Sketch sketch{{}};
  std::vector<BufferId> gradients;
  static constexpr std::int64_t elements = 32 * mib;

  explicit Fsdp(int layers, DType wire) {
    Program& program = sketch.program;
    program.allocation = {.flat_parameters = true};
    program.collectives.push_back({CollectiveKind::reduce_scatter, GroupRole::data, wire, {}});
    for (int unit = 0; unit <= layers; ++unit)
      add_unit(unit == 0 ? BlockPlace::input : BlockPlace::layer);
  }

  BufferId buffer(std::int64_t bytes, BufferCategory category, bool persistent) {
    Buffer made;
    made.size = Bytes{bytes};
    made.category = category;
    made.persistent = persistent;
    sketch.program.buffers.push_back(made);
    return BufferId{static_cast<std::uint32_t>(sketch.program.buffers.size() - 1)};
  }

  void add_unit(BlockPlace place) {
    Program& program = sketch.program;
    ParameterBucket bucket;
    bucket.elements = bucket.padded = elements;
    bucket.shards = 2;
    bucket.weight = buffer(elements * 2, BufferCategory::gathered_parameters, false);
    bucket.weight_shard = buffer(elements, BufferCategory::weights, true);
    bucket.gradient_shard = buffer(elements, BufferCategory::gradients, true);
    bucket.optimizer = buffer(elements / 2 * states, BufferCategory::optimizer, true);
    Site site;
    site.place = place;
    site.bucket = static_cast<std::uint32_t>(program.parameter_buckets.size());
    site.elements = elements;
    program.parameter_buckets.push_back(bucket);
    program.sites.push_back(site);
    gradients.push_back(buffer(elements * 2, BufferCategory::gradients, false));
  }

  void add(Action action, std::uint32_t subject, Pass pass, const BufferUse& use) {
    sketch.add(OpKind::elementwise, Stream::compute, {}, {use});
    sketch.program.action.back() = action;
    sketch.program.subject.back() = subject;
    sketch.program.pass.back() = pass;
  }
  BufferId weight(std::uint32_t unit) const {
    return sketch.program.parameter_buckets[unit].weight;
  }
  void gather(std::uint32_t unit) {
    add(Action::gather_weights, unit, Pass::parameter_sync,
        {weight(unit), Access::write, Role::output});
  }
  void forward(std::uint32_t unit, bool ends = true) {
    add(Action::forward, unit, Pass::forward,
        {weight(unit), ends ? Access::free : Access::read, Role::weight});
  }
  void backward(std::uint32_t unit) {
    add(Action::backward, unit, Pass::backward, {weight(unit), Access::read, Role::weight});
    add(Action::weight_gradient, unit, Pass::backward,
        {gradients[unit], Access::write, Role::weight_gradient});
    add(Action::reduce, unit, Pass::gradient_sync, {gradients[unit], Access::free, Role::input});
    add(Action::backward, unit, Pass::backward, {weight(unit), Access::free, Role::weight});
  }
  CachedMemory memory(std::int64_t capacity) const {
    return cached_memory(sketch.program, Bytes{capacity * mib});
  }
  std::int64_t reserved() const { return memory(100'000).reserved.count() / mib; }
  std::int64_t parameters() const {
    return static_cast<std::int64_t>(gradients.size()) * elements / mib / 2 * states;
  }
};

}  // namespace

TEST_CASE("FSDP 1: shards are the fp32 masters, and the moments come later", "[plan]") {
  const Fsdp fsdp{1, DType::bf16};
  CHECK(fsdp.reserved() == fsdp.parameters());
}

TEST_CASE("FSDP 1: a unit is gathered when it is used, from a copy of the shard in 16 bits",
          "[plan]") {
  Fsdp fsdp{2, DType::bf16};
  fsdp.gather(1);
  CHECK(fsdp.reserved() == fsdp.parameters());
  fsdp.forward(1);
  CHECK(fsdp.reserved() == fsdp.parameters() + 64 + 32);
}

TEST_CASE("FSDP 1: the limiter lets two gathered units lie beside each other", "[plan]") {
  for (const int layers : {2, 3, 8}) {
    Fsdp fsdp{layers, DType::bf16};
    for (std::uint32_t unit = 1; unit <= static_cast<std::uint32_t>(layers); ++unit)
      fsdp.forward(unit);
    // A copy waits for the use before the one that frees the unit it was made for.
    CHECK(fsdp.reserved() == fsdp.parameters() + 2 * 64 + 2 * 32);
  }
}

TEST_CASE("FSDP 1: the root unit stays until its backward pass is done", "[plan]") {
  for (const int layers : {3, 8}) {
    Fsdp fsdp{layers, DType::bf16};
    fsdp.forward(0);
    for (std::uint32_t unit = 1; unit <= static_cast<std::uint32_t>(layers); ++unit)
      fsdp.forward(unit);
    CHECK(fsdp.reserved() == fsdp.parameters() + 3 * 64 + 3 * 32);
    // Its next forward pass finds it gathered; behind a backward pass it is a freed one.
    fsdp.forward(0);
    fsdp.backward(0);
    for (std::uint32_t unit = 1; unit <= static_cast<std::uint32_t>(layers); ++unit)
      fsdp.forward(unit);
    // Two gradients and their shards come to that.
    CHECK(fsdp.reserved() == fsdp.parameters() + 3 * 64 + 3 * 32 + 2 * 64 + 32 + 64);
  }
}

TEST_CASE("FSDP 1: gradients are put together, cast to what is reduced, and kept in fp32",
          "[plan]") {
  Fsdp fsdp{1, DType::bf16};
  Fsdp exact{1, DType::fp32};
  for (Fsdp* it : {&fsdp, &exact}) {
    it->backward(1);
  }
  // Gathered unit and copy; the part and the whole gradient; its shard in 16 bits and in fp32.
  CHECK(fsdp.reserved() == fsdp.parameters() + 64 + 32 + 2 * 64 + 32 + 64);
  // The message in fp32, and its shard.
  CHECK(exact.reserved() == exact.parameters() + 64 + 32 + 2 * 64 + 128 + 64);
}

TEST_CASE("FSDP 1: what a reduction reads is free two layers later", "[plan]") {
  const auto reserved = [](int layers) {
    Fsdp fsdp{layers, DType::bf16};
    for (std::uint32_t unit = static_cast<std::uint32_t>(layers); unit > 0; --unit)
      fsdp.backward(unit);
    return fsdp.reserved() - fsdp.parameters();
  };
  // Each layer keeps a shard of 64 MiB.
  const std::int64_t steady = reserved(8) - 8 * 64;
  CHECK(reserved(9) - 9 * 64 == steady);
  CHECK(reserved(12) - 12 * 64 == steady);
  // Two gathered, with copies; three whole gradients and a part.
  CHECK(steady == 2 * 64 + 2 * 32 + 4 * 64 + 3 * 32);
}

TEST_CASE("FSDP 1: a lowered step holds masters, moments and gradients in fp32", "[plan]") {
  Framework framework = framework_of(FrameworkName::pytorch);
  framework.execution.caching_allocator = framework.execution.flat_parameters = true;
  Model model = test::transformer(0);
  run_with(framework, model);
  Layout layout = test::layout_for(1, 4, 1, 2);
  layout.zero_stage = 3;
  const Plan plan = make_plan(model, layout);
  const Program& program = plan.programs.front();
  REQUIRE(program.allocation.flat_parameters);
  const CachedMemory memory = cached_memory(program, Bytes{1'000 * mib});
  CHECK(memory.fits);
  // Masters, moments and gradients in fp32, all of them at once.
  CHECK(memory.allocated.count() > plan.parameters / 4 * 16);
  layout.zero_stage = 1;
  CHECK_FALSE(make_plan(model, layout).programs.front().allocation.flat_parameters);
}

TEST_CASE("FSDP 1: an allocator at its limit waits for the streams", "[plan]") {
  Fsdp fsdp{8, DType::bf16};
  for (std::uint32_t unit = 8; unit > 0; --unit)
    fsdp.backward(unit);
  const std::int64_t wanted = fsdp.reserved();
  CHECK(fsdp.memory(wanted - 96).fits);
  CHECK_FALSE(fsdp.memory(fsdp.parameters()).fits);
}

TEST_CASE("FSDP 1: Adam takes two tensors of the largest shard", "[plan]") {
  Fsdp fsdp{1, DType::bf16};
  fsdp.add(Action::adam, Program::no_subject, Pass::optimizer,
           {fsdp.sketch.program.parameter_buckets[0].optimizer, Access::write, Role::state});
  CHECK(fsdp.reserved() == fsdp.parameters() + 2 * 64);
}
